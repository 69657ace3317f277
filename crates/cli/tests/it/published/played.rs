//! Plays scenarios with `weir compare`, and extracts figures from the output.

use crate::common::{Scratch, records, root, run};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;

/// The arguments of one `weir compare`. Missing fields have the value of the scenario.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompareArguments {
    pub(crate) scenario: String,
    #[serde(default)]
    pub(crate) drives: Vec<String>,
    pub(crate) policies: Vec<String>,
    #[serde(default)]
    pub(crate) cases: Vec<String>,
    pub(crate) repetitions: Option<u32>,
    pub(crate) seconds: Option<u32>,
}

/// The records of a comparison, and the states of its controllers in the first repetition.
#[derive(Debug)]
pub(crate) struct CompareResults {
    records: Vec<Value>,
    states: Vec<Value>,
}

/// The place of a figure. A missing field matches anything, except that the default client is the
/// target.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigurePlace {
    pub(crate) run: Option<String>,
    pub(crate) drive: Option<String>,
    pub(crate) case: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) client: Option<String>,
    /// The key of a record, with dots between nested keys. The default is the bandwidth.
    pub(crate) figure: Option<String>,
    /// The function over several runs. The default is the mean.
    pub(crate) runs: Option<RunAggregate>,
    /// If set, the figure is the fraction of runs whose value is below this bound.
    pub(crate) below: Option<f64>,
    /// If set, only runs whose value is below this bound count for `runs`.
    pub(crate) among_below: Option<f64>,
    /// A state of a trace instead of a figure, with the function of it in `over_time`.
    pub(crate) state: Option<String>,
    pub(crate) over_time: Option<TimeAggregate>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunAggregate {
    Least,
    Most,
    /// The value in the middle, or the lower one of two.
    Median,
    /// The largest value divided by the smallest.
    Spread,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TimeAggregate {
    Least,
    Most,
    /// The number of times that the value returns to its maximum.
    Rises,
}

impl CompareArguments {
    /// Plays the runs in the simulator.
    pub(crate) fn play(&self) -> CompareResults {
        let scratch = Scratch::new();
        let trace = scratch.at("trace.jsonl");
        let line = format!("{} --json - --trace {trace}", self.line());
        let said = run(&scratch, &line).ended(0);
        CompareResults {
            records: records(&said.out),
            states: records(&fs::read_to_string(&trace).expect("it was written")),
        }
    }

    /// Plays the runs under a kernel that is a program, in lockstep with the model of the drive.
    pub(crate) fn play_on(&self, kernel: &OsStr) -> CompareResults {
        let kernel = kernel.display();
        let line = format!("{} --on guest --kernel '{kernel}' --json -", self.line());
        let said = run(&Scratch::new(), &line).ended(0);
        CompareResults {
            records: records(&said.out),
            states: Vec::new(),
        }
    }

    /// Returns the command line that plays the runs.
    fn line(&self) -> String {
        // Scenarios, drives and policies of these tests are in files next to this one.
        let here = root().join("crates/cli/tests/it/published");
        let place = |name: &String| match name.strip_prefix("./") {
            Some(file) => here.join(file).display().to_string(),
            None => name.clone(),
        };
        let mut line = format!("compare '{}'", place(&self.scenario));
        let mut add = |option: &str, value: &str| line.extend([" ", option, " '", value, "'"]);
        for (option, names) in [("--drive", &self.drives), ("--policy", &self.policies)] {
            for name in names {
                add(option, &place(name));
            }
        }
        self.cases.iter().for_each(|case| add("--case", case));
        let mut limit = |option, n: Option<u32>| n.iter().for_each(|n| add(option, &n.to_string()));
        limit("--repetitions", self.repetitions);
        limit("--seconds", self.seconds);
        line
    }

    /// Returns the scenario in Markdown, and the drives that are files of these tests.
    pub(crate) fn called(&self) -> String {
        let name = |of: &String| {
            let of = of.trim_start_matches("./").trim_end_matches(".toml");
            format!("`{of}`")
        };
        let files = self.drives.iter().filter(|drive| drive.starts_with("./"));
        let drives: Vec<String> = files.map(name).collect();
        let on = if drives.is_empty() { "" } else { " on " };
        format!("{}{on}{}", name(&self.scenario), drives.join(", "))
    }
}

impl FigurePlace {
    /// Returns this cell, in which missing fields are taken from `base`.
    pub(crate) fn or(&self, base: &Self) -> Self {
        let or =
            |mine: &Option<String>, other: &Option<String>| mine.clone().or_else(|| other.clone());
        Self {
            run: or(&self.run, &base.run),
            drive: or(&self.drive, &base.drive),
            case: or(&self.case, &base.case),
            policy: or(&self.policy, &base.policy),
            client: or(&self.client, &base.client),
            figure: or(&self.figure, &base.figure),
            runs: self.runs.or(base.runs),
            below: self.below.or(base.below),
            among_below: self.among_below.or(base.among_below),
            state: or(&self.state, &base.state),
            over_time: self.over_time.or(base.over_time),
        }
    }

    /// Returns the place of the figure in a record.
    fn pointer(&self) -> String {
        let key = self.figure.as_deref().unwrap_or("bandwidth_mb_per_s");
        format!("/{}", key.replace('.', "/"))
    }

    fn client(&self) -> &str {
        self.client.as_deref().unwrap_or("target")
    }

    /// Returns true if a record, or a state with the subject `subject`, belongs to the drive, case,
    /// policy and client.
    fn is_of(&self, record: &Value, subject: &str, client: &str) -> bool {
        let is = |key: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| record[key] == **wanted)
        };
        record[subject] == client
            && is("drive", &self.drive)
            && is("case", &self.case)
            && is("policy", &self.policy)
    }
}

