//! `shockwave whatif`: the live state played on in the simulator, as it is and with a difference.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use shockwave_proto::v1::{
    SetWeightRequest, UserTerms, WhatIfEnd, WhatIfJob, WhatIfReply, WhatIfRequest, WhatIfSide,
};

use super::connect::{CoordinatorArgs, run_async};
use super::json;
use super::table::{self, duration, or_dash};

/// Plays the live state on in the simulator, as it is and with something different; nothing live
/// changes. Jobs go on as they are forecast
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shockwave whatif --length-s 7200 --gpus 4      another job of two hours on 4 devices
  shockwave whatif --like 3 --copies 5           five more like job 3
  shockwave whatif --weight 3=2                  job 3 had twice the budget
  shockwave whatif --more-gpus 8 --policy gavel  8 devices more, and another policy")]
pub struct WhatIfArgs {
    /// Another job: the time that it trains alone on its devices, seconds
    #[arg(long, value_name = "SECONDS")]
    pub length_s: Option<f64>,
    /// Another job: like this one, from its beginning
    #[arg(long, value_name = "JOB")]
    pub like: Option<u64>,
    /// Devices of the other job [default: 1, or as the one it is like]
    #[arg(long, value_name = "COUNT")]
    pub gpus: Option<u32>,
    /// Budget of the other job
    #[arg(long, default_value_t = 1.0, value_name = "WEIGHT")]
    pub job_weight: f64,
    /// How many such jobs
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub copies: u32,
    /// Another weight of a job that is there; repeatable
    #[arg(long, value_name = "JOB=WEIGHT", value_parser = weight)]
    pub weight: Vec<(u64, f64)>,
    /// Another budget of a user; repeatable
    #[arg(long, value_name = "USER=WEIGHT", value_parser = user)]
    pub user_weight: Vec<(String, f64)>,
    /// More devices, of the kind that there are most of
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub more_gpus: u32,
    /// Without a machine: nothing new starts there; repeatable
    #[arg(long, value_name = "NODE")]
    pub without: Vec<String>,
    /// A job is cancelled; repeatable
    #[arg(long, value_name = "JOB")]
    pub cancel: Vec<u64>,
    /// Another policy
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Time that the answer may take, seconds, at most 25; what is not reached by then is left open
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    pub limit_s: f64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

fn pair<'a>(text: &'a str, expected: &str) -> Result<(&'a str, f64), String> {
    let (name, weight) = text.split_once('=').ok_or_else(|| format!("expected {expected}"))?;
    let weight: f64 = weight.parse().map_err(|_| format!("{weight:?} is no number"))?;
    if weight > 0.0 && weight.is_finite() {
        return Ok((name, weight));
    }
    Err(format!("a weight of {weight}, expected a number above 0"))
}

fn weight(text: &str) -> Result<(u64, f64), String> {
    let (job, weight) = pair(text, "JOB=WEIGHT, such as 3=2")?;
    let job = job.parse().map_err(|_| format!("{job:?} is no number of a job"))?;
    Ok((job, weight))
}

fn user(text: &str) -> Result<(String, f64), String> {
    let (user, weight) = pair(text, "USER=WEIGHT, such as ada=2")?;
    Ok((user.to_owned(), weight))
}

#[derive(Debug, Serialize)]
struct WhatIf {
    now: Side,
    changed: Side,
    jobs: Vec<End>,
}

/// All times count from now, seconds.
#[derive(Debug, Serialize)]
struct Side {
    policy: String,
    makespan_s: Option<f64>,
    mean_left_s: Option<f64>,
    worst_rho: Option<f64>,
    complete: bool,
    played_s: f64,
}

#[derive(Debug, Serialize)]
struct End {
    id: Option<u64>,
    name: String,
    user: String,
    declared: bool,
    now_s: Option<f64>,
    changed_s: Option<f64>,
    difference_s: Option<f64>,
    now_rho: Option<f64>,
    changed_rho: Option<f64>,
}

impl From<WhatIfSide> for Side {
    fn from(it: WhatIfSide) -> Self {
        Self {
            policy: it.policy,
            makespan_s: it.makespan_s,
            mean_left_s: it.mean_left_s,
            worst_rho: it.worst_rho,
            complete: it.complete,
            played_s: it.played_s,
        }
    }
}

impl From<WhatIfEnd> for End {
    fn from(it: WhatIfEnd) -> Self {
        Self {
            id: (it.job_id > 0).then_some(it.job_id),
            name: it.name,
            user: it.user,
            declared: it.declared,
            now_s: it.now_s,
            changed_s: it.changed_s,
            difference_s: it.now_s.zip(it.changed_s).map(|(now, changed)| changed - now),
            now_rho: it.now_rho,
            changed_rho: it.changed_rho,
        }
    }
}

