//! `Worker.Declare`: a process says what its job is going to do.

use shockwave_proto::PROTOCOL_VERSION;
use shockwave_proto::v1::{DeclareReply, DeclareRequest, LeaseRef};
use tonic::Status;

use crate::service::actions::to_ms;
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
    let ask = move |owner: &mut crate::service::owner::Owner| {
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
    };
    shared.handle.ask(ask).await
}
