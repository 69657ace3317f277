//! Behaviour of the whole elevator, and of its engine compared with simpler models.

use super::Config;

mod chaos;
mod depth;
mod engine;
mod inject;
mod merge;
mod oracle;
mod raising;
mod shares;
mod turns;

/// Returns Linux's defaults without the heuristics.
fn plain() -> Config {
    Config::default()
        .low_latency(false)
        .injection(false)
        .merge(false)
}
