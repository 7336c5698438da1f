//! A real Slurm on this machine: controller, nodes and munge as plain processes on loopback, without
//! systemd and cgroups. Its programs are Debian's (`slurm-wlm` and `munge`).

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::RngCore;

use crate::netns::Namespaces;

/// Devices that nodes can have: Slurm wants each to be a file of a device.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random"];
/// How long a part of it may take to come up or down.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where Debian has the daemons.
const SBIN: &str = "/usr/sbin";

/// A Slurm of a few nodes named n1, n2, ..; it ends with this value.
#[derive(Debug)]
pub struct Slurm {
    folder: PathBuf,
    munge: Option<Child>,
    controller: Option<Child>,
    nodes: Vec<Option<Child>>,
    apart: Option<Namespaces>,
}

/// What is missing, if anything is.
#[must_use]
pub fn missing() -> Option<String> {
    let daemons = ["slurmctld", "slurmd", "munged"].map(|name| Path::new(SBIN).join(name));
    let commands = ["sbatch", "squeue", "scancel", "scontrol", "sinfo"];
    let commands = commands.map(|name| Path::new("/usr/bin").join(name));
    let absent = daemons.iter().chain(&commands).find(|path| !path.is_file())?;
    Some(format!(
        "{} is not there (Debian: apt-get install --no-install-recommends slurm-wlm munge)",
        absent.display()
    ))
}

