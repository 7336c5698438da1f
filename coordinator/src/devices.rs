//! The devices that a coordinator or an agent offers: `cpu:2`, `gpu:0,1`, `gpu`, `auto`.

use std::process::Command;
use std::str::FromStr;

use shockwave_proto::v1::Device;

/// What the user asked to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceList {
    /// Slots without a GPU, this many.
    Cpu(u32),
    /// These GPUs of the machine.
    Gpus(Vec<u32>),
    /// Every GPU of the machine.
    AllGpus,
    /// Every GPU; on a machine without one, one CPU slot.
    Auto,
}

/// A device list that cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DeviceError {
    /// Not one of the forms.
    #[error("device list `{got}`: {what}; expected cpu:COUNT, gpu:INDEX,INDEX,.., gpu or auto")]
    Form {
        /// What was given.
        got: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The machine has no GPU that can be used.
    #[error("no GPU was found on this machine ({why}); offer CPU slots with cpu:COUNT")]
    NoGpu {
        /// What was tried.
        why: String,
    },
    /// The machine has no such GPU.
    #[error("GPU {index} does not exist: this machine has {count}, counted from 0")]
    NoSuchGpu {
        /// The one that was asked for.
        index: u32,
        /// How many there are.
        count: usize,
    },
}

/// Most devices on one machine.
const DEVICES_MAX: u32 = 1024;

impl FromStr for DeviceList {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let wrong = |what| DeviceError::Form { got: text.to_owned(), what };
        let (kind, rest) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        match (kind.trim(), rest) {
            ("auto", None) => Ok(Self::Auto),
            ("gpu", None) => Ok(Self::AllGpus),
            ("cpu", None) => Ok(Self::Cpu(1)),
            ("cpu", Some(count)) => {
                let count = count.trim().parse().map_err(|_| wrong("the count is no number"))?;
                if (1..=DEVICES_MAX).contains(&count) {
                    Ok(Self::Cpu(count))
                } else {
                    Err(wrong("the count is not between 1 and 1024"))
                }
            }
            ("gpu", Some(list)) => {
                let indices: Result<Vec<u32>, _> =
                    list.split(',').map(|index| index.trim().parse()).collect();
                let mut indices = indices.map_err(|_| wrong("an index is no number"))?;
                let given = indices.len();
                indices.sort_unstable();
                indices.dedup();
                if indices.len() == given {
                    Ok(Self::Gpus(indices))
                } else {
                    Err(wrong("an index comes twice"))
                }
            }
            _ => Err(wrong("unknown kind of device")),
        }
    }
}

impl DeviceList {
    /// The devices themselves, as this machine has them.
    ///
    /// # Errors
    /// When GPUs were asked for that are not there.
    pub fn resolve(&self) -> Result<Vec<Device>, DeviceError> {
        match self {
            Self::Cpu(count) => Ok(cpu_slots(*count)),
            Self::Auto => Ok(find_gpus().unwrap_or_else(|_| cpu_slots(1))),
            Self::AllGpus => find_gpus().map_err(|why| DeviceError::NoGpu { why }),
            Self::Gpus(indices) => {
                let found = find_gpus().map_err(|why| DeviceError::NoGpu { why })?;
                let pick = |&index: &u32| {
                    let device = found.iter().find(|device| device.index == index).cloned();
                    device.ok_or(DeviceError::NoSuchGpu { index, count: found.len() })
                };
                indices.iter().map(pick).collect()
            }
        }
    }
}

/// Identity of the running machine: the same for every process on it, another after a restart of the
/// machine. Empty when the system does not tell.
#[must_use]
pub fn machine() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

fn cpu_slots(count: u32) -> Vec<Device> {
    let slot = |index| Device { index, kind: "cpu".into(), ..Device::default() };
    (0..count).map(slot).collect()
}

/// The GPUs as the driver's own tool lists them; why there are none otherwise.
fn find_gpus() -> Result<Vec<Device>, String> {
    let query = ["--query-gpu=index,memory.total,name", "--format=csv,noheader,nounits"];
    let output = Command::new("nvidia-smi").args(query).output();
    let output = output.map_err(|error| format!("nvidia-smi: {error}"))?;
    if !output.status.success() {
        return Err(format!("nvidia-smi: {}", String::from_utf8_lossy(&output.stdout).trim()));
    }
    let devices = parse_gpus(&String::from_utf8_lossy(&output.stdout));
    if devices.is_empty() { Err("nvidia-smi lists none".into()) } else { Ok(devices) }
}

fn parse_gpus(table: &str) -> Vec<Device> {
    let parse = |line: &str| {
        let mut fields = line.splitn(3, ',').map(str::trim);
        let index = fields.next()?.parse().ok()?;
        let memory_mib: u64 = fields.next()?.parse().unwrap_or(0);
        let model = fields.next()?.to_owned();
        Some(Device { index, kind: "gpu".into(), model, memory_bytes: memory_mib << 20 })
    };
    table.lines().filter_map(parse).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn understands_every_form() {
        let check = |text: &str, expected| assert_eq!(text.parse(), Ok(expected), "{text}");
        check("cpu:2", DeviceList::Cpu(2));
        check("cpu", DeviceList::Cpu(1));
        check("gpu:3, 1", DeviceList::Gpus(vec![1, 3]));
        check("gpu", DeviceList::AllGpus);
        check("auto", DeviceList::Auto);
    }

    #[test]
    fn refuses_with_what_would_be_right() {
        for text in ["", "cpu:", "cpu:0", "cpu:-1", "cpu:1025", "gpu:", "gpu:a", "gpu:1,1", "tpu:1"]
        {
            let error = text.parse::<DeviceList>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("cpu:COUNT"), "{error}");
        }
    }

    #[test]
    fn reads_the_drivers_table() {
        let devices = parse_gpus("0, 143771, NVIDIA H200\n1, [N/A], Tesla, odd\n");
        assert_eq!(devices[0].memory_bytes, 143_771 << 20);
        assert_eq!(devices[0].model, "NVIDIA H200");
        assert_eq!((devices[1].index, devices[1].model.as_str()), (1, "Tesla, odd"));
        assert_eq!(cpu_slots(3).len(), 3);
    }
}
