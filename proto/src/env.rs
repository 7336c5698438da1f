//! The environment that an agent gives a training process.

/// Address of the coordinator: `http://HOST:PORT` or `https://HOST:PORT`. Absent: train offline.
pub const COORDINATOR: &str = "SHOCKWAVE_COORDINATOR";
/// Number of the job: decimal, from 1.
pub const JOB_ID: &str = "SHOCKWAVE_JOB_ID";
/// Epoch of the lease: decimal, from 1; the fence in every call.
pub const LEASE_EPOCH: &str = "SHOCKWAVE_LEASE_EPOCH";
/// How long the lease lasts from the start of the process, milliseconds.
pub const LEASE_TTL_MS: &str = "SHOCKWAVE_LEASE_TTL_MS";
/// Longest time from the asking of a yield (or SIGTERM) to the kill, milliseconds.
pub const GRACE_MS: &str = "SHOCKWAVE_GRACE_MS";
/// Secret with which the process speaks for its job. Never printed, never logged.
pub const JOB_TOKEN: &str = "SHOCKWAVE_JOB_TOKEN";
/// Folder for events that are not acknowledged yet; the same for every process of a job.
pub const SPOOL_DIR: &str = "SHOCKWAVE_SPOOL_DIR";
/// Folder for checkpoints; the same for every process of a job.
pub const CHECKPOINT_DIR: &str = "SHOCKWAVE_CHECKPOINT_DIR";
/// Device slots of this process on its machine: decimal indices, separated by commas. Set for CPU
/// slots and for GPUs (where `CUDA_VISIBLE_DEVICES` says the same).
pub const SLOT: &str = "SHOCKWAVE_SLOT";
/// Names the process together with the lease: how an agent knows it again after its own restart.
pub const NONCE: &str = "SHOCKWAVE_NONCE";
/// PEM file of the certificate authority of an `https://` coordinator. Absent: the system's.
pub const CA_FILE: &str = "SHOCKWAVE_CA_FILE";
/// The user's own token for the command line. Never given to a training process.
pub const TOKEN: &str = "SHOCKWAVE_TOKEN";

/// How a program that was started by hand attaches to a coordinator: `wait` (after a yield it waits
/// for its next lease in the same terminal) or `exit` (it ends with code 75).
pub const ATTACH: &str = "SHOCKWAVE_ATTACH";
/// Devices that an attached program needs together (a count; 1 when not set).
pub const ATTACH_GPUS: &str = "SHOCKWAVE_ATTACH_GPUS";
/// Names an attached program: started again with the same name, it goes on with its job. Made from
/// its machine, folder and arguments when not set.
pub const ATTACH_KEY: &str = "SHOCKWAVE_ATTACH_KEY";
/// Machine (as its agent names it) of an attached program; found by itself when not set.
pub const NODE: &str = "SHOCKWAVE_NODE";
/// Number of the job that an attached program carries; set by the SDK when it executes itself again.
pub const ATTACHED_JOB: &str = "SHOCKWAVE_ATTACHED_JOB";
/// When an attached program got its lease, milliseconds on the machine's monotonic clock; set by
/// the SDK.
pub const LEASE_FROM_MONO_MS: &str = "SHOCKWAVE_LEASE_FROM_MONO_MS";
/// `CUDA_VISIBLE_DEVICES` of the terminal that an attached program was started in; set by the SDK.
pub const OUTER_CUDA_VISIBLE_DEVICES: &str = "SHOCKWAVE_OUTER_CUDA_VISIBLE_DEVICES";

/// Index of a job in the array that it was handed in with.
pub const ARRAY_INDEX: &str = "SHOCKWAVE_ARRAY_INDEX";

/// Devices that CUDA may see.
pub const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// torchrun's names: rank of the process in the whole gang, from 0.
pub const RANK: &str = "RANK";
/// Processes in the whole gang.
pub const WORLD_SIZE: &str = "WORLD_SIZE";
/// Rank of the process on its machine, from 0.
pub const LOCAL_RANK: &str = "LOCAL_RANK";
/// Processes of the gang on this machine.
pub const LOCAL_WORLD_SIZE: &str = "LOCAL_WORLD_SIZE";
/// Index of this machine in the gang, from 0.
pub const GROUP_RANK: &str = "GROUP_RANK";
/// Host for rendezvous.
pub const MASTER_ADDR: &str = "MASTER_ADDR";
/// Port for rendezvous; free when the lease was given.
pub const MASTER_PORT: &str = "MASTER_PORT";
