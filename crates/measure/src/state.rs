//! The state of controllers and elevators over a run, for `weir compare --trace`.

use crate::RunId;
use crate::jsonl::write;
use serde::Serialize;

/// One quantity of a controller or elevator over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TracedState {
    /// The name of the quantity, such as `vrate`, `depth` or `weight in use`.
    pub state: String,
    /// The subject: a client, the clients of a group, or `drive`.
    pub of: String,
    /// The unit (`%`, `ms`, `kB`), or an empty string for a number of things.
    pub unit: String,
    /// The points: seconds from the start of the measurement, and the value at that time.
    pub points: Vec<(f64, f64)>,
}

/// One line of a trace: the quantity with the run that it belongs to.
#[derive(Serialize)]
struct TraceLine<'a> {
    scenario: &'a str,
    drive: &'a str,
    case: &'a str,
    policy: &'a str,
    repeat: u32,
    #[serde(flatten)]
    state: &'a TracedState,
}

impl TracedState {
    /// Returns the quantity and its run as one line of JSON, without the newline. Each fraction has
    /// three digits.
    pub fn to_line(&self, run: &RunId) -> String {
        write(&TraceLine {
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
    fn a_line_identifies_its_run() {
        let run = RunId {
            scenario: "latency".into(),
            drive: "demo".into(),
            case: "readers".into(),
            policy: "io.cost".into(),
            ..RunId::default()
        };
        let state = TracedState {
            state: "vrate".into(),
            of: "drive".into(),
            unit: "%".into(),
            points: vec![(0.0, 100.0), (0.5, 87.5)],
        };
        let line = r#"{"scenario":"latency","drive":"demo","case":"readers","policy":"io.cost","repeat":0,"state":"vrate","of":"drive","unit":"%","points":[[0.000,100.000],[0.500,87.500]]}"#;
        assert_eq!(state.to_line(&run), line);
    }
}
