//! Prints the lines of `io.cost.model` and `io.cost.qos` in the format of Linux and resctl-bench.
//!
//! The parameters are derived as in Linux's `tools/cgroup/iocost_coef_gen.py`: sequential
//! bandwidth, and sequential and random requests of 4 KiB per second. A latency target is 1.5 times
//! the 95th percentile of random requests at 90 % of their rate (the median on a rotating disk).

use crate::calibrate::calibration::Calibration;
use crate::calibrate::found::StepResult;
use crate::calibrate::plan::step;
use std::fmt::Write;

/// The bounds of vrate in per cent, which are chosen and not measured.
const VRATE: (f64, f64) = (60.0, 100.0);

/// Returns the line of `io.cost.model` with the parameters that were measured, or `None` without
/// any.
pub fn model(known: &Calibration) -> Option<String> {
    let bytes = |found: &StepResult| found.bytes_per_second;
    let parts = [
        ("rbps", step::READ, bytes as fn(&StepResult) -> f64),
        (
            "rseqiops",
            step::READ_SHORT,
            StepResult::requests_per_second,
        ),
        (
            "rrandiops",
            step::READ_RANDOM,
            StepResult::requests_per_second,
        ),
        ("wbps", step::WRITE, bytes),
        (
            "wseqiops",
            step::WRITE_SHORT,
            StepResult::requests_per_second,
        ),
        (
            "wrandiops",
            step::WRITE_RANDOM,
            StepResult::requests_per_second,
        ),
    ];
    let mut line = format!("{}ctrl=user model=linear", device(known));
    let start = line.len();
    for (key, name, figure) in parts {
        if let Some(found) = known.step(name) {
            let _ = write!(line, " {key}={}", figure(found).round().max(1.0) as u64);
        }
    }
    (line.len() > start).then_some(line)
}

/// Returns the line of `io.cost.qos` with the parameters that were measured, or `None` without any.
pub fn qos(known: &Calibration) -> Option<String> {
    // High percentiles of a rotating disk are dominated by long seeks.
    let percent = if known.is_rotating() { 50 } else { 95 };
    let target = |name| {
        let latency = known.step(name)?.latency_us?;
        let of = if known.is_rotating() {
            latency.p50
        } else {
            latency.p95
        };
        Some((of * 1.5).round().max(1.0) as u64)
    };
    let mut line = format!("{}enable=1 ctrl=user", device(known));
    let start = line.len();
    for (kind, name) in [('r', step::READ_PACED), ('w', step::WRITE_PACED)] {
        if let Some(latency) = target(name) {
            let _ = write!(line, " {kind}pct={percent}.00 {kind}lat={latency}");
        }
    }
    // A line without targets would enable `io.cost` without control of latency.
    if line.len() == start {
        return None;
    }
    let (min, max) = VRATE;
    let _ = write!(line, " min={min:.2} max={max:.2}");
    Some(line)
}

/// Returns the number of the device, which Linux requires at the beginning of each line.
fn device(known: &Calibration) -> String {
    let number = known.target.device.as_ref();
    number.map_or_else(String::new, |number| format!("{number} "))
}
