//! A real Slurm of three nodes with four devices each carries the agents: gangs of 1, 2 and 4
//! workers take turns, lose a machine, and end as they would undisturbed.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use shockwave_tests::coordinator::Coordinator;
use shockwave_tests::slurm::Slurm;
use shockwave_tests::training::Training;

/// Long enough that every job is preempted on a fast machine too.
const EPOCHS: u64 = 24;
const SAMPLES: u64 = 768;
const WORKERS: [usize; 3] = [1, 2, 4];

fn training(folder: &Path, workers: usize) -> Training {
    let arguments = format!(
        "--depth 8 --width 6 --dropout 0.1 --seed {workers} --epochs {EPOCHS} --batch 16 \
         --train-samples {SAMPLES} --test-samples 64 --policy expert --schedule 0:16,3:32"
    );
    Training::new(&folder.join(format!("workers{workers}")), &arguments)
}

/// A coordinator without machines of its own; Slurm lends it up to two.
fn coordinator(folder: &Path, slurm: &Slurm, pool: &str) -> Coordinator {
    let config = folder.join("serve.toml");
    let text = format!(
        "devices = 'none'\nround_s = 6\nttl_s = 40\nlead_s = 2\nplan_budget_s = 1\nmin_run_s = 1\n\
         grace_s = 20\npolicy = 'gandiva-fair'\njobs = '{}'\n[[slurm]]\nname = 'low'\n\
         partition = 'low'\nnodes_max = 2\nwarning_s = 12\ndevices = 'cpu:2'\n\
         devices_per_node = 2\n{pool}\n",
        folder.join("jobs").display()
    );
    std::fs::write(&config, text).unwrap();
    let slurm_conf = slurm.configuration().display().to_string();
    let variables = [("SLURM_CONF", slurm_conf.as_str())];
    let arguments = format!("--config {}", config.display());
    Coordinator::start_with(&folder.join("serve"), &arguments, &variables).unwrap()
}

fn submit(coordinator: &Coordinator, training: &Training, workers: usize) -> u64 {
    std::fs::create_dir_all(training.checkpoints()).unwrap();
    let count = workers.to_string();
    let mut submit = vec!["submit", "--gpus", &count, "--workers", &count, "--"];
    let command = training.command();
    submit.extend(command.iter().map(String::as_str));
    coordinator.json(&submit).unwrap()["job"]["id"].as_u64().unwrap()
}

