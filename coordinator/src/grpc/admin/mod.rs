//! The service `Admin`: what administrators do.

mod snapshot;
mod tokens;

use std::sync::Arc;

use shockwave_proto::v1::admin_server::Admin;
use shockwave_proto::v1::{
    CreateTokenReply, CreateTokenRequest, DrainNodeRequest, ListTokensReply, ListTokensRequest,
    NodeInfo, RevokeTokenRequest, SnapshotReply, SnapshotRequest, TokenInfo, UserTerms,
};
use tonic::{Request, Response, Status};

use super::auth;
use super::client::cluster;
use crate::service::owner::Owner;
use crate::service::record::Record;
use crate::service::{Shared, check};

/// The service's state.
pub struct AdminService {
    shared: Arc<Shared>,
}

impl AdminService {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn check<T>(&self, request: &Request<T>) -> Result<(), Status> {
        auth::check_admin(&self.shared, request.metadata()).map(|_| ())
    }
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn create_token(
        &self,
        request: Request<CreateTokenRequest>,
    ) -> Result<Response<CreateTokenReply>, Status> {
        self.check(&request)?;
        tokens::create(&self.shared, request.into_inner()).await.map(Response::new)
    }

    async fn list_tokens(
        &self,
        request: Request<ListTokensRequest>,
    ) -> Result<Response<ListTokensReply>, Status> {
        self.check(&request)?;
        tokens::list(&self.shared).await.map(Response::new)
    }

    async fn revoke_token(
        &self,
        request: Request<RevokeTokenRequest>,
    ) -> Result<Response<TokenInfo>, Status> {
        self.check(&request)?;
        tokens::revoke(&self.shared, request.into_inner().id).await.map(Response::new)
    }

    async fn set_user(&self, request: Request<UserTerms>) -> Result<Response<UserTerms>, Status> {
        self.check(&request)?;
        let mut terms = request.into_inner();
        check::user(&terms.user)?;
        let ask = move |owner: &mut Owner| {
            if terms.weight == 0.0 {
                terms.weight = owner.state.book.users.get(&terms.user).map_or(1.0, |it| it.weight);
            }
            check::weight(terms.weight)?;
            owner.append(&Record::UserSet { terms: terms.clone() })?;
            Ok(terms)
        };
        self.shared.handle.ask(ask).await.map(Response::new)
    }

    async fn drain_node(
        &self,
        request: Request<DrainNodeRequest>,
    ) -> Result<Response<NodeInfo>, Status> {
        self.check(&request)?;
        let DrainNodeRequest { node: name, drained, reason: why } = request.into_inner();
        check::name("reason", &why)?;
        let ask = move |owner: &mut Owner| {
            let known = |owner: &Owner| owner.state.book.nodes.get(&name).cloned();
            let missing = || Status::not_found(format!("there is no machine {name:?}"));
            if known(owner).ok_or_else(missing)?.drained != drained {
                owner.append(&Record::Drained { node: name.clone(), drained, why })?;
            }
            let node = known(owner).ok_or_else(missing)?;
            Ok(cluster::info(owner, &cluster::Holders::of(owner), &name, &node))
        };
        self.shared.handle.ask(ask).await.map(Response::new)
    }

    async fn snapshot(
        &self,
        request: Request<SnapshotRequest>,
    ) -> Result<Response<SnapshotReply>, Status> {
        self.check(&request)?;
        snapshot::snapshot(&self.shared, request.into_inner().folder).await.map(Response::new)
    }
}
