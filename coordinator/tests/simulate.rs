//! The simulator's commands as a user meets them.

// A test stops at the first thing that is not as it must be.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const TABLES: [(&str, &str); 4] = [
    (
        "datasets.csv",
        "model,dataset,samples_per_epoch,max_batch_size_sim\nNet,Pictures,2000,80\nText,Words,500,32\n",
    ),
    (
        "gns_rules.csv",
        "model,initial_batch_size,scale_factor,segments\nNet,10,1,0:10;3:20;6:40;9:80\n",
    ),
    (
        "accordion_rules.csv",
        "model,initial_batch_size,max_batch_size,critical_epochs_profile,critical_epochs_simulated\n\
         Net,10,80,\"[0,4);[8,10)\",\"[0,4);[8,10)\"\n",
    ),
    (
        "speeds.csv",
        "model,batch_size,scale_factor,steps_per_s\nNet,10,1,9\nNet,20,1,7\nNet,40,1,4.5\n\
         Net,80,1,2.6\nNet,10,2,13\nNet,20,2,11\nText,16,1,3.3\nText,32,1,2.1\nText,16,2,5\n",
    ),
];

fn shockwave(folder: &Path, args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shockwave"));
    command.args(args.split_whitespace()).current_dir(folder).output().unwrap()
}

