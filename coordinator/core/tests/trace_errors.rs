//! Malformed traces: each column wrong in turn, and the error names line and column.

// A test stops at the first thing that is not as it must be.
#![allow(clippy::unwrap_used)]

use shockwave_core::simulator::profiles::{Profiles, Throughputs};
use shockwave_core::simulator::trace::{COLUMNS, parse_trace, to_csv};
use shockwave_core::simulator::{InputError, Workload, published_trace};

const DATASETS: &str =
    "model,dataset,samples_per_epoch,max_batch_size_sim\nNet,Pictures,1000,100\n";
const GNS: &str = "model,initial_batch_size,scale_factor,\"segments(start_epoch:batch_size;...)\"\n\
                   Net,10,1,0:10;3:20;6:40\n";
const ACCORDION: &str = "model,initial_batch_size,max_batch_size,critical_epochs_profile,critical_epochs_simulated\n\
     Net,10,100,\"[0,10)\",\"[0,10)\"\n";
const SPEEDS: &str = "model,batch_size,scale_factor,steps_per_s\n\
                      Net,10,1,10\nNet,20,1,8\nNet,40,1,5\nNet,10,2,15\n";

/// Three good lines; the second is the one that is spoilt.
const LINES: [&str; 3] = [
    "0,1,Net,Pictures,10,1,1000,100,static,1,,10,100.0",
    "5,2,Net,Pictures,10,1,1000,100,gns,1,,10,90.0",
    "5,3,Net,Pictures,10,2,500,100,accordion,1,-1,5,40.0",
];

fn load(trace: &str) -> Result<Workload, InputError> {
    let profiles = Profiles::parse(DATASETS, GNS, ACCORDION).unwrap();
    Workload::parse(trace, &profiles, &Throughputs::parse(SPEEDS).unwrap())
}

fn trace_with(column: &str, value: &str) -> String {
    let place = COLUMNS.iter().position(|name| *name == column).unwrap();
    let mut fields: Vec<&str> = LINES[1].split(',').collect();
    fields[place] = value;
    [&COLUMNS.join(","), LINES[0], &fields.join(","), LINES[2]].join("\n")
}

#[test]
fn a_good_trace_is_read_and_written_back() {
    let text = [&COLUMNS.join(","), LINES[0], LINES[1], LINES[2]].join("\n");
    let jobs = parse_trace(&text).unwrap();
    assert_eq!(jobs.len(), 3);
    assert_eq!(parse_trace(&to_csv(&jobs)).unwrap(), jobs);
    let workload = load(&text).unwrap();
    assert_eq!(workload.jobs[1].schedule, [(0, 10), (3, 20), (6, 40), (9, 10)]);
    let tabs = published_trace::write(&jobs);
    assert!(published_trace::is_published(&tabs));
    let back = published_trace::parse(&tabs).unwrap();
    assert_eq!(back.len(), 3);
    assert_eq!((back[2].batch, back[2].gpus, back[2].total_steps), (10, 2, 500));
}

#[test]
fn every_column_that_is_wrong_is_named_with_its_line() {
    let wrong = [
        ("arrival_s", "soon"),
        ("arrival_s", "-1"),
        ("arrival_s", "9"),
        ("job_id", "x"),
        ("job_id", "1"),
        ("model", ""),
        ("model", "Unknown"),
        ("dataset", "Sounds"),
        ("batch_size", "0"),
        ("batch_size", "11"),
        ("scale_factor", "0"),
        ("scale_factor", "3"),
        ("total_steps", "0"),
        ("total_steps", "1.5"),
        ("trace_duration_s", "-3"),
        ("mode", "elastic"),
        ("priority", "0"),
        ("slo", "never"),
        ("num_epochs", "0"),
        ("num_epochs", "11"),
        ("exclusive_runtime_s", "0"),
        ("exclusive_runtime_s", "NaN"),
    ];
    for column in COLUMNS {
        assert!(wrong.iter().any(|(name, _)| *name == column), "{column} is never wrong");
    }
    for (column, value) in wrong {
        let error = load(&trace_with(column, value)).unwrap_err();
        // A late arrival shows in the line after it, which comes too early.
        let line = if value == "9" { 4 } else { 3 };
        assert_eq!((error.line, error.column.as_str()), (line, column), "{column}={value}");
        let text = error.to_string();
        assert!(text.contains(&format!("line {line}")) && text.contains(column), "{text}");
    }
}

#[test]
fn missing_and_surplus_columns_and_empty_traces_are_refused() {
    let error = load("arrival_s,job_id\n0,1\n").unwrap_err();
    assert_eq!((error.line, error.column.as_str()), (1, "model"));
    let short = [&COLUMNS.join(","), LINES[0], "5,2,Net"].join("\n");
    let error = load(&short).unwrap_err();
    assert_eq!((error.line, error.column.as_str()), (3, "number 4"));
    assert_eq!(load(&COLUMNS.join(",")).unwrap_err().line, 2);
    assert!(load("").is_err());
}

#[test]
fn published_lines_that_are_wrong_are_named_too() {
    let good = "Net (batch size 10)\tc\td\t--n\t1\t1000\t1\tstatic\t1\t-1\t100\t0";
    assert_eq!(published_trace::parse(good).unwrap().len(), 1);
    let wrong = [
        (0, "Net", "job_type"),
        (5, "0", "total_steps"),
        (6, "1.5", "scale_factor"),
        (7, "x", "mode"),
        (8, "0", "priority_weight"),
        (9, "-2", "slo"),
        (10, "-1", "duration"),
        (11, "x", "arrival_time"),
    ];
    for (place, value, column) in wrong {
        let mut fields: Vec<&str> = good.split('\t').collect();
        fields[place] = value;
        let error = published_trace::parse(&fields.join("\t")).unwrap_err();
        assert_eq!((error.line, error.column.as_str()), (1, column));
    }
    assert_eq!(published_trace::parse("a\tb").unwrap_err().column, "number 3");
}
