//! The lines of `io.cost.model` and `io.cost.qos`, as Linux and resctl-bench write them.
//!
//! The figures are taken as `tools/cgroup/iocost_coef_gen.py` takes them: bandwidth in sequence, requests of 4 KiB a second in sequence
//! and at random places; a latency target is one and a half times what 95 of a hundred random requests take at nine tenths of their
//! rate (on a disk that turns, 50 of a hundred).

use crate::calibrate::calibration::Calibration;
use crate::calibrate::found::Found;
use crate::calibrate::plan::step;
use std::fmt::Write;

/// The bounds of vrate in per cent, which that program chooses and does not measure.
const VRATE: (f64, f64) = (60.0, 100.0);

/// The line of `io.cost.model`, with its parts that were measured; `None` without any.
pub fn model(known: &Calibration) -> Option<String> {
    let bytes = |found: &Found| found.bytes_per_second;
    let parts = [
        ("rbps", step::READ, bytes as fn(&Found) -> f64),
        ("rseqiops", step::READ_SHORT, Found::requests_per_second),
        ("rrandiops", step::READ_RANDOM, Found::requests_per_second),
        ("wbps", step::WRITE, bytes),
        ("wseqiops", step::WRITE_SHORT, Found::requests_per_second),
        ("wrandiops", step::WRITE_RANDOM, Found::requests_per_second),
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

/// The line of `io.cost.qos`, with its parts that were measured; `None` without any.
pub fn qos(known: &Calibration) -> Option<String> {
    let percent = if known.rotates() { 50 } else { 95 };
    let target = |name| {
        let latency = known.step(name)?.latency_us?;
        let of = if known.rotates() {
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
    if line.len() == start {
        return None;
    }
    let (min, max) = VRATE;
    let _ = write!(line, " min={min:.2} max={max:.2}");
    Some(line)
}

/// The device's number, which Linux wants at the beginning of each line.
fn device(known: &Calibration) -> String {
    let number = known.target.device.as_ref();
    number.map_or_else(String::new, |number| format!("{number} "))
}