fn good(folder: &Path, args: &str) -> String {
    let output = shockwave(folder, args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "shockwave {args}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a command that fails says; its exit code is that of bad input.
fn bad(folder: &Path, args: &str) -> String {
    let output = shockwave(folder, args);
    assert_eq!(output.status.code(), Some(2), "shockwave {args}");
    String::from_utf8(output.stderr).unwrap()
}

/// A folder with tables and a generated trace.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in TABLES {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let tables = "--profiles . --throughputs speeds.csv";
    let recipe = "--jobs 20 --hours 0.05 0.5 --gangs 0.7,0.3,0,0 --seed 4 --output trace.csv";
    let told = good(folder.path(), &format!("trace generate {tables} {recipe}"));
    assert_eq!(told, "20 jobs written to trace.csv\n");
    folder
}

const INPUT: &str = "--trace trace.csv --profiles . --throughputs speeds.csv --gpus 6";

#[test]
fn results_have_the_documented_form_and_equal_seeds_give_equal_bytes() {
    let folder = folder();
    let faults = "--semantics product --gpus-per-node 2 --faults loss=2,slow=1,late=20,forecast=40";
    for (semantics, more) in [("published", ""), ("product", faults)] {
        let command = format!("simulate {INPUT} --policy shockwave {more} --seed 3 --json");
        let text = good(folder.path(), &format!("{command} --untimed"));
        assert_eq!(text, good(folder.path(), &format!("{command} --untimed")));
        let result: Value = serde_json::from_str(&good(folder.path(), &command)).unwrap();
        assert_eq!(result["policy"], "shockwave");
        assert_eq!(result["semantics"], semantics);
        assert_eq!(result["seed"], 3);
        let metrics = [
            "makespan_s",
            "mean_jct_s",
            "p95_jct_s",
            "worst_rho",
            "unfair_1_0",
            "unfair_1_05",
            "unfair_1_1",
            "utilisation",
            "restarts",
            "sim_wall_s",
        ];
        for metric in metrics {
            assert!(result["metrics"][metric].is_number(), "{semantics}: {metric}");
        }
        let jobs = result["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 20);
        for (place, job) in jobs.iter().enumerate() {
            assert_eq!(job["id"], place);
            assert!(job["jct_s"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn several_policies_make_one_table_and_pictures() {
    let folder = folder();
    let policies = "--policies srpt,gavel,themis-filter --figures out";
    let table = good(folder.path(), &format!("compare {INPUT} {policies}"));
    let first: Vec<&str> =
        table.lines().skip(2).map(|line| line.split('|').nth(1).unwrap().trim()).collect();
    assert_eq!(first, ["srpt", "gavel", "themis-filter"]);
    for semantics in ["published", "product"] {
        let run = format!("simulate {INPUT} --policy shockwave --semantics {semantics}");
        good(folder.path(), &format!("{run} --figures {semantics}"));
        let names = ["timeline", "sizes", "forecast", "forecast-error"];
        for name in names {
            let path = format!("{semantics}/{name}-shockwave.svg");
            let text = fs::read_to_string(folder.path().join(&path)).unwrap();
            assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{path}");
        }
    }
    for name in ["out/metrics.svg", "out/rho.svg", "out/completion.svg"] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
}

#[test]
fn a_trace_survives_both_formats() {
    let folder = folder();
    let original = fs::read_to_string(folder.path().join("trace.csv")).unwrap();
    let tables = "--profiles . --throughputs speeds.csv";
    good(folder.path(), "trace convert --input trace.csv --output trace.tsv --to published");
    let tabs = fs::read_to_string(folder.path().join("trace.tsv")).unwrap();
    assert!(tabs.lines().all(|line| line.split('\t').count() == 12));
    good(folder.path(), &format!("trace convert --input trace.tsv --output back.csv {tables}"));
    assert_eq!(fs::read_to_string(folder.path().join("back.csv")).unwrap(), original);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let folder = folder();
    let original = fs::read_to_string(folder.path().join("trace.csv")).unwrap();
    let spoilt = original.lines().enumerate().map(|(place, line)| {
        let line = if place == 3 { line.replacen(',', "x,", 1) } else { line.to_owned() };
        line + "\n"
    });
    fs::write(folder.path().join("bad.csv"), spoilt.collect::<String>()).unwrap();
    let input = INPUT.replace("trace.csv", "bad.csv");
    let told = bad(folder.path(), &format!("simulate {input} --policy srpt"));
    assert!(told.contains("bad.csv: trace, line 4, column arrival_s: got `"), "{told}");
    good(folder.path(), &format!("simulate {INPUT} --policy shockwave --samples 4"));
    let told = bad(folder.path(), &format!("simulate {INPUT} --policy srpt --samples 4"));
    assert!(told.contains("policy srpt cannot plan over 4 samples"), "{told}");
    let told = bad(folder.path(), &format!("simulate {INPUT} --policy fastest"));
    assert!(told.contains("no policy \"fastest\"") && told.contains("list-rule"), "{told}");
    let told = bad(folder.path(), &format!("simulate {INPUT} --policy srpt --faults loss=2"));
    assert!(told.contains("--semantics product"), "{told}");
    let told = bad(folder.path(), &format!("simulate {INPUT} --policy srpt --faults lost=2"));
    assert!(told.contains("got `lost=2`") && told.contains("loss=HOURS"), "{told}");
    let one = INPUT.replace("--gpus 6", "--gpus 1");
    let told = bad(folder.path(), &format!("simulate {one} --policy srpt"));
    assert!(told.contains("needs 2 GPUs, expected at most the cluster's 1"), "{told}");
    let told = bad(folder.path(), "reproduce --reference nowhere");
    assert!(told.contains("nowhere, which is no folder"), "{told}");
}

#[test]
fn the_sample_is_all_that_a_first_comparison_needs() {
    let folder = tempfile::tempdir().unwrap();
    let told = good(folder.path(), "trace sample --output tables --jobs 30");
    assert!(told.contains("30 jobs"), "{told}");
    let input = "--trace tables/trace.csv --profiles tables --throughputs tables/throughputs.csv";
    let policies = "--policies shockwave,gandiva-fair --samples 4 --window-t 10 --json";
    let told = good(folder.path(), &format!("compare {input} --gpus 8 {policies}"));
    let runs: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(runs.as_array().unwrap().len(), 2);
    for run in runs.as_array().unwrap() {
        assert_eq!(run["jobs"].as_array().unwrap().len(), 30);
    }
    // Nobody's own tables are written over.
    let refused = bad(folder.path(), "trace sample --output tables");
    assert!(refused.contains("datasets.csv already"), "{refused}");
}
