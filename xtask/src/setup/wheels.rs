//! The pinned packages, and how each becomes a folder of `.deps`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{pip, unpack};

/// A part of a wheel: what lies under `inside` goes to `folder` of the set's folder.
pub(super) struct Part {
    pub(super) inside: &'static str,
    pub(super) folder: &'static str,
}

/// One pinned wheel.
pub(super) struct Wheel {
    /// Start of its file name, which tells it from the set's others.
    pub(super) file: &'static str,
    package: &'static str,
    sha256: &'static str,
    pub(super) size_bytes: u64,
    parts: &'static [Part],
}

/// What becomes one folder of `.deps`.
pub(super) struct Set {
    /// The folder's name.
    pub(super) name: &'static str,
    /// The variable with which a user names an installation of their own.
    pub(super) variable: &'static str,
    pub(super) version: &'static str,
    /// The file in it that holds the version.
    version_file: &'static str,
    /// Files without which it is not complete.
    probes: &'static [&'static str],
    pub(super) wheels: &'static [Wheel],
}

/// What builds HiGHS and its bindings.
pub(super) const TOOLS: &[Set] = &[
    Set {
        name: "cmake",
        variable: "CMAKE",
        version: "4.4.5",
        version_file: "version",
        probes: &["bin/cmake"],
        wheels: &[Wheel {
            file: "cmake-",
            package: "cmake==4.4.5",
            sha256: "85625a9b6d5e88ff99c7eb79123d85570844e77ac076366cf75c609cc0b1b579",
            size_bytes: 30_246_479,
            parts: &[
                Part { inside: "cmake/data/bin/cmake", folder: "bin" },
                Part { inside: "cmake/data/share", folder: "share" },
            ],
        }],
    },
    Set {
        name: "libclang",
        variable: "LIBCLANG_PATH",
        version: "18.1.1",
        version_file: "version",
        probes: &["libclang.so"],
        wheels: &[Wheel {
            file: "libclang-",
            package: "libclang==18.1.1",
            sha256: "c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b",
            size_bytes: 24_515_943,
            parts: &[Part {
                inside: "libclang-18.1.1.data/platlib/clang/native/libclang.so",
                folder: "",
            }],
        }],
    },
];

/// The CPU slice of libtorch: the registry's ordinary package holds it beside 400 MB of CUDA code
/// that is left out. libtorch_cpu.so wants two small CUDA libraries all the same.
pub(super) const LIBTORCH: Set = Set {
    name: "libtorch",
    variable: "LIBTORCH",
    version: "2.13.0",
    version_file: "build-version",
    probes: &[
        "include/torch/csrc/api/include/torch/torch.h",
        "lib/libtorch_cpu.so",
        "lib/libtorch.so",
    ],
    wheels: &[
        Wheel {
            file: "torch-",
            package: "torch==2.13.0",
            sha256: "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7",
            size_bytes: 526_574_961,
            parts: &[
                Part { inside: "torch/include", folder: "include" },
                Part { inside: "torch/lib/libtorch_cpu.so", folder: "lib" },
                Part { inside: "torch/lib/libc10.so", folder: "lib" },
                Part { inside: "torch/lib/libgomp.so.1", folder: "lib" },
            ],
        },
        Wheel {
            file: "nvidia_cuda_runtime-",
            package: "nvidia-cuda-runtime==13.0.96",
            sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
            size_bytes: 2_243_632,
            parts: &[Part { inside: "nvidia/cu13/lib/libcudart.so.13", folder: "lib" }],
        },
        Wheel {
            file: "nvidia_cuda_cupti-",
            package: "nvidia-cuda-cupti==13.0.85",
            sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
            size_bytes: 10_715_597,
            parts: &[Part { inside: "nvidia/cu13/lib/libcupti.so.13", folder: "lib" }],
        },
    ],
};

