//! Starting a lease's training processes.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use shockwave_proto::env;

use super::log::{LogFile, pump};
use super::spec::Order;

/// What was started.
#[derive(Debug)]
pub struct Started {
    /// Processes by rank on this machine; the first leads their group.
    pub pids: Vec<i32>,
    /// Threads that copy their output.
    pub pumps: Vec<JoinHandle<()>>,
}

/// The variables that tell one process its place: devices and torchrun's names.
#[must_use]
pub fn place(order: &Order, local_rank: u32) -> Vec<(&'static str, String)> {
    let per_worker = order.devices.len() / order.workers.max(1) as usize;
    let first = local_rank as usize * per_worker;
    let own = order.devices.get(first..first + per_worker).unwrap_or(&order.devices);
    let devices = own.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mut place = vec![
        (env::RANK, (order.first_rank + local_rank).to_string()),
        (env::LOCAL_RANK, local_rank.to_string()),
        (env::LOCAL_WORLD_SIZE, order.workers.to_string()),
        (env::SLOT, devices.clone()),
    ];
    // A CPU job must not find a GPU by chance either.
    place.push((env::CUDA_VISIBLE_DEVICES, if order.gpus { devices } else { String::new() }));
    place
}

/// Starts every process of the order in one process group of its own.
///
/// # Errors
/// One sentence that names the command; then nothing is left running.
pub fn start(order: &Order, log: &Arc<Mutex<LogFile>>) -> Result<Started, String> {
    let mut started = Started { pids: Vec::new(), pumps: Vec::new() };
    for local_rank in 0..order.workers.max(1) {
        if let Err(error) = start_one(order, local_rank, log, &mut started) {
            if let Some(&group) = started.pids.first() {
                let _ = super::process::signal_group(group, libc::SIGKILL);
            }
            return Err(error);
        }
    }
    Ok(started)
}

fn start_one(
    order: &Order,
    local_rank: u32,
    log: &Arc<Mutex<LogFile>>,
    started: &mut Started,
) -> Result<(), String> {
    let (program, arguments) = order.command.split_first().ok_or("the command is empty")?;
    let name = |error: io::Error| {
        let folder = order.working_dir.display();
        let place = if order.working_dir.is_dir() { "" } else { " (there is no such folder)" };
        format!("cannot start `{program}` in {folder}{place}: {error}")
    };
    let (reader, writer) = io::pipe().map_err(name)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&order.working_dir)
        .envs(&order.env)
        .envs(place(order, local_rank))
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(name)?)
        .stderr(writer)
        .process_group(started.pids.first().copied().unwrap_or(0));
    // Nobody would report the end of a training process that outlived its runner.
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    unsafe { command.pre_exec(super::process::die_with_parent) };
    let child = command.spawn().map_err(name)?;
    started.pids.push(child.id().cast_signed());
    let (log, rank) = (Arc::clone(log), order.first_rank + local_rank);
    let prefix = if order.workers > 1 { format!("[{rank}] ") } else { String::new() };
    started.pumps.push(std::thread::spawn(move || pump(reader, &log, &prefix)));
    Ok(())
}
