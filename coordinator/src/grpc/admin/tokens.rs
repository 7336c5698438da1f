//! Tokens: made, listed, revoked. A secret is shown once and kept as a digest only.

use shockwave_proto::v1::{CreateTokenReply, CreateTokenRequest, ListTokensReply, TokenInfo};
use tonic::Status;

use crate::secrets;
use crate::service::owner::Owner;
use crate::service::record::Record;
use crate::service::{Shared, check};
use crate::store::unix_now_s;

/// Longest lifetime of a token, seconds: ten years.
const LIFETIME_MAX_S: f64 = 10.0 * 366.0 * 86_400.0;

pub(super) async fn create(
    shared: &Shared,
    request: CreateTokenRequest,
) -> Result<CreateTokenReply, Status> {
    check::user(&request.user)?;
    check::name("note", &request.note)?;
    if !(0.0..=LIFETIME_MAX_S).contains(&request.lifetime_s) {
        let got = request.lifetime_s;
        let sentence = format!("lifetime_s is {got}, expected 0 to {LIFETIME_MAX_S}");
        return Err(Status::invalid_argument(sentence));
    }
    if request.is_admin && request.is_agent {
        let sentence = "is_admin and is_agent are both set, expected one of them";
        return Err(Status::invalid_argument(sentence));
    }
    let secret = format!("swt_{}", secrets::random_hex(32));
    let digest = secrets::digest(&secret);
    let ask = move |owner: &mut Owner| {
        let now_s = unix_now_s();
        let expires = (request.lifetime_s > 0.0).then_some(now_s + request.lifetime_s);
        let token = TokenInfo {
            id: owner.state.book.tokens.last_key_value().map_or(0, |(id, _)| *id) + 1,
            user: request.user,
            is_admin: request.is_admin,
            made_unix_s: now_s,
            expires_unix_s: expires,
            revoked_unix_s: None,
            note: request.note,
            is_agent: request.is_agent,
            node: String::new(),
        };
        owner.append(&Record::TokenAdded { token: token.clone(), digest })?;
        owner.publish_accounts();
        Ok(CreateTokenReply { token: Some(token), secret })
    };
    shared.handle.ask(ask).await
}

pub(super) async fn list(shared: &Shared) -> Result<ListTokensReply, Status> {
    let ask = |owner: &mut Owner| {
        let tokens = owner.state.book.tokens.values().map(|token| token.info.clone());
        Ok(ListTokensReply { tokens: tokens.collect() })
    };
    shared.handle.ask(ask).await
}

pub(super) async fn revoke(shared: &Shared, id: u64) -> Result<TokenInfo, Status> {
    let ask = move |owner: &mut Owner| {
        let missing = || Status::not_found(format!("there is no token {id}"));
        let known = owner.state.book.tokens.get(&id).ok_or_else(missing)?;
        if known.info.revoked_unix_s.is_none() {
            owner.append(&Record::TokenRevoked { id })?;
            owner.publish_accounts();
        }
        let known = owner.state.book.tokens.get(&id).ok_or_else(missing)?;
        Ok(known.info.clone())
    };
    shared.handle.ask(ask).await
}
