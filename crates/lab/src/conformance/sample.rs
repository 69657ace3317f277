//! What one run gave one player, and how that is stored.

use std::fmt::Write as _;

/// What a player got in one run of a case. Where it runs in several groups: the sum of the bandwidths, and the means of the rest.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The case.
    pub case: String,
    /// The number of the run, from 1.
    pub run: u32,
    /// The player.
    pub player: String,
    /// Bytes a second.
    pub bandwidth: f64,
    /// Latency of a request, from the call to its end, in microseconds: mean, median, 99th of a hundred.
    pub latency: [f64; 3],
}

impl Sample {
    /// The sample of a player in several groups, from those of each.
    pub fn pooled(parts: &[Self]) -> Option<Self> {
        let mut all = parts.first()?.clone();
        all.bandwidth = parts.iter().map(|p| p.bandwidth).sum();
        for (n, latency) in all.latency.iter_mut().enumerate() {
            *latency = parts.iter().map(|p| p.latency[n]).sum::<f64>() / parts.len() as f64;
        }
        Some(all)
    }
}

/// Samples as text: one a line.
pub fn write(samples: &[Sample]) -> String {
    let mut text = "# case | run | player | bytes/s | latency in us: mean, p50, p99\n".to_owned();
    for s in samples {
        let [mean, p50, p99] = s.latency;
        let _ = writeln!(
            text,
            "{} | {} | {} | {:.0} | {mean:.1} | {p50:.1} | {p99:.1}",
            s.case, s.run, s.player, s.bandwidth
        );
    }
    text
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// The first line that is none of its.
pub fn read(text: &str) -> Result<Vec<Sample>, String> {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|line| parse(line).ok_or_else(|| format!("not a sample: {line:?}")))
        .collect()
}

fn parse(line: &str) -> Option<Sample> {
    let mut fields = line.split('|').map(str::trim);
    let sample = Sample {
        case: fields.next()?.to_owned(),
        run: fields.next()?.parse().ok()?,
        player: fields.next()?.to_owned(),
        bandwidth: fields.next()?.parse().ok()?,
        latency: [
            fields.next()?.parse().ok()?,
            fields.next()?.parse().ok()?,
            fields.next()?.parse().ok()?,
        ],
    };
    fields.next().is_none().then_some(sample)
}
