//! Passes the folder of libtorch's libraries on to everything that links the SDK, as an rpath, and libtorch's version to
//! the code (a checkpoint tells by which version it was written); builds the C++ shim, with NCCL where libtorch has CUDA.

use std::path::{Path, PathBuf};

/// Names folders of CUDA's and NCCL's headers, joined by ':'.
const CUDA_INCLUDE: &str = "SHOCKWAVE_CUDA_INCLUDE";

/// What the shim includes of CUDA and NCCL.
const CUDA_HEADERS: [&str; 4] = ["cuda_runtime.h", "crt/host_config.h", "nv/target", "nccl.h"];

/// The version in libtorch's own header, or in the file beside its libraries.
fn libtorch_version(lib: &Path) -> Option<String> {
    let root = lib.parent()?;
    let header = root.join("include/torch/headeronly/version.h");
    let older = root.join("include/torch/csrc/api/include/torch/version.h");
    let text = std::fs::read_to_string(header).or_else(|_| std::fs::read_to_string(older)).ok()?;
    let number = |part: &str| {
        let define = format!("#define TORCH_VERSION_{part} ");
        text.lines().find_map(|l| l.strip_prefix(&define)).map(|n| n.trim().to_owned())
    };
    Some(format!("{}.{}.{}", number("MAJOR")?, number("MINOR")?, number("PATCH")?))
}

/// Where headers of CUDA and NCCL may lie: where the user says, in CUDA's own installation, in the packages beside
/// python's torch.
fn cuda_folders(lib: &Path) -> Vec<PathBuf> {
    let variable = |name: &str| {
        println!("cargo::rerun-if-env-changed={name}");
        std::env::var_os(name).filter(|value| !value.is_empty())
    };
    let mut folders: Vec<PathBuf> =
        variable(CUDA_INCLUDE).iter().flat_map(std::env::split_paths).collect();
    let installed = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).map(PathBuf::from);
    let usual = installed.chain([PathBuf::from("/usr/local/cuda")]);
    folders.extend(usual.flat_map(|root| [root.join("include"), root.join("include/cccl")]));
    let packages = lib.join("../../nvidia");
    let packages = std::fs::read_dir(packages).into_iter().flatten().flatten();
    let mut packages: Vec<PathBuf> = packages.map(|entry| entry.path().join("include")).collect();
    packages.sort();
    folders.extend(packages);
    folders.push("/usr/include".into());
    folders
}

/// The folders to include for the shim's half that is for GPUs, or why that half is not built.
fn cuda(lib: &Path) -> Result<Vec<PathBuf>, String> {
    if !lib.join("libtorch_cuda.so").exists() {
        return Err("it was built with a libtorch without CUDA".to_owned());
    }
    let folders = cuda_folders(lib);
    let mut found: Vec<PathBuf> = Vec::new();
    for header in CUDA_HEADERS {
        let Some(folder) = folders.iter().find(|folder| folder.join(header).exists()) else {
            let reason = format!(
                "{header} was not found when it was built: install CUDA's and NCCL's headers, or name their \
                 folders in {CUDA_INCLUDE}"
            );
            println!("cargo::warning=NCCL is not built in although libtorch has CUDA: {reason}");
            return Err(reason);
        };
        // The system's own folder is searched anyway, and must not come before the compiler's.
        if !found.contains(folder) && folder != Path::new("/usr/include") {
            found.push(folder.clone());
        }
    }
    Ok(found)
}

/// Builds shim/, the C++ over what tch does not bind, against the libtorch that torch-sys has found.
fn build_shim(lib: &Path) {
    let root = std::env::var("LIBTORCH_INCLUDE").map(PathBuf::from);
    let root = root.ok().or_else(|| lib.parent().map(Path::to_path_buf)).unwrap_or_default();
    let include = root.join("include");
    let mut shim = cc::Build::new();
    shim.cpp(true)
        .std("c++17")
        .files(["shim/group.cpp", "shim/precision.cpp", "shim/random.cpp"])
        .include("shim/gloo-declarations")
        // As system headers: their warnings are not ours.
        .flag(format!("-isystem{}", include.display()))
        .flag(format!("-isystem{}", include.join("torch/csrc/api/include").display()))
        .define("USE_C10D_GLOO", None)
        .warnings(true);
    let cuda = cuda(lib);
    match &cuda {
        Ok(folders) => {
            shim.file("shim/gpu.cpp").define("USE_C10D_NCCL", None);
            for folder in folders {
                shim.flag(format!("-isystem{}", folder.display()));
            }
            // Last: the real headers are taken where they are installed.
            shim.flag("-isystemshim/cuda-declarations");
        }
        Err(_) => {
            shim.file("shim/no_gpu.cpp");
        }
    }
    shim.compile("shockwave_shim");
    if cuda.is_ok() {
        println!("cargo::rustc-link-lib=torch_cuda");
        println!("cargo::rustc-link-lib=c10_cuda");
    }
    println!("cargo::rustc-env=SHOCKWAVE_NCCL_MISSING={}", cuda.err().unwrap_or_default());
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-env-changed=LIBTORCH_INCLUDE");
}

fn main() {
    // Set by torch-sys, which has found libtorch by LIBTORCH, LIBTORCH_USE_PYTORCH or the system.
    let mut version = None;
    match std::env::var("DEP_TCH_LIBTORCH_LIB") {
        Ok(lib) => {
            println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
            println!("cargo::metadata=LIBTORCH_LIB={lib}");
            version = libtorch_version(Path::new(&lib));
            build_shim(Path::new(&lib));
        }
        Err(_) => println!("cargo::rustc-env=SHOCKWAVE_NCCL_MISSING=it was built without libtorch"),
    }
    let version = version.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SHOCKWAVE_LIBTORCH_VERSION={version}");
    println!("cargo::rerun-if-changed=build.rs");
}