impl Slurm {
    /// Starts one of `nodes` nodes with `gpus` devices each; `None`, with a message, where Slurm is
    /// not installed.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start(folder: &Path, nodes: usize, gpus: usize) -> Result<Option<Self>> {
        Self::start_in(folder, nodes, gpus, None)
    }

    /// As [`Self::start`], with each node in a network namespace of its own; `None` as well where
    /// those are not permitted.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start_apart(folder: &Path, nodes: usize, gpus: usize) -> Result<Option<Self>> {
        match Namespaces::make(nodes)? {
            Some(apart) => Self::start_in(folder, nodes, gpus, Some(apart)),
            None => Ok(None),
        }
    }

    fn start_in(
        folder: &Path,
        nodes: usize,
        gpus: usize,
        apart: Option<Namespaces>,
    ) -> Result<Option<Self>> {
        if let Some(what) = missing() {
            eprintln!("skipped: {what}");
            return Ok(None);
        }
        for part in ["state", "munge", "log"] {
            fs::create_dir_all(folder.join(part))?;
        }
        // munged wants no folder above its socket that others can write to.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        fs::set_permissions(folder.join("munge"), fs::Permissions::from_mode(0o711))?;
        let mut key = [0; 1024];
        rand::rng().fill_bytes(&mut key);
        fs::write(folder.join("munge/key"), key)?;
        fs::set_permissions(folder.join("munge/key"), fs::Permissions::from_mode(0o400))?;
        write_configuration(folder, nodes, gpus, apart.as_ref())?;
        let mut slurm = Self {
            folder: folder.to_owned(),
            munge: None,
            controller: None,
            nodes: Vec::new(),
            apart,
        };
        slurm.munge = Some(slurm.start_munge()?);
        slurm.start_controller()?;
        slurm.nodes = (0..nodes).map(|_| None).collect();
        for node in 0..nodes {
            slurm.start_node(node)?;
        }
        slurm.wait_for("its nodes are idle", |slurm| {
            let states = slurm.run("sinfo", &["-h", "-p", "low", "-N", "-o", "%T"]);
            states.is_ok_and(|text| text.lines().filter(|line| *line == "idle").count() == nodes)
        })?;
        Ok(Some(slurm))
    }

    /// The network namespaces of its nodes, where they have some.
    #[must_use]
    pub fn apart(&self) -> Option<&Namespaces> {
        self.apart.as_ref()
    }

    /// Value of `SLURM_CONF` for whoever uses it.
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    fn start_munge(&self) -> Result<Child> {
        let at = |name: &str| self.folder.join("munge").join(name).display().to_string();
        let child = Command::new(Path::new(SBIN).join("munged"))
            .args(["--foreground", "--num-threads=2"])
            .arg(format!("--key-file={}", at("key")))
            .arg(format!("--socket={}", at("sock")))
            .arg(format!("--pid-file={}", at("pid")))
            .arg(format!("--seed-file={}", at("seed")))
            .arg(format!("--log-file={}", at("log")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log("munged")?)
            .spawn()?;
        let socket = self.folder.join("munge/sock");
        let give_up_at = Instant::now() + PATIENCE;
        while !socket.exists() {
            ensure!(Instant::now() < give_up_at, "munged does not start; see {}", at("log"));
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(child)
    }

    fn log(&self, name: &str) -> Result<fs::File> {
        let path = self.folder.join("log").join(name);
        Ok(fs::File::options().create(true).append(true).open(path)?)
    }

    /// Starts the controller (again).
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_controller(&mut self) -> Result<()> {
        let child = Command::new(Path::new(SBIN).join("slurmctld"))
            .arg("-D")
            .arg("-f")
            .arg(self.configuration())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log("slurmctld")?)
            .spawn()?;
        self.controller = Some(child);
        Ok(())
    }

    /// kill -9 of the controller.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill_controller(&mut self) -> Result<()> {
        end(&mut self.controller)
    }

    /// Starts a node's daemon (again); nodes are counted from 0.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_node(&mut self, node: usize) -> Result<()> {
        let daemon = Path::new(SBIN).join("slurmd");
        let mut command = match &self.apart {
            Some(apart) => apart.command(node, &daemon),
            None => Command::new(daemon),
        };
        let child = command
            .args(["-D", "-N", &format!("n{}", node + 1), "-f"])
            .arg(self.configuration())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log(&format!("slurmd{}", node + 1))?)
            .spawn()?;
        self.nodes[node] = Some(child);
        Ok(())
    }

    /// kill -9 of a node's daemon alone.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill_node(&mut self, node: usize) -> Result<()> {
        end(&mut self.nodes[node])
    }

    /// Runs one of its commands and gives what it printed.
    ///
    /// # Errors
    /// The command fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self.command(program, arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {arguments:?}: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.configuration()).stdin(Stdio::null());
        command.output().with_context(|| program.to_owned())
    }

    /// Jobs that have not ended: state, node and name of each.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn jobs(&self) -> Result<Vec<[String; 3]>> {
        let text = self.run("squeue", &["-h", "-o", "%T|%N|%j"])?;
        let fields = |line: &str| {
            let mut fields = line.splitn(3, '|').map(str::to_owned);
            Some([fields.next()?, fields.next()?, fields.next()?])
        };
        Ok(text.lines().filter_map(fields).collect())
    }

    /// Waits until something is so.
    ///
    /// # Errors
    /// It never is.
    pub fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) -> Result<()> {
        let give_up_at = Instant::now() + PATIENCE;
        while !is_so(self) {
            let said = || fs::read_to_string(self.folder.join("log/slurmctld")).unwrap_or_default();
            ensure!(Instant::now() < give_up_at, "never: {what}\n{}", said());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// kill -9 of a daemon, if it runs.
fn end(daemon: &mut Option<Child>) -> Result<()> {
    if let Some(mut child) = daemon.take() {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let _ = self.command("scancel", &["--signal=KILL", "--full", "--state=RUNNING"]);
        let _ = self.command("scancel", &["--state=PENDING"]);
        std::thread::sleep(Duration::from_millis(500));
        for daemon in self.nodes.iter_mut().chain([&mut self.controller, &mut self.munge]) {
            let _ = end(daemon);
        }
        // Whatever of its jobs is left carries its configuration in its environment.
        let mark = format!("SLURM_CONF={}", self.configuration().display());
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let variables = fs::read(entry.path().join("environ")).unwrap_or_default();
            let is_ours = variables.split(|byte| *byte == 0).any(|it| it == mark.as_bytes());
            let pid = entry.file_name().to_string_lossy().parse::<i32>();
            if let (true, Ok(pid)) = (is_ours, pid) {
                // SAFETY: kill(2) takes plain numbers.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
    }
}

/// Ports that are free now.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    let sockets: Vec<_> = (0..count)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0"))
        .collect::<std::io::Result<_>>()?;
    sockets.iter().map(|socket| Ok(socket.local_addr()?.port())).collect()
}

fn write_configuration(
    folder: &Path,
    nodes: usize,
    gpus: usize,
    apart: Option<&Namespaces>,
) -> Result<()> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let host = host.trim().split('.').next().unwrap_or("localhost").to_owned();
    // SAFETY: plain system call without arguments.
    let user = unsafe { libc::getuid() };
    let passwd = fs::read_to_string("/etc/passwd")?;
    let account = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == user.to_string()).then(|| name.to_owned())
    });
    let account = account.unwrap_or_else(|| user.to_string());
    let ports = free_ports(nodes + 1)?;
    let at = folder.display();
    let head = apart.map_or(Ipv4Addr::LOCALHOST, Namespaces::host);
    // Otherwise the daemons listen where the host's name leads, which is this machine's loopback.
    let bind = match apart {
        Some(_) => "",
        None => "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n",
    };
    let mut text = format!(
        "ClusterName=test\nSlurmctldHost={host}({head})\nSlurmctldPort={}\nSlurmUser={account}\n\
         SlurmdUser={account}\nAuthType=auth/munge\nCredType=cred/munge\n\
         AuthInfo=socket={at}/munge/sock,cred_expire=5\n\
         {bind}StateSaveLocation={at}/state\n\
         SlurmdSpoolDir={at}/spool.%n\nSlurmctldPidFile={at}/slurmctld.pid\n\
         SlurmdPidFile={at}/slurmd.%n.pid\nSlurmdLogFile={at}/log/slurmd.%n\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         JobAcctGatherType=jobacct_gather/none\nMpiDefault=none\nReturnToService=2\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
         SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0\n\
         PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n\
         SlurmctldParameters=preempt_send_user_signal\nKillWait=5\nSlurmdTimeout=10\n\
         SlurmdParameters=config_overrides\nGresTypes=gpu\n",
        ports[0]
    );
    let mut gres = String::new();
    for (node, port) in ports.iter().enumerate().skip(1).take(nodes) {
        fs::create_dir_all(folder.join(format!("spool.n{node}")))?;
        let address = apart.map_or(Ipv4Addr::LOCALHOST, |apart| apart.address(node - 1));
        text.push_str(&format!(
            "NodeName=n{node} NodeHostname={host} NodeAddr={address} Port={port} CPUs=8 \
             RealMemory=8000 Gres=gpu:{gpus} State=UNKNOWN\n"
        ));
        for device in DEVICES.iter().take(gpus) {
            gres.push_str(&format!("NodeName=n{node} Name=gpu File={device}\n"));
        }
    }
    let names: Vec<String> = (1..=nodes).map(|node| format!("n{node}")).collect();
    let names = names.join(",");
    text.push_str(&format!(
        "PartitionName=low Nodes={names} Default=YES MaxTime=INFINITE DefaultTime=60 \
         PriorityTier=1 PreemptMode=REQUEUE GraceTime=15 State=UP\n\
         PartitionName=high Nodes={names} MaxTime=INFINITE DefaultTime=60 PriorityTier=10 \
         PreemptMode=OFF State=UP\n"
    ));
    fs::write(folder.join("slurm.conf"), text)?;
    fs::write(folder.join("gres.conf"), gres)?;
    Ok(())
}