/// The keys of a record that are stored of Linux.
const STORED: [&str; 8] = [
    "scenario",
    "drive",
    "case",
    "policy",
    "client",
    "repetition",
    "requests",
    "bandwidth_mb_per_s",
];

impl CompareResults {
    /// Returns the records as lines of JSON with the name of their run, without figures that no
    /// claim uses.
    pub(crate) fn lines(&self, run: &str) -> String {
        let line = |record: &Value| {
            let kept = STORED.map(|key| (key.to_owned(), record[key].clone()));
            let mut kept: serde_json::Map<String, Value> = kept.into_iter().collect();
            kept.insert("run".to_owned(), run.into());
            let mean = &record["latency_us"]["mean"];
            kept.insert("latency_us".to_owned(), json!({ "mean": mean }));
            Value::Object(kept).to_string() + "\n"
        };
        self.records.iter().map(line).collect()
    }

    /// Returns the records of a run from lines of JSON.
    pub(crate) fn stored(lines: &str, run: &str) -> Self {
        let mut records = records(lines);
        records.retain(|record| record["run"] == *run);
        Self {
            records,
            states: Vec::new(),
        }
    }

    /// Returns the figures of Linux that the validation of the drive models shows.
    pub(crate) fn validated() -> Self {
        let file = root().join("crates/lab/src/fit/linux.txt");
        let text = fs::read_to_string(file).expect("it was stored");
        let records = text.lines().filter_map(|line| {
            let (key, figures) = line.split_once(" | ")?;
            let (drive, figure) = key.split_once(": latency/")?;
            let (case, policy) = figure.split_once('/')?;
            let (requests, mean_ns) = figures.split_once(" | ")?;
            let mean: f64 = mean_ns.parse().ok()?;
            let requests: u64 = requests.parse().ok()?;
            Some(json!({
                "drive": drive, "case": case, "policy": policy, "client": "target",
                "requests": requests, "latency_us": { "mean": mean / 1e3 },
            }))
        });
        Self {
            records: records.collect(),
            states: Vec::new(),
        }
    }

    /// Returns true if there is a record of the cell's drive, case, policy and client, with its
    /// figure.
    pub(crate) fn has(&self, cell: &FigurePlace) -> bool {
        let pointer = cell.pointer();
        let clients = match cell.client() {
            "others" => vec!["total", "target"],
            client => vec![client],
        };
        let is_stored = |client: &&str| {
            self.records.iter().any(|r| {
                cell.is_of(r, "client", client) && r.pointer(&pointer).is_some_and(Value::is_number)
            })
        };
        cell.state.is_none() && clients.iter().all(is_stored)
    }