fn wait_for(coordinator: &Coordinator, what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + Duration::from_secs(180);
    while !is_so() {
        let said = || coordinator.output();
        assert!(Instant::now() < give_up_at, "never: {what}\n{}", said());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The job finished, and with the bytes of the same workers by hand.
fn check(coordinator: &Coordinator, (id, workers): (u64, usize), hand: &Path) -> Value {
    let job = coordinator.ended(id, Duration::from_secs(400)).unwrap();
    let said = || format!("{job}\n{}\n{}", coordinator.logs(id), coordinator.output());
    assert_eq!(job["state"], "finished", "{}", said());
    let expected = training(hand, workers).finish_by_hand(workers).unwrap();
    assert_eq!(job["checkpoint_sha256"], expected["checkpoint_sha256"], "{}", said());
    job
}

/// It took turns, and nobody is blamed for that.
fn check_turns(job: &Value) {
    assert!(job["preemptions"].as_u64().unwrap() + job["leases"].as_u64().unwrap() > 2, "{job}");
    assert_eq!(job["failures"].as_u64().unwrap_or(0), 0, "nobody is blamed: {job}");
}

#[test]
fn gangs_on_pilots_take_turns_and_end_as_undisturbed_ones() {
    let folder = tempfile::tempdir().unwrap();
    let Some(slurm) = Slurm::start(&folder.path().join("slurm"), 3, 4).unwrap() else { return };
    // Two devices of a node's four: a gang of four spans two nodes.
    let pool = "idle_s = 4\ngres = 'gpu:2'\noptions = ['--exclusive']";
    let coordinator = coordinator(folder.path(), &slurm, pool);
    let shared = folder.path().join("shared");
    let jobs = WORKERS
        .map(|workers| (submit(&coordinator, &training(&shared, workers), workers), workers));

    // The machine under a running gang is taken away: Slurm says so, and the gang goes on elsewhere.
    let gang = jobs[2].0;
    wait_for(&coordinator, "the gang of four trains", || {
        let job = coordinator.job(gang).unwrap();
        job["state"] == "running" && job["epochs_done"].as_f64().unwrap() > 0.1
    });
    let pilots = slurm.jobs().unwrap();
    assert_eq!(pilots.len(), 2, "{pilots:?}");
    assert_ne!(pilots[0][1], pilots[1][1], "each has a node: {pilots:?}");
    slurm.run("scancel", &[&format!("--name={}", pilots[0][2])]).unwrap();

    let ended = jobs.map(|job| check(&coordinator, job, &folder.path().join("hand")));
    ended.iter().for_each(check_turns);
    wait_for(&coordinator, "idle machines are given back", || slurm.jobs().unwrap().is_empty());
    wait_for(&coordinator, "and forgotten", || {
        coordinator.json(&["cluster"]).unwrap()["cluster"]["nodes"].as_array().unwrap().is_empty()
    });
}

/// Where Slurm is asked anew for every lease, the same gangs end with the same bytes.
#[test]
fn gangs_with_a_slurm_job_for_every_lease_end_as_undisturbed_ones() {
    let folder = tempfile::tempdir().unwrap();
    let Some(slurm) = Slurm::start(&folder.path().join("slurm"), 3, 4).unwrap() else { return };
    let mut coordinator = coordinator(folder.path(), &slurm, "mode = 'job'");
    let shared = folder.path().join("shared");
    let jobs = WORKERS
        .map(|workers| (submit(&coordinator, &training(&shared, workers), workers), workers));

    // One of the two Slurm jobs of the gang of four is ended: the gang yields, and goes on later.
    let gang = jobs[2].0;
    wait_for(&coordinator, "the gang of four trains", || {
        let job = coordinator.job(gang).unwrap();
        job["state"] == "running" && job["epochs_done"].as_f64().unwrap() > 0.1
    });
    let told = slurm.run("squeue", &["-h", "-o", "%j %k"]).unwrap();
    let mark = format!(" shockwave job={gang} lease=");
    let its: Vec<&str> = told.lines().filter(|line| line.contains(&mark)).collect();
    assert_eq!(its.len(), 2, "a Slurm job for each of its two parts: {told}");
    let carries =
        |it: &&Value| it["job"] == gang && it["joined"] == true && it["state"] == "RUNNING";
    // Slurm's word on their state comes with the next look at its queue.
    wait_for(&coordinator, "both are listed as running", || {
        let pools = coordinator.json(&["cluster"]).unwrap()["cluster"]["pools"].clone();
        pools[0]["jobs"].as_array().unwrap().iter().filter(carries).count() == 2
    });
    let name = its[0].split(' ').next().unwrap();
    slurm.run("scancel", &[&format!("--name={name}")]).unwrap();
    // Leases and their Slurm jobs outlive the coordinator.
    coordinator.kill().unwrap();
    coordinator.start_again().unwrap();

    let ended = jobs.map(|job| check(&coordinator, job, &folder.path().join("hand")));
    ended.iter().for_each(check_turns);
    // Each lease had Slurm jobs of its own: one for each place that it was on.
    let asked = coordinator.output().matches("Slurm is asked for a node").count() as u64;
    let leases: Vec<u64> = ended.iter().map(|job| job["leases"].as_u64().unwrap()).collect();
    assert!(asked >= leases.iter().sum::<u64>() + leases[2], "{asked} for {leases:?}");
    wait_for(&coordinator, "no Slurm job outlives its lease", || slurm.jobs().unwrap().is_empty());
    let nodes = coordinator.json(&["cluster"]).unwrap()["cluster"]["nodes"].clone();
    assert_eq!(nodes.as_array().unwrap().len(), 2, "the places stay: {nodes}");
    assert_eq!(nodes[0]["devices"][0]["job"], Value::Null, "{nodes}");
}

/// What waits in Slurm's queue is shown with Slurm's reason, and keeps its lease until it starts.
#[test]
fn a_lease_waits_in_slurms_queue_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(slurm) = Slurm::start(&folder.path().join("slurm"), 1, 4).unwrap() else { return };
    // Another user of the site has the whole node for longer than a lease lasts.
    let other = ["-p", "low", "--exclusive", "--output=/dev/null", "--wrap=sleep 60"];
    slurm.run("sbatch", &other).unwrap();
    let coordinator = coordinator(folder.path(), &slurm, "mode = 'job'");
    let job = training(&folder.path().join("shared"), 1);
    let id = submit(&coordinator, &job, 1);
    wait_for(&coordinator, "it waits for a node", || {
        let pools = coordinator.json(&["cluster"]).unwrap()["cluster"]["pools"].clone();
        pools[0]["jobs"][0]["state"] == "PENDING" && pools[0]["jobs"][0]["reason"] == "Resources"
    });
    let said = coordinator.command(&["cluster"]).unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("PENDING") && said.contains("Resources"), "{said}");
    assert!(said.contains(&format!("job {id}")), "{said}");
    let ended = check(&coordinator, (id, 1), &folder.path().join("hand"));
    assert_eq!(ended["failures"].as_u64().unwrap_or(0), 0, "{ended}");
    // The lease outlived a time to live of 40 s in the queue: it was not asked for twice.
    let asked = coordinator.output().matches("Slurm is asked for a node").count() as u64;
    assert_eq!(asked, ended["leases"].as_u64().unwrap(), "{}", coordinator.output());
}
