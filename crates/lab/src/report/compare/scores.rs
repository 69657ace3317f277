//! Scores: four figures by which policies can be compared, from the comparisons of a suite.
//!
//! The four are the desiderata of isol-bench (a study of isolation in Linux, IISWC 2025): little
//! overhead, proportional fairness, priority without a loss of utilisation, and a prompt reaction
//! to bursts.

use super::rows::factor;
use super::{CompareReport, ComparedCell, ComparedDrive};
use crate::report::html::{PageBlock, PageSection};
use crate::report::policy::Looks;
use crate::report::svg::{Along, Chart, ChartMark, Ink, MarkShape};
use crate::report::table::{Column, ReportTable, wrap};
use weir_measure::number::{figure, percent};

/// The scenario of the overhead: the throughput of all clients, without contracts.
const OVERHEAD: &str = "throughput";
/// The scenario of fairness by weight.
const WEIGHTS: &str = "fairness";
/// The scenario of fairness among clients of equal weight, with the cases in which they differ.
const EQUALS: &str = "equal-weights";
/// The case in which the order of positions differs.
const BY_PATTERN: &str = "random-beside-readers";
/// The case in which the direction and the size of requests differ.
const BY_DIRECTION: &str = "reader-beside-writers";
/// The scenario of a target with a larger weight among others of all kinds.
const PRIORITY: &str = "bandwidth-latency";
/// The scenario of a burst: the start of a program, with the case in which nothing else runs.
const BURST: &str = "startup";
const IDLE: &str = "idle";

/// The scores of a policy on a drive. A score is `None` if its comparison was not played.
#[derive(Debug, Clone, Default, PartialEq)]
struct PolicyScore {
    policy: String,
    /// The part of the throughput under `none` that is lost, in the worst case. It is below zero if
    /// the policy makes the drive faster in every case.
    overhead: Option<f64>,
    /// Jain's index of the clients' bandwidths relative to their weights, in the worst case.
    by_weight: Option<f64>,
    by_pattern: Option<f64>,
    by_direction: Option<f64>,
    /// The throughput of all clients relative to that under `none`, as the mean of the cases, and
    /// the mean bandwidth of the target in MB/s.
    priority: Option<(f64, f64)>,
    /// True if no other policy has more of both.
    is_on_front: bool,
    /// The time of a program's start next to others relative to that on an idle drive, in the worst
    /// case.
    burst: Option<f64>,
}

/// Returns the tables of scores as text of at most `width` columns.
pub(super) fn text(parts: &[CompareReport], width: usize) -> String {
    let mut text = String::new();
    for drive in drives(parts) {
        text += "# scores on ";
        text += &drive;
        text += "\n\n";
        text += &table(&scores(parts, &drive)).text(width);
        text += "\n";
    }
    text + &wrap(READING, width) + "\n"
}

/// Returns a section with the scores for each drive.
pub(super) fn sections(parts: &[CompareReport]) -> Vec<PageSection> {
    let of_drive = |drive: String| {
        let scores = scores(parts, &drive);
        let blocks = vec![
            PageBlock::Table(table(&scores)),
            PageBlock::Plots(vec![front(&scores)], FRONT.into()),
            PageBlock::Text(READING.into()),
        ];
        PageSection::new(format!("Scores on {drive}"), blocks)
    };
    drives(parts).into_iter().map(of_drive).collect()
}

const READING: &str = "Overhead: the part of the throughput under none that is lost, in the worst case of throughput. Fairness: Jain's index of bandwidths \
                       relative to weights, from 1 divided by the number of clients to 1: by weight in the worst case of fairness, by pattern for a random \
                       reader among sequential ones, by direction for a reader of 4 KiB among writers of 128 KiB, both in equal-weights. Of none (utilisation) \
                       and priority: the throughput relative to that under none, and the target's bandwidth, as means of the cases of bandwidth-latency. \
                       Front: no other policy has more of both. Burst: the time of a program's start next to others, relative to that on an idle drive, in \
                       the worst case of startup; - if a start did not end within the run.";

const FRONT: &str = "A policy to the right leaves less of the drive unused, and a policy further up gives the target more. The line joins the policies of the \
                     Pareto front.";

/// Returns the names of all drives, in order.
fn drives(parts: &[CompareReport]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for drive in parts.iter().flat_map(|part| &part.drives) {
        if !names.contains(&drive.name) {
            names.push(drive.name.clone());
        }
    }
    names
}

/// Returns the results of a scenario on a drive.
fn results<'a>(
    parts: &'a [CompareReport],
    scenario: &str,
    drive: &str,
) -> Option<&'a ComparedDrive> {
    let part = parts.iter().find(|part| part.scenario == scenario)?;
    part.drives.iter().find(|on| on.name == drive)
}

