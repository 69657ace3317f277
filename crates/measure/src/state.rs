//! What a controller or elevator was doing over a run.

use crate::Run;
use crate::jsonl::write;
use serde::Serialize;

/// One number of a controller or elevator over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct State {
    /// What it is: `vrate`, `depth`, `weight in use`.
    pub state: String,
    /// Whose: a client, the clients of a group, or `drive`.
    pub of: String,
    /// Its unit: `%`, `ms`, `kB`; empty for numbers of things.
    pub unit: String,
    /// Seconds from the beginning of the measurement, and the value then.
    pub points: Vec<(f64, f64)>,
}

/// A line of a trace.
#[derive(Serialize)]
struct Line<'a> {
    scenario: &'a str,
    drive: &'a str,
    case: &'a str,
    policy: &'a str,
    repeat: u32,
    #[serde(flatten)]
    state: &'a State,
}

impl State {
    /// It as one line of JSON, without the newline, with the run that it is of. Every fraction has three digits.
    pub fn to_line(&self, run: &Run) -> String {
        write(&Line {
            scenario: &run.scenario,
            drive: &run.drive,
            case: &run.case,
            policy: &run.policy,
            repeat: run.repeat,
            state: self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_of_which_run_it_is() {
        let run = Run {
            scenario: "latency".into(),
            drive: "demo".into(),
            case: "readers".into(),
            policy: "io.cost".into(),
            ..Run::default()
        };
        let state = State {
            state: "vrate".into(),
            of: "drive".into(),
            unit: "%".into(),
            points: vec![(0.0, 100.0), (0.5, 87.5)],
        };
        let line = r#"{"scenario":"latency","drive":"demo","case":"readers","policy":"io.cost","repeat":0,"state":"vrate","of":"drive","unit":"%","points":[[0.000,100.000],[0.500,87.500]]}"#;
        assert_eq!(state.to_line(&run), line);
    }
}
