//! Who calls: a user by token, a training process by its job's token.

use shockwave_proto::AUTHORIZATION;
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::secrets;
use crate::service::Shared;
use crate::store::unix_now_s;

/// A caller of the service `Client`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Account name.
    pub user: String,
    /// Whether other users' jobs may be touched.
    pub is_admin: bool,
}

fn bearer(metadata: &MetadataMap) -> Result<&str, Status> {
    let value = metadata.get(AUTHORIZATION).ok_or_else(|| {
        Status::unauthenticated("no token was sent (expected `authorization: Bearer TOKEN`)")
    })?;
    let text = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    text.ok_or_else(|| Status::unauthenticated("the authorization is not `Bearer TOKEN`"))
}

/// Checks a training process's token.
///
/// # Errors
/// `UNAUTHENTICATED`.
pub fn check_job(shared: &Shared, metadata: &MetadataMap, job: u64) -> Result<(), Status> {
    let token = bearer(metadata)?;
    if secrets::matches(token, &secrets::digest(&job_token(&shared.secret, job))) {
        Ok(())
    } else {
        Err(Status::unauthenticated(format!("the token is not that of job {job}")))
    }
}

/// The secret with which a job's processes speak for it.
#[must_use]
pub fn job_token(secret: &str, job: u64) -> String {
    secrets::digest(&format!("{secret}/job-token/{job}"))
}

/// Finds out who the caller is.
///
/// # Errors
/// `UNAUTHENTICATED`.
pub fn check_user(shared: &Shared, metadata: &MetadataMap) -> Result<Caller, Status> {
    let token = bearer(metadata)?;
    if secrets::matches(token, &shared.local_token_digest) {
        return Ok(Caller { user: shared.local_user.clone(), is_admin: true });
    }
    let tokens = shared.accounts.borrow().clone();
    let Some(known) = tokens.iter().find(|known| secrets::matches(token, &known.digest)) else {
        tracing::warn!(target: "audit", "a call with an unknown or revoked token was refused");
        return Err(Status::unauthenticated("the token is not known here, or was revoked"));
    };
    let info = &known.info;
    if info.expires_unix_s.is_some_and(|end_s| end_s <= unix_now_s()) {
        tracing::warn!(target: "audit", id = info.id, "a call with an expired token was refused");
        return Err(Status::unauthenticated(format!("token {} has expired", info.id)));
    }
    Ok(Caller { user: info.user.clone(), is_admin: info.is_admin })
}

/// Finds out who the caller is, who must be an administrator.
///
/// # Errors
/// `UNAUTHENTICATED`, `PERMISSION_DENIED`.
pub fn check_admin(shared: &Shared, metadata: &MetadataMap) -> Result<Caller, Status> {
    let caller = check_user(shared, metadata)?;
    if caller.is_admin {
        return Ok(caller);
    }
    tracing::warn!(target: "audit", user = caller.user, "an administrator's call was refused");
    Err(Status::permission_denied("this needs an administrator's token"))
}