/// Returns the scores of all policies on a drive, in the order in which they were played.
fn scores(parts: &[CompareReport], drive: &str) -> Vec<PolicyScore> {
    let all = parts.iter().flat_map(|part| &part.drives);
    let cells = all.filter(|on| on.name == drive).flat_map(|on| &on.cells);
    let mut names: Vec<&str> = Vec::new();
    for cell in cells {
        if !names.contains(&cell.policy.as_str()) {
            names.push(&cell.policy);
        }
    }
    let of = |scenario| results(parts, scenario, drive);
    let mut scores: Vec<PolicyScore> = names
        .into_iter()
        .map(|policy| PolicyScore {
            policy: policy.to_owned(),
            overhead: of(OVERHEAD).and_then(|on| overhead(on, policy)),
            by_weight: of(WEIGHTS).and_then(|on| fairness(on, policy, None)),
            by_pattern: of(EQUALS).and_then(|on| fairness(on, policy, Some(BY_PATTERN))),
            by_direction: of(EQUALS).and_then(|on| fairness(on, policy, Some(BY_DIRECTION))),
            priority: of(PRIORITY).and_then(|on| priority(on, policy)),
            is_on_front: false,
            burst: of(BURST).and_then(|on| burst(on, policy)),
        })
        .collect();
    mark_front(&mut scores);
    scores
}

/// Returns the cell of a case under a policy.
fn cell<'a>(on: &'a ComparedDrive, case: &str, policy: &str) -> Option<&'a ComparedCell> {
    let same = |cell: &&ComparedCell| cell.case == case && cell.policy == policy;
    on.cells.iter().find(same)
}

/// Returns the throughput relative to that under `none`, for each case.
fn relative(on: &ComparedDrive, policy: &str) -> Vec<f64> {
    let of_case = |case: &&str| {
        let none = cell(on, case, "none")?.total_mb_per_s;
        let mine = cell(on, case, policy)?.total_mb_per_s;
        (none > 0.0).then_some(mine / none)
    };
    on.cases().iter().filter_map(of_case).collect()
}

fn overhead(on: &ComparedDrive, policy: &str) -> Option<f64> {
    let worst = relative(on, policy).into_iter().reduce(f64::min)?;
    Some(1.0 - worst)
}

fn fairness(on: &ComparedDrive, policy: &str, case: Option<&str>) -> Option<f64> {
    let mine = on.cells.iter().filter(|cell| cell.policy == policy);
    let cases = mine.filter(|cell| case.is_none_or(|case| cell.case == case));
    cases.filter_map(|cell| cell.fairness).reduce(f64::min)
}

