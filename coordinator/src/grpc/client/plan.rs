//! `Client.Plan`: the plan now in force.

use shockwave_proto::v1::PlanReply;
use tonic::Status;

use crate::service::{Shared, view};

pub(super) async fn plan(shared: &Shared) -> Result<PlanReply, Status> {
    shared.handle.ask(|owner| Ok(view::plan(owner))).await
}
