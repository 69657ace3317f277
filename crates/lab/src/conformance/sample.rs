//! Samples: the results of one player in one run, and their file format.

use std::fmt::Write as _;

/// The results of a player in one run of a case. If it runs in several groups, bandwidths are added
/// up and latencies averaged.
#[derive(Clone, PartialEq, Debug)]
pub struct PlayerSample {
    /// The name of the case.
    pub case: String,
    /// The number of the run, from 1.
    pub run: u32,
    /// The name of the player.
    pub player: String,
    /// The bandwidth in bytes per second.
    pub bandwidth: f64,
    /// The latency of a request from the call to its completion, in microseconds: mean, median,
    /// 99th percentile.
    pub latency: [f64; 3],
}

impl PlayerSample {
    /// Combines the samples of a player in several groups. Returns `None` without samples.
    pub fn pooled(parts: &[Self]) -> Option<Self> {
        let mut all = parts.first()?.clone();
        all.bandwidth = parts.iter().map(|p| p.bandwidth).sum();
        for (n, latency) in all.latency.iter_mut().enumerate() {
            *latency = parts.iter().map(|p| p.latency[n]).sum::<f64>() / parts.len() as f64;
        }
        Some(all)
    }
}

/// Formats samples as text, one per line.
pub fn write(samples: &[PlayerSample]) -> String {
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

/// Reads the output of [`write()`].
///
/// # Errors
/// Returns the first line that is not a sample.
pub fn read(text: &str) -> Result<Vec<PlayerSample>, String> {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|line| parse(line).ok_or_else(|| format!("not a sample: {line:?}")))
        .collect()
}

fn parse(line: &str) -> Option<PlayerSample> {
    let mut fields = line.split('|').map(str::trim);
    let sample = PlayerSample {
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
