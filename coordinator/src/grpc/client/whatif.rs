//! `Client.WhatIf`: the live state played on in the simulator, beside everything else.

use std::sync::Arc;

use shockwave_proto::v1::{WhatIfReply, WhatIfRequest};
use tokio::sync::Semaphore;
use tonic::Status;

use crate::service::{Shared, whatif};

pub(super) async fn what_if(
    shared: &Shared,
    forks: &Arc<Semaphore>,
    request: WhatIfRequest,
) -> Result<WhatIfReply, Status> {
    whatif::check(&request)?;
    let busy = |_| Status::resource_exhausted("another what-if is being played; try again soon");
    let permit = Arc::clone(forks).try_acquire_owned().map_err(busy)?;
    let question = shared.handle.ask(move |owner| whatif::Question::of(owner, request)).await?;
    // Whoever asked may go away: it is played to its limit all the same, and counts until then.
    let play = move || {
        let answer = question.answer();
        drop(permit);
        answer
    };
    let answer = tokio::task::spawn_blocking(play).await;
    answer.map_err(|error| Status::internal(format!("the what-if broke off: {error}")))?
}