impl From<WhatIfReply> for WhatIf {
    fn from(it: WhatIfReply) -> Self {
        Self {
            now: it.now.unwrap_or_default().into(),
            changed: it.changed.unwrap_or_default().into(),
            jobs: it.jobs.into_iter().map(End::from).collect(),
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &WhatIfArgs) -> ExitCode {
    run_async(async {
        let mut client = args.coordinator.connect().await?;
        let reply = client.what_if(args.request()).await?.into_inner();
        let answer = WhatIf::from(reply);
        if args.coordinator.json {
            json::print("whatif", &answer)?;
        } else {
            table::print(&render(&answer))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

impl WhatIfArgs {
    fn request(&self) -> WhatIfRequest {
        let job = WhatIfJob {
            gpus: self.gpus.unwrap_or(0),
            length_s: self.length_s.unwrap_or(0.0),
            like: self.like.unwrap_or(0),
            weight: self.job_weight,
        };
        let wanted = self.length_s.is_some() || self.like.is_some() || self.gpus.is_some();
        let jobs = if wanted { vec![job; self.copies as usize] } else { Vec::new() };
        let weights = self.weight.iter();
        let users = self.user_weight.iter();
        WhatIfRequest {
            jobs,
            weights: weights
                .map(|(job_id, weight)| SetWeightRequest { job_id: *job_id, weight: *weight })
                .collect(),
            users: users
                .map(|(user, weight)| UserTerms {
                    user: user.clone(),
                    weight: *weight,
                    gpus_max: None,
                })
                .collect(),
            more_gpus: self.more_gpus,
            policy: self.policy.clone().unwrap_or_default(),
            drained: self.without.clone(),
            cancelled: self.cancel.clone(),
            limit_s: self.limit_s,
        }
    }
}

fn render(answer: &WhatIf) -> String {
    let time = |value: Option<f64>| or_dash(value.map(duration));
    let rho = |value: Option<f64>| or_dash(value.map(|rho| format!("{rho:.2}")));
    let row = |it: &End| {
        vec![
            it.id.map_or_else(|| "new".into(), |id| id.to_string()),
            if it.declared { it.name.clone() } else { format!("{} *", it.name) },
            it.user.clone(),
            time(it.now_s),
            time(it.changed_s),
            or_dash(it.difference_s.map(difference)),
            rho(it.now_rho),
            rho(it.changed_rho),
        ]
    };
    let mut rows: Vec<_> = answer.jobs.iter().map(row).collect();
    let (now, changed) = (&answer.now, &answer.changed);
    let both = now.makespan_s.zip(changed.makespan_s);
    rows.push(vec![
        String::new(),
        "all (makespan, worst rho)".into(),
        String::new(),
        time(now.makespan_s),
        time(changed.makespan_s),
        or_dash(both.map(|(now, changed)| difference(changed - now))),
        rho(now.worst_rho),
        rho(changed.worst_rho),
    ]);
    let header = ["ID", "NAME", "USER", "ENDS IN", "THEN", "DIFFERENCE", "RHO", "THEN"];
    let mut text = table::table(&header, &rows);
    if now.policy != changed.policy {
        text.push_str(&format!("\npolicy {} now, {} then", now.policy, changed.policy));
    }
    if answer.jobs.iter().any(|job| !job.declared) {
        text.push_str("\n* has declared nothing: how long it takes is a guess");
    }
    for (side, name) in [(now, "as it is"), (changed, "with the difference")] {
        if !side.complete {
            text.push_str(&format!(
                "\nplayed for {} only, {name}: the time limit came first (--limit-s)",
                duration(side.played_s)
            ));
        }
    }
    text
}

/// A difference of times, with its sign.
fn difference(seconds: f64) -> String {
    match seconds {
        s if s.abs() < 0.5 => "0 s".into(),
        s if s < 0.0 => format!("-{}", duration(-s)),
        s => format!("+{}", duration(s)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_their_sign() {
        let check = |seconds, expected: &str| assert_eq!(difference(seconds), expected);
        check(0.2, "0 s");
        check(-61.0, "-1 min 1 s");
        check(7200.0, "+2 h 0 min");
    }

    #[test]
    fn weights_are_read() {
        assert_eq!(weight("3=2"), Ok((3, 2.0)));
        assert_eq!(user("ada=0.5"), Ok(("ada".into(), 0.5)));
        assert!(weight("3=0").is_err() && weight("x=1").is_err() && weight("3").is_err());
    }
}