    /// Returns the figure of a cell.
    pub(crate) fn figure(&self, cell: &FigurePlace) -> f64 {
        if let Some(state) = &cell.state {
            let of = cell.over_time.expect("it says what over time");
            return over_time(&self.points(cell, state), of);
        }
        let runs = if cell.client() == "others" {
            let (all, target) = (self.runs(cell, "total"), self.runs(cell, "target"));
            let rest = all
                .iter()
                .zip(&target)
                // `others` are all clients except the target.
                .map(|(all, one)| (all.0 - one.0, 1.0));
            rest.collect()
        } else {
            self.runs(cell, cell.client())
        };
        over_runs(&runs, cell)
    }

    /// Returns the figure of each run with its weight in a mean. A latency has the number of
    /// requests as its weight.
    fn runs(&self, cell: &FigurePlace, client: &str) -> Vec<(f64, f64)> {
        let pointer = cell.pointer();
        let found = self
            .records
            .iter()
            .filter(|r| cell.is_of(r, "client", client));
        let found: Vec<&Value> = found.collect();
        for part in ["drive", "case", "policy"] {
            // A figure must come from a single drive, case and policy.
            let same = found.iter().all(|r| r[part] == found[0][part]);
            assert!(same && !found.is_empty(), "one {part}: {cell:?}, {client}");
        }
        let figure = |r: &&Value| {
            let weight = if pointer.starts_with("/latency_us") {
                &r["requests"]
            } else {
                &Value::Null
            };
            let value = r.pointer(&pointer).and_then(Value::as_f64);
            let value = value.unwrap_or_else(|| panic!("no {pointer}: {cell:?}"));
            (value, weight.as_f64().unwrap_or(1.0))
        };
        found.iter().map(figure).collect()
    }

    /// Returns the values of a state over time.
    fn points(&self, cell: &FigurePlace, state: &str) -> Vec<f64> {
        let of = |s: &&Value| s["state"] == state && cell.is_of(s, "of", cell.client());
        let mut found = self.states.iter().filter(of);
        let first = found.next().unwrap_or_else(|| panic!("no {cell:?}"));
        assert!(found.next().is_none(), "several: {cell:?}");
        let points = first["points"].as_array().expect("points");
        let value = |point: &Value| point[1].as_f64().expect("a number");
        points.iter().map(value).collect()
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let start = (f64::INFINITY, f64::NEG_INFINITY);
    values.fold(start, |(a, b), v| (a.min(v), b.max(v)))
}

fn over_runs(runs: &[(f64, f64)], cell: &FigurePlace) -> f64 {
    if let Some(bound) = cell.below {
        let low = runs.iter().filter(|run| run.0 < bound).count();
        return low as f64 / runs.len() as f64;
    }
    let kept = |run: &&(f64, f64)| cell.among_below.is_none_or(|bound| run.0 < bound);
    let mut runs: Vec<(f64, f64)> = runs.iter().filter(kept).copied().collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, most) = bounds(runs.iter().map(|run| run.0));
    match cell.runs {
        None => {
            let all: f64 = runs.iter().map(|run| run.1).sum();
            runs.iter().map(|run| run.0 * run.1).sum::<f64>() / all
        }
        Some(RunAggregate::Least) => least,
        Some(RunAggregate::Most) => most,
        Some(RunAggregate::Median) => {
            let middle = runs.get(runs.len().saturating_sub(1) / 2);
            middle.expect("no run is below the bound").0
        }
        Some(RunAggregate::Spread) => most / least,
    }
}

fn over_time(points: &[f64], of: TimeAggregate) -> f64 {
    let (least, most) = bounds(points.iter().copied());
    match of {
        TimeAggregate::Least => least,
        TimeAggregate::Most => most,
        TimeAggregate::Rises => {
            let rises = points.windows(2).filter(|p| p[0] < most && p[1] >= most);
            rises.count() as f64
        }
    }
}
