//! Rows: a figure of a player in Linux and in Weir, and the verdict whether they agree.

use crate::conformance::sample::PlayerSample;
use weir_measure::Interval;

/// The tolerance of a comparison, as a fraction of Linux's mean. A row agrees if the two means
/// differ by no more than this. It is inconclusive if the half-width of Linux's confidence interval
/// is larger than this.
pub const TOLERANCE: f64 = 0.10;

/// One figure of one player, or of all players together, on both sides.
#[derive(Clone, PartialEq, Debug)]
pub struct ConformanceRow {
    /// The name of the player, or `total`.
    pub player: String,
    /// The figure that is compared.
    pub figure: RowFigure,
    /// The mean and confidence interval in Linux.
    pub linux: Interval,
    /// The mean and confidence interval in Weir.
    pub weir: Interval,
}

/// The kind of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowFigure {
    /// The bandwidth of all players, in bytes per second.
    Total,
    /// The part of the total that a player gets, as a fraction.
    Share,
    /// The mean latency of a request, in microseconds.
    Mean,
    /// The median latency of a request, in microseconds.
    P50,
    /// The 99th percentile of latency, in microseconds.
    P99,
}

/// The verdict about a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowVerdict {
    /// The intervals overlap, or the means are close to each other.
    Agrees,
    /// The intervals do not overlap, and the means are not close.
    Differs,
    /// The samples of Linux differ too much from each other.
    Inconclusive,
}

impl ConformanceRow {
    /// Returns the relative difference of Weir's mean from Linux's.
    pub fn difference(&self) -> f64 {
        self.weir.mean / self.linux.mean - 1.0
    }

    /// Returns the verdict whether the two sides agree.
    pub fn verdict(&self) -> RowVerdict {
        // With such an interval, nearly every result of Weir would agree.
        if self.linux.half > TOLERANCE * self.linux.mean {
            RowVerdict::Inconclusive
        } else if self.linux.overlaps(&self.weir) || self.difference().abs() <= TOLERANCE {
            RowVerdict::Agrees
        } else {
            RowVerdict::Differs
        }
    }
}

/// Compares the samples of both sides of a case. The rows are the total and, for each player, its
/// latencies and (unless it is the only one) its share.
pub fn rows(linux: &[PlayerSample], weir: &[PlayerSample]) -> Vec<ConformanceRow> {
    let mut players: Vec<&str> = Vec::new();
    for sample in linux {
        if !players.contains(&sample.player.as_str()) {
            players.push(&sample.player);
        }
    }
    let mut rows = Vec::new();
    let mut push = |player: &str, figure, [linux, weir]: [Vec<f64>; 2]| {
        if let (Some(linux), Some(weir)) = (Interval::of(&linux), Interval::of(&weir)) {
            rows.push(ConformanceRow {
                player: player.to_owned(),
                figure,
                linux,
                weir,
            });
        }
    };
    push("total", RowFigure::Total, [linux, weir].map(totals));
    for player in &players {
        let of = |all: &[PlayerSample], figure: &dyn Fn(&PlayerSample) -> f64| -> Vec<f64> {
            all.iter()
                .filter(|s| s.player == *player)
                .map(figure)
                .collect()
        };
        let share = |all: &[PlayerSample]| of(all, &|s| s.bandwidth / total(all, s.run));
        // The share of a single player is always one.
        if players.len() > 1 {
            push(player, RowFigure::Share, [linux, weir].map(share));
        }
        for (n, figure) in [RowFigure::Mean, RowFigure::P50, RowFigure::P99]
            .into_iter()
            .enumerate()
        {
            push(
                player,
                figure,
                [linux, weir].map(|all| of(all, &|s| s.latency[n])),
            );
        }
    }
    rows
}

fn total(all: &[PlayerSample], run: u32) -> f64 {
    all.iter()
        .filter(|s| s.run == run)
        .map(|s| s.bandwidth)
        .sum()
}

fn totals(all: &[PlayerSample]) -> Vec<f64> {
    let mut runs: Vec<u32> = all.iter().map(|s| s.run).collect();
    runs.sort_unstable();
    runs.dedup();
    runs.into_iter().map(|run| total(all, run)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(linux: [f64; 2], weir: [f64; 2]) -> RowVerdict {
        let [linux, weir] = [linux, weir].map(|[mean, half]| Interval { mean, half });
        ConformanceRow {
            player: String::new(),
            figure: RowFigure::Mean,
            linux,
            weir,
        }
        .verdict()
    }

    #[test]
    fn verdicts() {
        assert_eq!(row([100.0, 1.0], [109.9, 0.0]), RowVerdict::Agrees, "close");
        assert_eq!(row([100.0, 1.0], [111.0, 0.0]), RowVerdict::Differs);
        assert_eq!(
            // The intervals are 99 to 101 and 101 to 159.
            row([100.0, 1.0], [130.0, 29.0]),
            RowVerdict::Agrees,
            "they overlap"
        );
        assert_eq!(row([100.0, 10.1], [100.0, 0.0]), RowVerdict::Inconclusive);
    }

    #[test]
    fn shares_are_of_the_same_runs_total() {
        let sample = |run, player: &str, bandwidth| PlayerSample {
            case: String::new(),
            run,
            player: player.to_owned(),
            bandwidth,
            latency: [1.0, 2.0, 3.0],
        };
        let linux = [
            sample(1, "a", 1.0),
            sample(1, "b", 3.0),
            sample(2, "a", 20.0),
            sample(2, "b", 60.0),
        ];
        let rows = rows(&linux, &linux);
        let share: Vec<_> = rows
            .iter()
            .filter(|r| r.figure == RowFigure::Share)
            .map(|r| r.linux)
            .collect();
        assert_eq!(
            share,
            [
                Interval {
                    mean: 0.25,
                    half: 0.0
                },
                Interval {
                    mean: 0.75,
                    half: 0.0
                }
            ]
        );
        assert_eq!(rows.len(), 1 + 2 * 4);
        // The totals of the two runs are 4 and 80.
        assert!((rows[0].linux.mean - 42.0).abs() < 1e-9);
    }
}
