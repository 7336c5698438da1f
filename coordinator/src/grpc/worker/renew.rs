//! `Worker.Renew`: rank 0 keeps its lease, and hears what is to be done.

use shockwave_proto::v1::directive::Kind;
use shockwave_proto::v1::{Directive, LeaseRef, Position, Revoked};
use tonic::Status;

use crate::service::owner::Owner;
use crate::service::record::Record;
use crate::service::{Shared, check};

pub(super) async fn renew(
    shared: &Shared,
    lease: LeaseRef,
    position: Option<Position>,
) -> Result<Directive, Status> {
    // Before its first step a process knows no position: what is known stays.
    let position = position.filter(|it| it.batch > 0).map(check::position);
    shared.handle.ask(move |owner| take_renewal(owner, lease, position)).await
}

/// Renews a lease.
///
/// # Errors
/// `FAILED_PRECONDITION` for one that is not its job's newest; as [`Owner::append`].
pub fn take_renewal(
    owner: &mut Owner,
    lease: LeaseRef,
    position: Option<Position>,
) -> Result<Directive, Status> {
    super::fenced(owner, lease)?;
    let (job, lease_epoch) = (lease.job_id, lease.lease_epoch);
    let effects = owner.append(&Record::Renewed { job, lease_epoch, position })?;
    // The engine answers every renewal; where it refuses, the lease is not valid.
    Ok(effects.directive.unwrap_or_else(|| {
        let reason = effects.refusal.map_or_else(String::new, |refusal| refusal.to_string());
        Directive { kind: Some(Kind::Revoked(Revoked { reason })) }
    }))
}
