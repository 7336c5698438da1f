//! Lays the bundle: the programs, `run`, and what they are made for; then packs it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::name;
use crate::process;

/// What may travel.
const LARGEST_BYTES: u64 = 64_000_000;

/// The script that runs the checks on the other machine.
const RUN: &str = include_str!("run.sh");

/// A bundle that was packed.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) folder: PathBuf,
    pub(super) folder_bytes: u64,
    pub(super) archive: PathBuf,
    pub(super) archive_bytes: u64,
}

/// Lays `programs` and the script in `folder`, and packs it beside.
pub(super) fn pack(programs: &[PathBuf], folder: &Path, libtorch: &str) -> Result<Bundle> {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let run = folder.join("run");
    fs::write(&run, RUN.replace("@LIBTORCH@", libtorch))
        .and_then(|()| fs::set_permissions(&run, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("{} cannot be written", run.display()))?;
    let mut folder_bytes = RUN.len() as u64;
    for program in programs {
        // The CUDA code registers its kernels when it is loaded: nobody else loads it.
        if !needs(program, "libtorch_cuda.so")? {
            bail!(
                "{} is not linked with libtorch_cuda.so: it could not train on a GPU",
                program.display()
            );
        }
        let to = folder.join(name(program));
        folder_bytes += fs::copy(program, &to)
            .with_context(|| format!("{} cannot be copied", program.display()))?;
    }
    if folder_bytes > LARGEST_BYTES {
        let (is, may) = (folder_bytes / 1_000_000, LARGEST_BYTES / 1_000_000);
        bail!("the bundle has {is} MB, at most {may} may travel: take a program out of it");
    }
    let archive = folder.with_extension("tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(&archive).arg("-C").arg(folder.parent().unwrap_or(Path::new(".")));
    process::stdout_of(tar.arg(name(folder)))?;
    let archive_bytes = fs::metadata(&archive).context("the archive")?.len();
    Ok(Bundle { folder: folder.to_owned(), folder_bytes, archive, archive_bytes })
}

/// Whether a program's table of strings has the library, as that of one that is linked with it does.
fn needs(program: &Path, library: &str) -> Result<bool> {
    let bytes =
        fs::read(program).with_context(|| format!("{} was not built", program.display()))?;
    let wanted = format!("\0{library}\0");
    Ok(bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Output;

    use super::*;

    /// A bundle of one program, which prints what it was given.
    fn bundle(folder: &Path) -> Bundle {
        let program = folder.join("device_check");
        let text = "#!/bin/sh\necho \"library path $LD_LIBRARY_PATH\"\necho \"$@\"\n# \0libtorch_cuda.so\0\n";
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        pack(&[program], &folder.join("shockwave-gpu"), "2.11.0").unwrap()
    }

    /// A folder that looks like libtorch of some version.
    fn libtorch(folder: &Path, version: &str) -> PathBuf {
        let root = folder.join("libtorch");
        fs::create_dir_all(root.join("lib")).unwrap();
        for library in ["libtorch_cpu.so", "libtorch_cuda.so"] {
            fs::write(root.join("lib").join(library), "").unwrap();
        }
        fs::write(root.join("build-version"), format!("{version}\n")).unwrap();
        root
    }

    fn run(bundle: &Bundle, gpu: bool, libtorch: &Path, args: &[&str]) -> Output {
        let device = if gpu { "/dev/null" } else { "/dev/no-such-device" };
        let mut command = Command::new(bundle.folder.join("run"));
        command.args(args).env("LIBTORCH", libtorch).env("SHOCKWAVE_GPU_DEVICE", device);
        command.env_remove("LD_LIBRARY_PATH").output().unwrap()
    }

    fn told(output: &Output) -> String {
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    #[test]
    fn without_a_gpu_run_ends_with_one_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = bundle(folder.path());
        assert!(bundle.archive_bytes > 0 && bundle.folder_bytes < 10_000, "{bundle:?}");
        let output = run(&bundle, false, Path::new("/nowhere"), &["results"]);
        assert_eq!(output.status.code(), Some(3));
        let said = told(&output);
        assert!(said.starts_with("error: this machine has no NVIDIA GPU"), "{said}");
        assert_eq!(said.lines().count(), 1);
    }

    #[test]
    fn libtorch_is_found_and_its_version_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = bundle(folder.path());
        let output = run(&bundle, true, Path::new("/nowhere"), &["results"]);
        assert_eq!(output.status.code(), Some(3));
        assert!(told(&output).contains("LIBTORCH=/nowhere"), "{}", told(&output));
        let old = libtorch(folder.path(), "2.9.1+cu130");
        let output = run(&bundle, true, &old, &["results"]);
        assert_eq!(output.status.code(), Some(3));
        assert!(told(&output).contains("is libtorch 2.9.1+cu130"), "{}", told(&output));
        let right = libtorch(folder.path(), "2.11.0+cu130");
        let output = run(&bundle, true, &right, &["results", "syncs"]);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let path = format!("library path {}/lib", right.display());
        assert!(printed.starts_with(&path), "{printed}{}", told(&output));
        assert!(printed.contains("--out results syncs"), "{printed}");
    }

    #[test]
    fn run_without_a_folder_tells_its_usage() {
        let folder = tempfile::tempdir().unwrap();
        let output = run(&bundle(folder.path()), true, Path::new("/nowhere"), &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).contains("usage: "), "{}", told(&output));
    }

    #[test]
    fn programs_without_the_cuda_code_are_not_packed() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("plain");
        fs::write(&program, "libtorch_cpu.so").unwrap();
        let error = pack(&[program], &folder.path().join("b"), "2.11.0").unwrap_err().to_string();
        assert!(error.contains("not linked with libtorch_cuda.so"), "{error}");
    }
}
