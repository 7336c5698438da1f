//! The metrics' files, read back by readers of the tests' own.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use std::path::Path;

use common::{GrowAt, Images, optimizer, train, with_session};
use prost::Message;
use serde_json::Value;
use shockwave_sdk::metrics::{MetricsFiles, history};
use shockwave_sdk::policy::Needs;
use shockwave_sdk::session::Every;

/// tensorflow/core/util/event.proto, as far as it is written.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    session_log: Option<SessionLog>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    /// 1: START.
    #[prost(int32, tag = "1")]
    status: i32,
}

/// tensorflow/core/framework/summary.proto.
#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Scalar>,
}

#[derive(Clone, PartialEq, Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

/// CRC-32C bit by bit, with the mask of tensorflow/core/lib/hash/crc32c.h.
fn masked_crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F63B78 } else { crc >> 1 };
        }
    }
    let crc = !crc;
    crc.rotate_right(15).wrapping_add(0xa282ead8)
}

/// The events of a file, whose frames must be sound.
fn events(path: &Path) -> Vec<Event> {
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[..];
    let mut events = Vec::new();
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        let sum = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        assert_eq!(sum(8), masked_crc(&rest[..8]));
        let data = &rest[12..12 + length];
        assert_eq!(sum(12 + length), masked_crc(data));
        events.push(Event::decode(data).unwrap());
        rest = &rest[16 + length..];
    }
    events
}

fn event_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains("events.out.tfevents."))
        .collect();
    files.sort();
    files
}

/// Trains four epochs of 60 samples; the batch grows from 6 to 20 in the second.
fn run(folder: &Path, files: MetricsFiles, stop_at: Option<u64>) {
    let needs = Needs { noise: true, layer_norms: false, every_steps: Some(4) };
    let policy = GrowAt { from: 6, to: 20, at_step: 12, needs, decisions: 0 };
    with_session(
        optimizer(false),
        policy,
        Images::new(60),
        |b| {
            b.epochs(4)
                .checkpoints(folder.join("checkpoints"))
                .checkpoint_every(Every::Epochs(1))
                .metrics(files)
        },
        |mut session, _, net| {
            train(&mut session, net, stop_at).unwrap();
            session.finish().unwrap();
        },
    )
    .unwrap();
}

fn lines(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn every_format_holds_the_run() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), MetricsFiles::new(folder.path()), None);
    let lines = lines(folder.path());
    assert_eq!(lines[0]["kind"], "start");
    assert_eq!(lines.last().unwrap()["outcome"], "finished");
    let epochs = of_kind(&lines, "epoch");
    // 10 steps; 2 of 6 samples, then 48 samples in three of at most 20; then 3 and 3.
    let steps: Vec<u64> = epochs.iter().map(|e| e["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [10, 15, 18, 21]);
    assert_eq!(epochs[3]["batch"], 20);
    assert!(epochs[3]["metrics"]["accuracy"].is_number());
    assert!(epochs[3]["noise_scale"].is_number() || epochs[3]["noise_scale"].is_string());
    let decisions = of_kind(&lines, "decision");
    assert_eq!(decisions.len(), 1);
    assert_eq!((&decisions[0]["old_batch"], &decisions[0]["new_batch"]), (&6.into(), &20.into()));
    assert_eq!(of_kind(&lines, "checkpoint").len(), 4);

    let files = event_files(folder.path());
    assert_eq!(files.len(), 1);
    let events = events(&files[0]);
    assert_eq!(events[0].file_version.as_deref(), Some("brain.Event:2"));
    assert_eq!(events[1].session_log.as_ref().unwrap().status, 1);
    let scalar = |tag: &str| -> Vec<(i64, f32)> {
        let values = events.iter().flat_map(|event| {
            let values = event.summary.iter().flat_map(|summary| &summary.value);
            values.map(move |value| (event.step, value))
        });
        let tagged = values.filter(|(_, value)| value.tag == tag);
        tagged.map(|(step, value)| (step, value.simple_value.unwrap())).collect()
    };
    let losses: Vec<(i64, f32)> = epochs
        .iter()
        .map(|e| (e["step"].as_i64().unwrap(), e["loss"].as_f64().unwrap() as f32))
        .collect();
    assert_eq!(scalar("train/loss"), losses);
    assert_eq!(scalar("metrics/accuracy").len(), 4);
    let sizes: Vec<f32> = scalar("batch/size").into_iter().map(|(_, size)| size).collect();
    assert_eq!(sizes, [6.0, 20.0, 20.0, 20.0, 20.0], "the change, and the ends of epochs");

    let text = std::fs::read_to_string(folder.path().join("metrics.prom")).unwrap();
    assert!(text.contains("\nshockwave_steps_total 21\n"), "{text}");
    assert!(text.contains("\nshockwave_batch_size_samples 20\n"), "{text}");
    assert!(text.contains("\nshockwave_metric{name=\"accuracy\"} "), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("shockwave_"), "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    let svg = std::fs::read_to_string(folder.path().join("curve.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for title in ["training loss", "accuracy", "batch size and noise scale"] {
        assert!(svg.contains(title), "{title}");
    }
}

#[test]
fn a_resumed_run_goes_on_in_the_same_files_and_lost_work_is_void() {
    let folder = tempfile::tempdir().unwrap();
    let files = || MetricsFiles::new(folder.path()).curve(false).prometheus(false);
    run(folder.path(), files(), Some(16));
    // A process that was killed in the middle of a line, after an epoch whose work was lost.
    let path = folder.path().join("metrics.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    let lost = text.lines().find(|line| line.contains(r#""epoch":1,"#) && line.contains("loss"));
    let lost = lost.unwrap().replace(r#""epoch":1,"#, r#""epoch":2,"#);
    text.push_str(&format!("{lost}\n{}", &lost[..40]));
    std::fs::write(&path, text).unwrap();
    assert_eq!(history(folder.path()).unwrap().len(), 3);
    run(folder.path(), files(), None);

    let epochs = history(folder.path()).unwrap();
    let steps: Vec<u64> = epochs.iter().map(|epoch| epoch.place.step).collect();
    assert_eq!(steps, [10, 15, 18, 21]);
    let both = event_files(folder.path());
    assert_eq!(both.len(), 2);
    let starts: Vec<i64> = both.iter().map(|file| events(file)[1].step).collect();
    assert!(starts.contains(&0) && starts.contains(&16), "{starts:?}");
    assert!(!folder.path().join("curve.svg").exists());
    assert!(!folder.path().join("metrics.prom").exists());
}

#[test]
fn a_folder_that_cannot_be_is_said_before_training() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = with_session(
        optimizer(false),
        shockwave_sdk::policy::Static::new(6),
        Images::new(12),
        |b| b.metrics(file.join("inside")),
        |_, _, _| (),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("cannot create") && error.contains("inside"), "{error}");
}
