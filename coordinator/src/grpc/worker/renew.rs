//! `Worker.Renew`: rank 0 keeps its lease, and hears what is to be done.

use shockwave_proto::v1::directive::Kind;
use shockwave_proto::v1::{Directive, LeaseRef, Position, Revoked};
use tonic::Status;

use crate::service::record::Record;
use crate::service::{Shared, check};

pub(super) async fn renew(
    shared: &Shared,
    lease: LeaseRef,
    position: Option<Position>,
) -> Result<Directive, Status> {
    let position = position.map(check::position);
    let ask = move |owner: &mut crate::service::owner::Owner| {
        super::fenced(owner, lease)?;
        let (job, lease_epoch) = (lease.job_id, lease.lease_epoch);
        let effects = owner.append(&Record::Renewed { job, lease_epoch, position })?;
        // The engine answers every renewal; where it refuses, the lease is not valid.
        Ok(effects.directive.unwrap_or_else(|| {
            let reason = effects.refusal.map_or_else(String::new, |refusal| refusal.to_string());
            Directive { kind: Some(Kind::Revoked(Revoked { reason })) }
        }))
    };
    shared.handle.ask(ask).await
}
