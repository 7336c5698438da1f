//! A copy of the store that a coordinator can be started on, taken while this one runs.

use std::path::PathBuf;

use shockwave_proto::v1::SnapshotReply;
use tonic::Status;

use crate::service::Shared;
use crate::store;

pub(super) async fn snapshot(shared: &Shared, folder: String) -> Result<SnapshotReply, Status> {
    let folder = PathBuf::from(folder);
    if !folder.is_absolute() {
        return Err(Status::invalid_argument("folder is not an absolute path"));
    }
    // Everything that was acknowledged before the call is in the copy.
    shared.handle.ask(|_| Ok(())).await?;
    let database = shared.database.clone();
    let copied = tokio::task::spawn_blocking(move || store::copy(&database, &folder)).await;
    let copied = copied.map_err(|error| Status::internal(error.to_string()))?;
    let (number, size_bytes) =
        copied.map_err(|error| Status::failed_precondition(error.to_string()))?;
    Ok(SnapshotReply { number, size_bytes })
}
