//! The device that is checked, its name, and its sizes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tch::{Cuda, Device};

/// A device and what is known of it.
#[derive(Debug, Clone)]
pub struct Machine {
    pub device: Device,
    /// What its maker calls it.
    pub name: String,
    /// Version of its driver.
    pub driver: String,
    pub libtorch: String,
    /// Where checks may write.
    pub folder: PathBuf,
}

impl Machine {
    /// Finds the device and makes the folder.
    ///
    /// # Errors
    /// When the device is not there, or the folder cannot be made.
    pub fn find(device: &str, folder: &Path) -> Result<Self> {
        let device = parse(device)?;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("--out {} cannot be made", folder.display()))?;
        let libtorch = shockwave_sdk::LIBTORCH_VERSION.to_owned();
        let folder = folder.to_owned();
        let Device::Cuda(index) = device else {
            let name = "CPU".to_owned();
            return Ok(Self { device, name, driver: String::new(), libtorch, folder });
        };
        let count = Cuda::device_count();
        if index as i64 >= count {
            bail!(
                "cuda:{index} is not there: libtorch {libtorch} finds {count} GPUs on this machine"
            );
        }
        // The first work on it: an architecture that this libtorch has no code for fails here.
        tch::Tensor::f_ones([2], (tch::Kind::Float, device))
            .and_then(|ones| ones.f_sum(tch::Kind::Float)?.f_double_value(&[]))
            .with_context(|| format!("cuda:{index} cannot compute"))?;
        let told = asked(index).unwrap_or_default();
        let (name, driver) = told.split_once(", ").unwrap_or(("a GPU of unknown name", ""));
        Ok(Self { device, name: name.to_owned(), driver: driver.to_owned(), libtorch, folder })
    }

    /// Whether it is a GPU: sizes and goals are those of one then.
    pub fn is_gpu(&self) -> bool {
        self.device.is_cuda()
    }

    /// Waits until the device has done all that was queued.
    pub fn synchronize(&self) {
        if let Device::Cuda(index) = self.device {
            Cuda::synchronize(index as i64);
        }
    }
}

fn parse(text: &str) -> Result<Device> {
    let index = match text {
        "cpu" => return Ok(Device::Cpu),
        "cuda" => Some(0),
        other => other.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
    };
    index
        .map(Device::Cuda)
        .with_context(|| format!("--device {text}: use cpu, cuda or cuda:NUMBER"))
}

/// Name and driver, as the driver's own tool tells them.
fn asked(index: usize) -> Option<String> {
    // With CUDA_VISIBLE_DEVICES the numbers of the two may differ; the machines' GPUs are alike.
    let output = Command::new("nvidia-smi")
        .args(["--query-gpu=name,driver_version", "--format=csv,noheader"])
        .arg(format!("--id={index}"))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read() {
        assert_eq!(parse("cpu").unwrap(), Device::Cpu);
        assert_eq!(parse("cuda").unwrap(), Device::Cuda(0));
        assert_eq!(parse("cuda:3").unwrap(), Device::Cuda(3));
        let error = parse("gpu0").unwrap_err().to_string();
        assert_eq!(error, "--device gpu0: use cpu, cuda or cuda:NUMBER");
    }
}
