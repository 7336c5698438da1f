//! Data parallel training: one worker over the device's backend against none, and a worker that is gone.

use std::net::TcpListener;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use shockwave_sdk::distributed::{Backend, Group, Rendezvous};
use shockwave_sdk::policy::Static;
use tch::{Device, Kind, Tensor};

use crate::machine::Machine;
use crate::monitoring::median;
use crate::resume::deterministically;
use crate::rows::{Row, Rows};
use crate::training::{Pictures, Run};

/// Tells a process of this program that it is a worker of [`gone`], and which: `RANK PORT DEVICE`.
const WORKER: &str = "SHOCKWAVE_DEVICE_CHECK_WORKER";

/// How long a worker waits for one that is gone.
const PATIENCE: Duration = Duration::from_secs(10);

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port of 127.0.0.1 is free")?;
    Ok(listener.local_addr()?.port())
}

/// The backend that the device is for; nothing else is taken for it.
fn backend(device: Device) -> Backend {
    if device.is_cuda() { Backend::Nccl } else { Backend::Gloo }
}

fn meeting(rank: usize, size: usize, port: u16, device: Device) -> Rendezvous {
    let mut meeting = Rendezvous::new(rank, size, "127.0.0.1", port);
    meeting.backend = backend(device);
    meeting
}

/// Trains some steps, with the group if there is one; the parameters.
fn train(machine: &Machine, group: Option<Group>) -> Result<Tensor> {
    let (batch, steps) = if machine.is_gpu() { (128, 20) } else { (16, 5) };
    let data = Pictures::new(machine.device, 4 * batch, steps * batch);
    let mut run = Run::new(machine, Static::new(batch as u64), data, |builder| match group {
        Some(group) => builder.workers(group),
        None => builder,
    })?;
    run.session.next_epoch()?;
    run.epoch()?;
    Ok(run.parameters())
}

pub fn check(machine: &Machine, rows: &mut Rows) -> Result<()> {
    let name = backend(machine.device);
    let join = || -> Result<Group> {
        Ok(Group::join_on(&meeting(0, 1, free_port()?, machine.device), machine.device)?)
    };
    let (alone, one) = deterministically(|| {
        let alone = train(machine, None)?;
        Ok((alone, train(machine, Some(join()?))?))
    })?;
    let difference = (alone - one).abs().max().double_value(&[]);
    let row =
        Row::new(format!("{name}, one worker: largest difference of a parameter"), difference, "");
    rows.add(row.goal("0", difference == 0.0).against("the same training without a group"))?;

    let group = join()?;
    let mut buffer = Tensor::ones([11_173_962], (Kind::Float, machine.device));
    let mut times_ms = Vec::new();
    for _ in 0..11 {
        machine.synchronize();
        let start = Instant::now();
        group.sum(&mut buffer)?;
        machine.synchronize();
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let right = buffer.equal(&buffer.ones_like());
    let row =
        Row::new(format!("{name}, one worker: sum of 11.17 M floats"), median(times_ms), "ms");
    rows.add(row.goal("the sum is right", right))?;
    gone(machine, rows)
}

/// Two workers, of which the second joins and ends: the first one's sum is an error in time, not a hang.
fn gone(machine: &Machine, rows: &mut Rows) -> Result<()> {
    let device = match machine.device {
        Device::Cuda(index) => format!("{index}"),
        _ => "cpu".to_owned(),
    };
    let port = free_port()?;
    let start = |rank: usize| {
        Command::new(std::env::current_exe().context("this program's own path")?)
            .env(WORKER, format!("{rank} {port} {device}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("a worker cannot be started")
    };
    let (mut first, mut second) = (start(0)?, start(1)?);
    // Starting up takes its time on a GPU; a hang takes longer.
    let began = Instant::now();
    let ended = loop {
        if let Some(status) = first.try_wait()? {
            break Some(status);
        }
        if began.elapsed() > PATIENCE * 12 {
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if ended.is_none() {
        first.kill()?;
        first.wait()?;
    }
    second.wait()?;
    let name = format!("{}: a worker that is gone ends the other's sum", backend(machine.device));
    let code = ended.and_then(|status| status.code());
    let row = Row::new(name, began.elapsed().as_secs_f64(), "s, with the start of the process");
    let told = match code {
        Some(0) => "an error that says so".to_owned(),
        Some(code) => format!("exit code {code}"),
        None => "a hang, or a crash".to_owned(),
    };
    rows.add(row.goal("an error", code == Some(0)).against(told))
}

/// What a process does that was started by [`gone`]: nothing in others.
pub fn run_as_worker() -> Option<ExitCode> {
    let told = std::env::var(WORKER).ok()?;
    match lose_the_other(&told) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("worker: {error:#}");
            Some(ExitCode::FAILURE)
        }
    }
}

fn lose_the_other(told: &str) -> Result<()> {
    let words: Vec<&str> = told.split(' ').collect();
    let [rank, port, device] = words[..] else { anyhow::bail!("{WORKER} is '{told}'") };
    let rank: usize = rank.parse()?;
    let device = device.parse().map_or(Device::Cpu, Device::Cuda);
    // NCCL refuses two workers on one GPU: the second one comes to the rendezvous only, which is gloo's.
    let own = if rank == 0 { device } else { Device::Cpu };
    let mut meeting = meeting(rank, 2, port.parse()?, own);
    meeting.timeout = PATIENCE;
    let group = Group::join_on(&meeting, own)?;
    if rank == 1 {
        return Ok(());
    }
    let mut tensor = Tensor::f_ones([1000], (Kind::Float, device))?;
    let summed = group.sum(&mut tensor);
    let error = summed.err().context("the sum has an answer although the other worker is gone")?;
    eprintln!("worker: {error}");
    ensure!(matches!(error, shockwave_sdk::Error::Workers { .. }), "another error: {error}");
    // At once: threads of NCCL may be waiting for ever.
    std::process::exit(0)
}