fn priority(on: &ComparedDrive, policy: &str) -> Option<(f64, f64)> {
    let used = mean(&relative(on, policy))?;
    let mine = on.cells.iter().filter(|cell| cell.policy == policy);
    let target: Vec<f64> = mine.map(|cell| cell.target_mb_per_s).collect();
    Some((used, mean(&target)?))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn burst(on: &ComparedDrive, policy: &str) -> Option<f64> {
    let took = |case: &str| cell(on, case, policy)?.headline.as_ref()?.value;
    let idle = took(IDLE).filter(|idle| *idle > 0.0)?;
    let cases = on.cases();
    let others = cases.iter().filter(|case| **case != IDLE);
    let all: Option<Vec<f64>> = others.map(|case| took(case)).collect();
    // A start that did not end within the run has no time, and no factor would be large enough.
    let worst = all?.into_iter().reduce(f64::max)?;
    Some(worst / idle)
}

/// Marks the policies for which no other policy has at least as much of both, and more of one.
fn mark_front(scores: &mut [PolicyScore]) {
    let all: Vec<(f64, f64)> = scores.iter().filter_map(|score| score.priority).collect();
    for score in scores {
        score.is_on_front = score.priority.is_some_and(|(used, target)| {
            let beats =
                |(u, t): &(f64, f64)| *u >= used && *t >= target && (*u > used || *t > target);
            !all.iter().any(beats)
        });
    }
}

fn table(scores: &[PolicyScore]) -> ReportTable {
    let mut table = ReportTable::new([
        Column::text("policy"),
        Column::number("overhead"),
        Column::number("by\nweight"),
        Column::number("by\npattern"),
        Column::number("by\ndirection"),
        Column::number("of\nnone"),
        Column::number("priority\nMB/s"),
        Column::text("front"),
        Column::number("burst"),
    ]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let index = |value: Option<f64>| or_dash(value.map(|value| format!("{value:.2}")));
    for score in scores {
        table.row([
            score.policy.clone(),
            or_dash(score.overhead.map(percent)),
            index(score.by_weight),
            index(score.by_pattern),
            index(score.by_direction),
            or_dash(score.priority.map(|priority| percent(priority.0))),
            or_dash(score.priority.map(|priority| figure(priority.1))),
            if score.is_on_front { "yes" } else { "" }.to_owned(),
            or_dash(score.burst.map(factor)),
        ]);
    }
    table
}

/// Returns the plot of priority against utilisation.
fn front(scores: &[PolicyScore]) -> Chart {
    let looks = Looks::of(scores.iter().map(|score| score.policy.as_str()));
    let point = |score: &PolicyScore| score.priority.map(|(used, target)| (used * 100.0, target));
    let on_front = scores.iter().filter(|score| score.is_on_front);
    let mut line: Vec<(f64, f64)> = on_front.filter_map(point).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut marks = vec![ChartMark {
        name: "Pareto front".into(),
        ink: Ink::QUIET,
        shape: MarkShape::Line {
            points: line,
            quiet: true,
            dash: 0,
        },
    }];
    let played = scores
        .iter()
        .filter_map(|score| Some((score, point(score)?)));
    marks.extend(played.clone().map(|(score, point)| ChartMark {
        name: score.policy.clone(),
        ink: looks.ink(&score.policy),
        shape: MarkShape::Dots(vec![point]),
    }));
    let said = played.map(|(score, (used, target))| {
        let front = if score.is_on_front {
            ", on the front"
        } else {
            ""
        };
        format!(
            "{} {} % and {} MB/s{front}",
            score.policy,
            figure(used),
            figure(target)
        )
    });
    let said: Vec<String> = said.collect();
    Chart {
        title: "Priority against utilisation".into(),
        description: format!(
            "Bandwidth of the target by throughput: {}.",
            said.join("; ")
        ),
        unit: "MB/s of the target".into(),
        along: Along::Quantity("throughput in % of that under none".into(), None),
        reach: vec![0.0],
        marks,
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ComparedFigure;

    fn cell(case: &str, policy: &str, target: f64, total: f64) -> ComparedCell {
        ComparedCell {
            case: case.into(),
            policy: policy.into(),
            target_mb_per_s: target,
            total_mb_per_s: total,
            ..ComparedCell::default()
        }
    }

    fn part(scenario: &str, cells: Vec<ComparedCell>) -> CompareReport {
        CompareReport {
            scenario: scenario.into(),
            drives: vec![ComparedDrive {
                name: "flat".into(),
                cells,
                ..ComparedDrive::default()
            }],
            ..CompareReport::default()
        }
    }

    fn parts() -> Vec<CompareReport> {
        let fair = |case: &str, policy: &str, fairness| ComparedCell {
            fairness: Some(fairness),
            ..cell(case, policy, 0.0, 0.0)
        };
        let started = |case: &str, policy: &str, value: Option<f64>| ComparedCell {
            headline: Some(ComparedFigure {
                value,
                ..ComparedFigure::default()
            }),
            ..cell(case, policy, 0.0, 0.0)
        };
        vec![
            part(
                OVERHEAD,
                vec![
                    cell("a", "none", 0.0, 200.0),
                    cell("a", "bfq", 0.0, 150.0),
                    cell("b", "none", 0.0, 100.0),
                    cell("b", "bfq", 0.0, 110.0),
                ],
            ),
            part(
                EQUALS,
                vec![fair(BY_PATTERN, "bfq", 0.9), fair(BY_DIRECTION, "bfq", 0.5)],
            ),
            part(
                PRIORITY,
                vec![
                    cell("a", "none", 5.0, 200.0),
                    cell("a", "bfq", 30.0, 160.0),
                    cell("a", "io.max", 4.0, 160.0),
                    cell("a", "contract", 30.0, 180.0),
                ],
            ),
            part(
                BURST,
                vec![
                    started(IDLE, "bfq", Some(2.0)),
                    started("a", "bfq", Some(3.0)),
                    started("b", "bfq", Some(5.0)),
                    started(IDLE, "none", Some(2.0)),
                    started("a", "none", None),
                ],
            ),
        ]
    }

    #[test]
    fn scores_are_the_worst_cases_and_the_means_of_comparisons() {
        let scores = scores(&parts(), "flat");
        let names: Vec<&str> = scores.iter().map(|score| &score.policy[..]).collect();
        assert_eq!(names, ["none", "bfq", "io.max", "contract"]);
        let bfq = &scores[1];
        assert_eq!(bfq.overhead, Some(0.25));
        assert_eq!(bfq.by_weight, None);
        assert_eq!((bfq.by_pattern, bfq.by_direction), (Some(0.9), Some(0.5)));
        assert_eq!(bfq.priority, Some((0.8, 30.0)));
        assert_eq!(bfq.burst, Some(2.5));
        // A start that never ended has no score.
        assert_eq!(scores[0].burst, None);
        assert_eq!(scores[0].overhead, Some(0.0));
    }

    #[test]
    fn the_front_has_the_policies_that_no_other_policy_beats() {
        let scores = scores(&parts(), "flat");
        let front: Vec<&str> = (scores.iter().filter(|score| score.is_on_front))
            .map(|score| &score.policy[..])
            .collect();
        // The totals of `none` are the largest, and `contract` has as much for the target as `bfq`
        // at a larger total.
        assert_eq!(front, ["none", "contract"]);
        let chart = front_of(&scores);
        assert!(chart.contains("<circle") && chart.contains("contract"));
    }

    fn front_of(scores: &[PolicyScore]) -> String {
        front(scores).svg((520.0, 300.0))
    }

    #[test]
    fn the_text_fits_and_has_a_dash_for_an_unknown_score() {
        let text = text(&parts(), 80);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let bfq = text.lines().find(|line| line.starts_with("bfq")).unwrap();
        let words: Vec<&str> = bfq.split_whitespace().collect();
        assert_eq!(
            words,
            ["bfq", "25%", "-", "0.90", "0.50", "80%", "30.00", "2.50x"]
        );
    }
}
