//! What must be the same for a resumed run to end with the same bytes.

use serde::{Deserialize, Serialize};

use crate::arena::Arena;

/// The parts of the environment that decide how libtorch rounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Version of libtorch that the SDK was built against.
    pub libtorch: String,
    /// Device kind, with the number of the GPU left out: leases move jobs between GPUs of one kind.
    pub device: String,
    /// Threads that libtorch computes with.
    pub threads: i32,
    /// Element kind of the parameters.
    pub kind: String,
    /// Vector instructions of the processor, by which libtorch picks its kernels.
    pub processor: String,
    /// Workers of a data parallel run: their number decides in which order gradients are summed.
    #[serde(default = "alone")]
    pub workers: usize,
}

fn alone() -> usize {
    1
}

impl Fingerprint {
    /// The fingerprint of this process and model, trained by so many workers.
    pub fn of(arena: &Arena, workers: usize) -> Self {
        let device = match arena.device() {
            tch::Device::Cuda(_) => "cuda".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        };
        Self {
            libtorch: env!("SHOCKWAVE_LIBTORCH_VERSION").to_owned(),
            device,
            threads: tch::get_num_threads(),
            kind: format!("{:?}", arena.kind()),
            processor: processor().to_owned(),
            workers,
        }
    }

    /// What differs, as "what: then, now"; empty when a resumed run will end with the same bytes.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let threads = (self.threads.to_string(), now.threads.to_string());
        let workers = (self.workers.to_string(), now.workers.to_string());
        [
            ("libtorch", &self.libtorch, &now.libtorch),
            ("device", &self.device, &now.device),
            ("threads", &threads.0, &threads.1),
            ("element kind", &self.kind, &now.kind),
            ("processor", &self.processor, &now.processor),
            ("workers", &workers.0, &workers.1),
        ]
        .into_iter()
        .filter(|(_, then, now)| then != now)
        .map(|(what, then, now)| format!("{what}: {then}, now {now}"))
        .collect()
    }
}

/// The widest vector instructions, as libtorch chooses by them.
fn processor() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return "x86_64 avx512";
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return "x86_64 avx2";
        }
    }
    std::env::consts::ARCH
}
