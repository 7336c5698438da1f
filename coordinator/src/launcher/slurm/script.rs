//! What is handed to sbatch: options as words (no shell sees them) and a script of one line.

use std::path::{Path, PathBuf};

use super::settings::Pool;

/// What every Slurm job of this coordinator is told.
#[derive(Clone, Debug)]
pub struct Site {
    /// Address of the coordinator.
    pub address: String,
    /// Authority that signed its certificate, on the shared folder.
    pub authority: Option<PathBuf>,
    /// Folder of the jobs.
    pub jobs_dir: PathBuf,
    /// The program of the coordinator itself.
    pub program: PathBuf,
}

impl Site {
    /// Where Slurm jobs have their folders: `.slurm` in the jobs' folder.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.jobs_dir.join(".slurm")
    }

    fn program(&self, pool: &Pool) -> PathBuf {
        if pool.program.as_os_str().is_empty() {
            self.program.clone()
        } else {
            pool.program.clone()
        }
    }
}

/// Options of sbatch for one job of a pool.
#[must_use]
pub fn options(
    pool: &Pool,
    name: &str,
    folder: &Path,
    devices: u32,
    exclude: &[String],
) -> Vec<String> {
    let minutes = (pool.walltime_s / 60.0).ceil() as u64;
    let warning_s = pool.warning_s.ceil() as u64;
    let mut options = vec![
        format!("--job-name={name}"),
        "--nodes=1".into(),
        "--ntasks=1".into(),
        // A round never ends by requeueing: what comes back would carry an old lease.
        "--no-requeue".into(),
        "--open-mode=append".into(),
        "--chdir=/".into(),
        "--input=/dev/null".into(),
        format!("--output={}", folder.join("log").display()),
        format!("--time={minutes}"),
        // USR1 would collide with NCCL.
        format!("--signal=B:USR2@{warning_s}"),
    ];
    let gres = pool.gres_for(devices);
    let cpus = if pool.cpus_per_node > 0 { pool.cpus_per_node.to_string() } else { String::new() };
    let given = [
        ("partition", &pool.partition),
        ("account", &pool.account),
        ("qos", &pool.qos),
        ("constraint", &pool.constraint),
        ("gres", &gres),
        ("cpus-per-task", &cpus),
        ("mem", &pool.memory),
        ("exclude", &exclude.join(",")),
    ];
    let given = given.into_iter().filter(|(_, value)| !value.is_empty());
    options.extend(given.map(|(name, value)| format!("--{name}={value}")));
    options.extend(pool.options.iter().cloned());
    options
}

/// The script of a pilot: the agent in its place.
#[must_use]
pub fn pilot(site: &Site, pool: &Pool, name: &str, folder: &Path) -> String {
    let scratch = match pool.scratch.as_os_str().is_empty() {
        true => folder.join("agent"),
        false => pool.scratch.join(name),
    };
    let devices = match pool.devices.as_str() {
        "slurm" => "\"gpu:${CUDA_VISIBLE_DEVICES:-$SLURM_JOB_GPUS}\"".to_owned(),
        list => quote(list),
    };
    let path = |path: &Path| quote(&path.display().to_string());
    let mut words = vec![
        path(&site.program(pool)),
        "agent --pilot".into(),
        format!("--warning-s {}", pool.warning_s),
        format!("--walltime-s {}", pool.walltime_s - pool.warning_s),
        format!("--coordinator {}", quote(&site.address)),
        format!("--token-file {}", path(&folder.join("token"))),
        format!("--node \"${{SLURMD_NODENAME:-$(hostname)}}.\"{}", quote(name)),
        format!("--devices {devices}"),
        format!("--jobs {}", path(&site.jobs_dir)),
        format!("--folder {}", path(&scratch)),
    ];
    if let Some(authority) = &site.authority {
        words.push(format!("--authority {}", path(authority)));
    }
    format!("#!/bin/sh\nexec {}\n", words.join(" "))
}

/// One word for a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            address: "https://head:7433".into(),
            authority: Some("/shared/jobs/.slurm/ca.pem".into()),
            jobs_dir: "/shared/it's jobs".into(),
            program: "/opt/shockwave".into(),
        }
    }

    #[test]
    fn the_script_quotes_what_it_is_given() {
        let pool = Pool { name: "low".into(), devices_per_node: 4, ..Pool::default() };
        let script = pilot(&site(), &pool, "sw1-low-ab", Path::new("/f/sw1-low-ab"));
        let expected = "#!/bin/sh\nexec '/opt/shockwave' agent --pilot --warning-s 60 --walltime-s \
            14340 --coordinator 'https://head:7433' --token-file '/f/sw1-low-ab/token' --node \
            \"${SLURMD_NODENAME:-$(hostname)}.\"'sw1-low-ab' --devices \
            \"gpu:${CUDA_VISIBLE_DEVICES:-$SLURM_JOB_GPUS}\" --jobs '/shared/it'\\''s jobs' \
            --folder '/f/sw1-low-ab/agent' --authority '/shared/jobs/.slurm/ca.pem'\n";
        assert_eq!(script, expected);
    }

    #[test]
    fn options_are_words() {
        let pool = Pool {
            name: "low".into(),
            partition: "preempt".into(),
            account: "ml".into(),
            gres_type: "a100".into(),
            cpus_per_node: 32,
            memory: "200G".into(),
            options: vec!["--exclusive".into()],
            walltime_s: 100.0,
            warning_s: 30.5,
            ..Pool::default()
        };
        let folder = Path::new("/f");
        let given = options(&pool, "sw1-low-ab", folder, 4, &["n1".into(), "n2".into()]);
        let expected = [
            "--job-name=sw1-low-ab",
            "--nodes=1",
            "--ntasks=1",
            "--no-requeue",
            "--open-mode=append",
            "--chdir=/",
            "--input=/dev/null",
            "--output=/f/log",
            "--time=2",
            "--signal=B:USR2@31",
            "--partition=preempt",
            "--account=ml",
            "--gres=gpu:a100:4",
            "--cpus-per-task=32",
            "--mem=200G",
            "--exclude=n1,n2",
            "--exclusive",
        ];
        assert_eq!(given, expected);
    }
}
