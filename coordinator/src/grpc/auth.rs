//! Who calls: a user by token, a training process by its job's token.

use shockwave_proto::AUTHORIZATION;
use shockwave_proto::v1::TokenInfo;
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::launcher::Pass;
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

/// Finds out which token a call carries; `None`: that of the coordinator's own user.
fn known_token(shared: &Shared, metadata: &MetadataMap) -> Result<Option<TokenInfo>, Status> {
    let token = bearer(metadata)?;
    if secrets::matches(token, &shared.local_token_digest) {
        return Ok(None);
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
    Ok(Some(info.clone()))
}

/// Finds out who the caller is.
///
/// # Errors
/// `UNAUTHENTICATED`; `PERMISSION_DENIED` for an agent's token.
pub fn check_user(shared: &Shared, metadata: &MetadataMap) -> Result<Caller, Status> {
    match known_token(shared, metadata)? {
        None => Ok(Caller { user: shared.local_user.clone(), is_admin: true }),
        Some(info) if info.is_agent => {
            tracing::warn!(target: "audit", id = info.id, "a user's call with an agent's token");
            Err(Status::permission_denied("this token carries an agent, not a user"))
        }
        Some(info) => Ok(Caller { user: info.user, is_admin: info.is_admin }),
    }
}

/// The pilot whose token a call carries.
fn known_pilot(shared: &Shared, metadata: &MetadataMap) -> Result<Option<Pass>, Status> {
    let digest = secrets::digest(bearer(metadata)?);
    let pilots = shared.pilots.borrow().clone();
    // What is compared are digests: how long that takes tells nothing of a token.
    Ok(pilots.iter().find(|pass| pass.digest == digest).cloned())
}

/// Checks that the caller may speak for a machine. The token to bind to it, where the call carries
/// one for agents that no machine has used yet.
///
/// # Errors
/// `UNAUTHENTICATED`, `PERMISSION_DENIED`.
pub fn check_agent(
    shared: &Shared,
    metadata: &MetadataMap,
    node: &str,
) -> Result<Option<u64>, Status> {
    let denied = |sentence: String| {
        tracing::warn!(target: "audit", node, "an agent's call was refused: {sentence}");
        Err(Status::permission_denied(sentence))
    };
    if let Some(pass) = known_pilot(shared, metadata)? {
        if pass.admits(node) {
            return Ok(None);
        }
        return denied(format!("this token belongs to pilot {}", pass.pilot));
    }
    match known_token(shared, metadata)? {
        None => Ok(None),
        Some(info) if info.is_admin => Ok(None),
        Some(info) if !info.is_agent => {
            denied("this needs a token for agents (`shockwave token create NAME --agent`)".into())
        }
        Some(info) if info.node.is_empty() => Ok(Some(info.id)),
        Some(info) if info.node == node => Ok(None),
        Some(info) => denied(format!("token {} belongs to machine {}", info.id, info.node)),
    }
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