/// libtorch with CUDA, to build programs for GPUs on a machine without one: what they are linked with, and the headers
/// of CUDA and NCCL. Of the version that [`super::GPU_BINDINGS`] are made for; nothing can run with it, for the packages
/// that the CUDA code itself wants are left out.
pub(super) const LIBTORCH_GPU: Set = Set {
    name: "libtorch-gpu",
    variable: "LIBTORCH",
    version: "2.11.0",
    version_file: "build-version",
    probes: &[
        "include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp",
        "lib/libtorch_cuda.so",
        "lib/libc10_cuda.so",
        "cuda/include/cuda_runtime.h",
        "cuda/include/crt/host_config.h",
        "cuda/include/nv/target",
        "cuda/include/nccl.h",
    ],
    wheels: &[
        Wheel {
            file: "torch-",
            package: "torch==2.11.0",
            sha256: "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
            size_bytes: 530_604_548,
            parts: &[
                Part { inside: "torch/include", folder: "include" },
                Part { inside: "torch/lib/libtorch.so", folder: "lib" },
                Part { inside: "torch/lib/libtorch_cpu.so", folder: "lib" },
                Part { inside: "torch/lib/libtorch_cuda.so", folder: "lib" },
                Part { inside: "torch/lib/libc10.so", folder: "lib" },
                Part { inside: "torch/lib/libc10_cuda.so", folder: "lib" },
                Part { inside: "torch/lib/libgomp.so.1", folder: "lib" },
            ],
        },
        Wheel {
            file: "nvidia_cuda_runtime-",
            package: "nvidia-cuda-runtime==13.0.96",
            sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
            size_bytes: 2_243_632,
            parts: &[Part { inside: "nvidia/cu13/include", folder: "cuda/include" }],
        },
        Wheel {
            file: "nvidia_cuda_crt-",
            package: "nvidia-cuda-crt==13.0.88",
            sha256: "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
            size_bytes: 134_086,
            parts: &[Part { inside: "nvidia/cu13/include/crt", folder: "cuda/include/crt" }],
        },
        Wheel {
            file: "nvidia_cuda_cccl-",
            package: "nvidia-cuda-cccl==13.0.85",
            sha256: "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649",
            size_bytes: 3_120_526,
            parts: &[Part { inside: "nvidia/cu13/include/nv", folder: "cuda/include/nv" }],
        },
        // The very version that this libtorch was built with: the layout of its classes depends on it.
        Wheel {
            file: "nvidia_nccl_cu13-",
            package: "nvidia-nccl-cu13==2.28.9",
            sha256: "e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42",
            size_bytes: 196_493_177,
            parts: &[Part { inside: "nvidia/nccl/include", folder: "cuda/include" }],
        },
    ],
};

impl Wheel {
    /// The line of a requirements file.
    pub(super) fn requirement(&self) -> String {
        format!("{} --hash=sha256:{}", self.package, self.sha256)
    }
}

impl Set {
    /// Whether a complete one of this version lies in `deps`. One without a version file was laid
    /// by hand, and stays.
    pub(super) fn is_laid(&self, deps: &Path) -> bool {
        let folder = deps.join(self.name);
        let version = fs::read_to_string(folder.join(self.version_file));
        self.probes.iter().all(|probe| folder.join(probe).exists())
            && version.map_or(self.name != LIBTORCH.name, |found| found.trim() == self.version)
    }

    /// Downloads, checks, unpacks, and renames into place when complete.
    pub(super) fn lay(&self, deps: &Path) -> Result<()> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            bail!(
                "set-up knows packages for 64-bit x86 Linux only: install {} yourself and set {} to \
                 its folder",
                self.name,
                self.variable
            );
        }
        let temporary = deps.join(format!(".tmp-{}", self.name));
        fs::create_dir_all(&temporary).context("no temporary folder can be made in .deps")?;
        let files = pip::download(self, &temporary)?;
        let fresh = temporary.join(self.name);
        for wheel in self.wheels {
            let starts = |file: &&std::path::PathBuf| {
                file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(wheel.file))
            };
            let file = files.iter().find(starts).with_context(|| {
                format!("pip did not say that it failed, but there is no {}*.whl", wheel.file)
            })?;
            unpack::unpack(file, wheel.parts, &fresh)?;
        }
        if self.variable == LIBTORCH.variable {
            complete_libtorch(&fresh)?;
        }
        fs::write(fresh.join(self.version_file), format!("{}\n", self.version))?;
        if let Some(probe) = self.probes.iter().find(|probe| !fresh.join(probe).exists()) {
            bail!("the package has no {probe}");
        }
        replace(&fresh, &deps.join(self.name))?;
        fs::remove_dir_all(&temporary).context("the temporary folder cannot be removed")
    }
}

/// Adds what a linker asks for. The package's own libtorch.so wants the CUDA code.
fn complete_libtorch(folder: &Path) -> Result<()> {
    let lib = folder.join("lib");
    if !lib.join("libtorch_cuda.so").exists() {
        fs::write(lib.join("libtorch.so"), "INPUT(-ltorch_cpu)\n")?;
    }
    symlink("libgomp.so.1", lib.join("libgomp.so"))?;
    Ok(())
}

/// Puts `fresh` in the place of `old`, whatever `old` is.
fn replace(fresh: &Path, old: &Path) -> Result<()> {
    let is_link = fs::symlink_metadata(old).is_ok_and(|meta| meta.is_symlink());
    if is_link {
        fs::remove_file(old)?;
    } else if old.exists() {
        // Renamed away first: removing takes long, and an interruption must not leave half of it.
        let aside = fresh.with_extension("old");
        fs::rename(old, &aside)?;
    }
    fs::rename(fresh, old).with_context(|| format!("{} cannot be put in place", old.display()))
}
