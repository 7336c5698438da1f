//! TensorBoard's event files: protocol buffers (tensorflow/core/util/event.proto) in framed records.
//!
//! A record is its length (8 bytes), the masked CRC-32C of the length, the bytes, and their masked CRC-32C; all numbers
//! in little-endian order. Only five fields of the protocol are needed, so they are written by hand.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::crc32c::masked;
use super::record::{EpochRecord, Place, Record, Stamped};
use crate::Error;

/// One process's event file.
#[derive(Debug)]
pub(super) struct Events {
    file: File,
    path: PathBuf,
    /// Steps taken, as of the last record.
    step: u64,
}

/// Protocol buffers, as far as they are needed.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(mut self, field: u32, wire_type: u32) -> Self {
        self.varint(u64::from(field << 3 | wire_type));
        self
    }

    fn double(self, field: u32, value: f64) -> Self {
        let mut message = self.tag(field, 1);
        message.0.extend(value.to_le_bytes());
        message
    }

    fn float(self, field: u32, value: f32) -> Self {
        let mut message = self.tag(field, 5);
        message.0.extend(value.to_le_bytes());
        message
    }

    fn integer(self, field: u32, value: u64) -> Self {
        let mut message = self.tag(field, 0);
        message.varint(value);
        message
    }

    fn bytes(self, field: u32, value: &[u8]) -> Self {
        let mut message = self.tag(field, 2);
        message.varint(value.len() as u64);
        message.0.extend(value);
        message
    }
}

/// The bytes in a record's frame.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    let (head, body) = (masked(&length).to_le_bytes(), masked(bytes).to_le_bytes());
    [&length[..], &head, bytes, &body].concat()
}

/// An event's time and step: `Event.wall_time` and `Event.step`.
fn event(at_unix_s: f64, step: u64) -> Message {
    Message::default().double(1, at_unix_s).integer(2, step)
}

/// `Summary` with one simple value for each number.
fn summary(values: &[(String, f64)]) -> Vec<u8> {
    let value = |(tag, value): &(String, f64)| {
        Message::default().bytes(1, tag.as_bytes()).float(2, *value as f32).0
    };
    values.iter().fold(Message::default(), |message, pair| message.bytes(1, &value(pair))).0
}

/// An epoch's numbers by TensorBoard's tags.
fn scalars(epoch: &EpochRecord) -> Vec<(String, f64)> {
    let mut values = vec![
        ("train/loss".to_owned(), epoch.loss),
        ("train/gradient_norm".to_owned(), epoch.grad_norm),
        ("train/learning_rate".to_owned(), epoch.learning_rate),
        ("train/samples_per_s".to_owned(), epoch.samples_per_s),
        ("train/epoch".to_owned(), (epoch.place.epoch + 1) as f64),
        ("batch/size".to_owned(), epoch.place.batch as f64),
        ("train/skipped_steps".to_owned(), epoch.skipped_steps as f64),
    ];
    values.extend(epoch.loss_scale.map(|scale| ("train/loss_scale".to_owned(), scale)));
    values.extend(epoch.noise_scale.map(|noise| ("batch/noise_scale".to_owned(), noise)));
    if let Some((low, high)) = epoch.noise_interval {
        values.push(("batch/noise_scale_low".to_owned(), low));
        values.push(("batch/noise_scale_high".to_owned(), high));
    }
    let metrics = epoch.metrics.iter();
    values.extend(metrics.map(|(name, value)| (format!("metrics/{name}"), *value)));
    values
}

/// Any file name's worth of this machine's name.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
    let name: String = name.trim().chars().map(plain).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

impl Events {
    /// Creates a file of this process.
    pub(super) fn create(folder: &Path, at_unix_s: f64) -> Result<Self, Error> {
        let (seconds, pid) = (at_unix_s as u64, std::process::id());
        let mut number = 0;
        loop {
            let name = format!("events.out.tfevents.{seconds:010}.{}.{pid}.{number}", host());
            let path = folder.join(name);
            match File::create_new(&path) {
                Ok(file) => {
                    let mut events = Self { file, path, step: 0 };
                    let version = Message::default().double(1, at_unix_s);
                    events.append(&version.bytes(3, b"brain.Event:2"))?;
                    return Ok(events);
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(Error::io("create", &path)(e)),
            }
        }
    }

    fn append(&mut self, event: &Message) -> Result<(), Error> {
        self.file.write_all(&framed(&event.0)).map_err(Error::io("write", &self.path))
    }

    pub(super) fn write(&mut self, record: &Stamped) -> Result<(), Error> {
        let at = record.at_unix_s;
        match &record.record {
            Record::Start(place) => {
                self.step = place.step;
                // SessionLog.START: TensorBoard drops what processes before this one wrote for later steps.
                let start = Message::default().integer(1, 1);
                self.append(&event(at, place.step).bytes(7, &start.0))
            }
            Record::Progress(Place { step, .. }) => {
                self.step = *step;
                Ok(())
            }
            Record::Epoch(epoch) => {
                self.step = epoch.place.step;
                self.append(&event(at, self.step).bytes(5, &summary(&scalars(epoch))))
            }
            Record::Decision(decision) => {
                let value = vec![("batch/size".to_owned(), decision.new_batch as f64)];
                self.append(&event(at, self.step).bytes(5, &summary(&value)))
            }
            Record::Checkpoint { .. } | Record::End { .. } => Ok(()),
        }
    }
}
