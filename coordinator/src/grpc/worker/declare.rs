//! `Worker.Declare`: a process says what its job is going to do.

use shockwave_proto::PROTOCOL_VERSION;
use shockwave_proto::v1::{Declaration, DeclareReply, DeclareRequest, LeaseRef};
use tonic::Status;

use crate::service::actions::to_ms;
use crate::service::owner::Owner;
use crate::service::record::Record;
use crate::service::{Shared, check};

pub(super) async fn declare(
    shared: &Shared,
    lease: LeaseRef,
    request: DeclareRequest,
) -> Result<DeclareReply, Status> {
    super::check_version(request.protocol_version, "the job's SDK")?;
    let declaration = request.declaration;
    if let Some(declaration) = &declaration {
        check::declaration(declaration)?;
    }
    shared.handle.ask(move |owner| take_declaration(owner, lease, declaration)).await
}

/// Takes what a job says it is going to do. It has been checked.
///
/// # Errors
/// `FAILED_PRECONDITION` for a lease that is not its job's newest; as [`Owner::append`].
pub fn take_declaration(
    owner: &mut Owner,
    lease: LeaseRef,
    declaration: Option<Declaration>,
) -> Result<DeclareReply, Status> {
    let job = super::fenced(owner, lease)?;
    let known = job.has_sdk && job.request.declaration == declaration;
    if let (Some(declaration), false) = (declaration, known) {
        owner.append(&Record::Declared {
            job: lease.job_id,
            lease_epoch: lease.lease_epoch,
            declaration: Box::new(declaration),
        })?;
    }
    let job = super::fenced(owner, lease)?;
    let settings = &owner.state.configuration.engine;
    Ok(DeclareReply {
        acknowledged: job.acknowledged,
        ttl_ms: to_ms(settings.ttl_s),
        grace_ms: to_ms(job.grace_s(settings)),
        checkpoint: job.checkpoint.clone(),
        protocol_version: PROTOCOL_VERSION,
    })
}
