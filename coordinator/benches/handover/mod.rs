//! A device that goes from one job to another: when each part of it happened, from the log and the
//! jobs' own events. Coordinator, agent and training are on one machine, so its clock is theirs.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use shockwave::service::apply::{Stamp, State};
use shockwave::service::record::Record;
use shockwave::service::settings::Configuration;
use shockwave::store::LogReader;
use shockwave_proto::v1::event::Kind;

use crate::served::Served;

/// Parts of a hand-over, seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandOver {
    /// From the asking until training stood still: the step going on.
    pub(crate) step_s: f64,
    /// Writing the checkpoint.
    pub(crate) checkpoint_s: f64,
    /// From then until its process was gone.
    pub(crate) exit_s: f64,
    /// From then until the next process was started.
    pub(crate) next_s: f64,
    /// From then until it began to train: its start, with the checkpoint that it reads.
    pub(crate) start_s: f64,
}

impl HandOver {
    /// What the coordinator, the agent and the end of the process cost.
    pub(crate) fn beyond_s(&self) -> f64 {
        self.step_s + self.exit_s + self.next_s
    }

    /// Time in which nothing trained.
    pub(crate) fn standstill_s(&self) -> f64 {
        self.checkpoint_s + self.exit_s + self.next_s + self.start_s
    }
}

/// The example's program, beside the coordinator's.
pub(crate) fn training() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_shockwave")).with_file_name("resnet_cifar");
    path.is_file().then_some(path)
}

/// Two jobs with these options take turns on one slot for so long.
pub(crate) fn measure(
    program: &Path,
    options: &str,
    time: Duration,
) -> Result<Vec<HandOver>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let serve = "--devices cpu:1 --round-s 6 --grace-s 20 --min-run-s 1 --policy gandiva-fair";
    let served = Served::start(folder.path(), serve, None)?;
    for name in ["one", "other"] {
        let mut submit = Command::new(env!("CARGO_BIN_EXE_shockwave"));
        submit.args(["submit", "--coordinator", &served.url, "--name", name, "--"]).arg(program);
        submit.args(options.split_whitespace()).env("SHOCKWAVE_TOKEN", &served.token);
        let output = submit.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
    }
    std::thread::sleep(time);
    let found = read(&served.database())?;
    // What trains ends with the jobs, not with the coordinator.
    for id in ["1", "2"] {
        let mut cancel = Command::new(env!("CARGO_BIN_EXE_shockwave"));
        cancel.args(["cancel", "--coordinator", &served.url, id]);
        cancel.env("SHOCKWAVE_TOKEN", &served.token).output()?;
    }
    let give_up_at = Instant::now() + Duration::from_secs(60);
    while has_leases(&served.database())? && Instant::now() < give_up_at {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(found)
}

/// When things happened to a lease, seconds since 1970.
#[derive(Default)]
struct Course {
    running: Option<f64>,
    begun: Option<f64>,
    asked: Option<f64>,
    /// With the time that it took.
    saved: Option<(f64, f64)>,
    gone: Option<f64>,
}

/// Replays a log; hears of each record and of what it has made of the state.
fn replay(
    database: &Path,
    mut heard: impl FnMut(Stamp, &Record, &State),
) -> Result<State, Box<dyn Error>> {
    let records = LogReader::open(database)?.read(1, 0, 1 << 20)?;
    let first = records.first().ok_or("the log is empty")?;
    let Record::Started { configuration, .. } = Record::decode(1, &first.body)? else {
        return Err("the log does not begin with a start".into());
    };
    let configuration: Configuration = *configuration;
    let mut state = State::empty(&configuration, "bench")?;
    for stored in &records {
        let record = Record::decode(stored.number, &stored.body)?;
        let stamp = Stamp { number: stored.number, now_s: stored.now_s, unix_s: stored.unix_s };
        state.apply(stamp, &record);
        heard(stamp, &record, &state);
    }
    Ok(state)
}

fn has_leases(database: &Path) -> Result<bool, Box<dyn Error>> {
    Ok(!replay(database, |_, _, _| ())?.book.leases.is_empty())
}

/// The hand-overs that a log tells of.
fn read(database: &Path) -> Result<Vec<HandOver>, Box<dyn Error>> {
    let mut courses: BTreeMap<(u64, u64), Course> = BTreeMap::new();
    replay(database, |stamp, record, state| {
        match record {
            Record::Running { job, lease_epoch, .. } => {
                let course = courses.entry((*job, *lease_epoch)).or_default();
                course.running.get_or_insert(stamp.unix_s);
            }
            Record::Released { job, lease_epoch, .. } => {
                courses.entry((*job, *lease_epoch)).or_default().gone = Some(stamp.unix_s);
            }
            Record::Reported { job, events, .. } => {
                for event in events {
                    let course = courses.entry((*job, event.lease_epoch)).or_default();
                    match &event.kind {
                        Some(Kind::Started(_)) => course.begun = Some(event.at_unix_s),
                        Some(Kind::CheckpointSaved(it)) => {
                            course.saved = Some((event.at_unix_s, it.duration_s));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        for (key, lease) in &state.book.leases {
            if lease.stop.is_some() {
                courses.entry(*key).or_default().asked.get_or_insert(stamp.unix_s);
            }
        }
    })?;
    let mut turns: Vec<&Course> =
        courses.values().filter(|course| course.running.is_some()).collect();
    turns.sort_by(|a, b| a.running.unwrap_or(0.0).total_cmp(&b.running.unwrap_or(0.0)));
    let pairs = turns.windows(2).filter_map(|pair| between(pair[0], pair[1]));
    Ok(pairs.collect())
}

/// The hand-over from a lease to the next one of the device.
fn between(one: &Course, next: &Course) -> Option<HandOver> {
    let (asked, gone) = (one.asked?, one.gone?);
    let (saved, checkpoint_s) = one.saved.filter(|saved| saved.0 > asked)?;
    let (running, begun) = (next.running?, next.begun?);
    Some(HandOver {
        step_s: saved - checkpoint_s - asked,
        checkpoint_s,
        exit_s: gone - saved,
        next_s: running - gone,
        start_s: begun - running,
    })
}
