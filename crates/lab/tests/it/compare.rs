//! Tests of comparisons: golden table and page, and the parts that are left out if their values are
//! not known.

use crate::common::{assert_fits, assert_golden, assert_self_contained};
use weir_lab::report::{
    CompareReport, ComparedCell, ComparedClient, ComparedDrive, ComparedFigure, ComparedOverTime,
    ComparedRow, PAGE_BYTES, SuiteReport, compare_page, compare_table, suite_page,
};
use weir_measure::promise::Fate;
use weir_measure::{LatencyRecord, TracedState};

/// Returns a cell with invented figures.
fn cell(case: &str, policy: &str, mean: f64, none: f64) -> ComparedCell {
    let points = |value: f64| (0..4).map(|t| (f64::from(t) / 2.0, value)).collect();
    ComparedCell {
        asked: Vec::new(),
        figures: Vec::new(),
        headline: None,
        runs: Vec::new(),
        case: case.into(),
        policy: policy.into(),
        requests: (2e6 / mean) as u64,
        latency_us: Some(LatencyRecord {
            mean,
            sd: mean * 0.3,
            min: mean * 0.8,
            max: mean * 2.0,
            p50: mean,
            p90: mean * 1.2,
            p99: mean * 1.9,
            p999: mean * 2.0,
        }),
        of_none: Some(mean / none),
        target_mb_per_s: 4096.0 / mean,
        total_mb_per_s: 500.0,
        fairness: None,
        busy: Some(0.97),
        parts_us: vec![0.0, mean * 0.1, 0.0, mean * 0.7, mean * 0.2],
        why: format!("It is so under {policy} <beside {case}>."),
        clients: clients(policy == "bfq"),
        trouble: vec![format!("log got 2.10 of 4 MB/s promised under {policy}")],
        rings: None,
        backend_us: None,
        over_time: Some(ComparedOverTime {
            latency_us: points(mean),
            depth: points(31.0),
            target_mb_per_s: points(4096.0 / mean),
            others_mb_per_s: points(0.0),
            states: states(policy),
        }),
    }
}

/// Returns the results of four clients: one whose promise is kept, one whose promise depends on the
/// policy, alike ones of which some starve, and one that got nothing.
fn clients(kept: bool) -> Vec<ComparedClient> {
    let row = |label: &str, got: f64| ComparedRow {
        label: label.into(),
        got_mb_per_s: Some(got),
        got_half: (label == "reads").then_some(1.25),
        worst_mb_per_s: Some(got / 2.0),
        mean_us: (got > 0.0).then(|| 4096.0 / got),
        p99_us: (got > 0.0).then(|| 8192.0 / got),
        longest_us: Some(2_300_000.0),
    };
    let client = |name: &str, rows: Vec<ComparedRow>| ComparedClient {
        name: name.into(),
        count: 1,
        rows,
        ..ComparedClient::default()
    };
    let fate = if kept { Fate::Kept } else { Fate::Broken };
    vec![
        ComparedClient {
            promised: Some("20".into()),
            fate: Fate::Kept,
            kept: 1,
            ..client(
                "database",
                vec![row("", 400.0), row("reads", 300.0), row("writes", 100.0)],
            )
        },
        ComparedClient {
            promised: Some("500 IOPS".into()),
            fate,
            kept: usize::from(kept),
            short: (12, 30),
            ..client("log", vec![row("", 2.1)])
        },
        ComparedClient {
            count: 15,
            starved: 3,
            ..client("reader 1-15", vec![row("worst", 0.2), row("best", 9.0)])
        },
        ComparedClient {
            starved: 1,
            took_s: Some(1.5),
            ..client("<scan>", vec![row("", 0.0)])
        },
    ]
}

/// Returns the states under `bfq`: a value that changes, with a gap in which it is absent, and one
/// that does not change. `none` has no states.
fn states(policy: &str) -> Vec<TracedState> {
    let state = |name: &str, of: &str, points: Vec<(f64, f64)>| TracedState {
        state: name.into(),
        of: of.into(),
        unit: "kB".into(),
        points,
    };
    if policy == "none" {
        return Vec::new();
    }
    vec![
        state(
            "budget left",
            "target",
            vec![(0.0, 8.0), (0.02, 4.0), (1.0, 8.0)],
        ),
        state("budget left", "<reader>", vec![(0.5, 16.0), (0.51, 2.0)]),
        state("served", "target", vec![(0.0, 3.0), (1.0, 3.0)]),
    ]
}

fn report() -> CompareReport {
    let mut drive = ComparedDrive {
        name: "drive & co".into(),
        about: "A drive that <nobody> has.".into(),
        cells: Vec::new(),
        why: vec!["readers: none 70% in the drive's queue; bfq 70% in the drive's queue, because it was invented.".into()],
    };
    for case in ["readers", "writers"] {
        drive.cells.push(cell(case, "none", 39_000.0, 39_000.0));
        drive.cells.push(cell(case, "bfq", 740.0, 39_000.0));
    }
    CompareReport {
        clients: false,
        latency: true,
        scenario: "latency".into(),
        about: String::new(),
        load: "Some read.".into(),
        target: "target".into(),
        parts: ["held", "elevator", "idling", "queue", "service"]
            .map(str::to_owned)
            .to_vec(),
        drives: vec![drive],
        minimum_mb_per_s: Some(10.0),
        maximum_mb_per_s: None,
        notes: vec!["All of this is invented.".into()],
    }
}

#[test]
fn the_table_fits_80_columns_and_fewer() {
    let report = report();
    assert_golden("compare.txt", &compare_table(&report, 80));
    assert_fits(&[60, 80, 120], |width| compare_table(&report, width));
}

#[test]
fn the_page_has_every_plot_and_is_self_contained() {
    let page = compare_page(&report());
    assert_self_contained(&page);
    // There are one plot of latency, and for each of two cases four plots and one of the states
    // under `bfq`. Each is drawn in two sizes.
    assert_eq!(page.matches("<svg").count(), 2 * (1 + 2 * 5));
    assert!(page.contains("What bfq was doing over time") && !page.contains("What none was doing"));
    assert!(page.contains("Throughout the same: served 3.00 kB."));
    assert!(
        page.contains("the mean latency of the target is 39.0 ms under none, and 740 us under bfq")
    );
    assert!(page.contains("under bfq &lt;beside readers&gt;") && !page.contains("<nobody>"));
}

/// Returns a report whose headline is the target's bandwidth, with the given repetitions in each
/// cell.
fn with_runs(runs: &[f64]) -> CompareReport {
    let mut report = report();
    report.maximum_mb_per_s = Some(60.0);
    for cell in &mut report.drives[0].cells {
        cell.headline = Some(ComparedFigure {
            name: "bandwidth of the target".into(),
            unit: "MB/s".into(),
            value: Some(runs.iter().sum::<f64>() / runs.len() as f64),
        });
        cell.runs = runs.to_vec();
    }
    report
}

#[test]
fn runs_that_differ_are_drawn_one_by_one() {
    let bimodal: Vec<f64> = [11.0, 115.0].into_iter().cycle().take(20).collect();
    let page = compare_page(&with_runs(&bimodal));
    // A row of ticks for each of four cells, in two sizes. Runs in the same place have one tick.
    assert_eq!(page.matches("class=\"run ").count(), 2 * 4);
    assert!(page.contains("11 MB/s, the median of 20 runs"));
    assert!(page.contains("A tick for each repetition"));
    // Runs that hardly differ, or that are few, have a bar.
    for even in [vec![11.0; 20], bimodal[..4].to_vec()] {
        assert!(!compare_page(&with_runs(&even)).contains("class=\"run "));
    }
}

#[test]
fn the_bounds_of_the_targets_bandwidth_are_lines() {
    let page = compare_page(&with_runs(&[11.0; 4]));
    assert!(page.contains(">minimum<") && page.contains(">maximum<"));
    let mut other = with_runs(&[11.0; 4]);
    for cell in &mut other.drives[0].cells {
        cell.headline.as_mut().unwrap().name = "kicks".into();
    }
    assert!(!compare_page(&other).contains(">maximum<"));
}

#[test]
fn pairs_of_cases_by_number_have_a_plot_of_the_gain() {
    let mut report = report();
    let gain = |report: &CompareReport| compare_page(report).contains("Gain by number");
    assert!(!gain(&report));
    let pairs = [1.0, 2.0, 4.0].into_iter().flat_map(|n: f64| {
        let (old, new) = (format!("{n}-old"), format!("{n}-new"));
        [
            cell(&old, "none", 100.0 * n, 100.0),
            cell(&new, "none", 50.0, 100.0),
        ]
    });
    report.drives[0].cells = pairs.chain([cell("dd-old", "none", 9.0, 9.0)]).collect();
    assert!(gain(&report));
    // The decrease is from 100, 200 and 400 us to 50 us.
    assert!(compare_page(&report).contains("data-tips=\"50.00;75.00;87.50\""));
    // Two numbers make no line.
    report.drives[0].cells.truncate(4);
    assert!(!gain(&report));
}

/// A comparison of io.cost shows its states at once. The simulator and a kernel have the same axis,
/// although only one of them reaches its end.
#[test]
fn states_of_cost_are_open_and_have_the_axes_of_both_places() {
    let mut report = report();
    assert!(!compare_page(&report).contains("<details open>"));
    let cells = &mut report.drives[0].cells;
    cells.truncate(2);
    for (policy, end) in [("io.cost", 50.0), ("io.cost @6.1", 800.0)] {
        let mut cell = cell("readers", policy, 740.0, 39_000.0);
        let over = cell.over_time.as_mut().expect("it has a course");
        over.states = vec![TracedState {
            state: "vrate".into(),
            of: "drive".into(),
            unit: "%".into(),
            points: vec![(0.0, 100.0), (1.0, end)],
        }];
        // A kernel does not report the depth.
        over.depth.retain(|_| policy == "io.cost");
        cells.push(cell);
    }
    let page = compare_page(&report);
    assert_eq!(page.matches("<details open>").count(), 2);
    for policy in ["io.cost", "io.cost @6.1"] {
        let title = format!("{policy}: vrate");
        let (_, plot) = page.split_once(&title).expect(&title);
        let (plot, _) = plot.split_once("</svg>").expect("it is a plot");
        assert!(plot.contains(">800"), "{policy}: {plot}");
    }
    // With one of three policies, they are shown on demand.
    report.drives[0].cells.pop();
    assert!(!compare_page(&report).contains("<details open>"));
}

#[test]
fn every_client_has_a_row_under_every_policy_and_a_verdict() {
    let report = CompareReport {
        clients: true,
        ..report()
    };
    assert_golden("clients.txt", &compare_table(&report, 80));
    assert_fits(&[60, 80, 120], |width| compare_table(&report, width));
    let page = compare_page(&report);
    assert_self_contained(&page);
    let cell = |class: &str, text: &str| (format!("<td class=\"{class}\""), format!(">{text}"));
    for (tag, text) in [
        cell("good", "\u{2713} kept (400.0 MB/s, 10.2 us)"),
        cell("bad", "\u{2717} short 12 of 30 s (2.10 MB/s, 1.95 ms)"),
        cell("bad", "\u{2717} 3 of 15 starve (0.20 MB/s, 20.5 ms)"),
        cell("bad", "\u{2717} starves, done in 1.50 s (0.00 MB/s)"),
        cell("bad", "\u{2717} 1 of 2"),
        cell("good", "\u{2713} 2 of 2"),
    ] {
        let at = page.find(&text).unwrap_or_else(|| panic!("{text}"));
        let from = page[..at].rfind("<td").expect("it is a cell");
        assert!(page[from..at].starts_with(&tag), "{}", &page[from..at]);
    }
    // On a phone each row of a grid is a list, in which every cell shows the title of its column.
    assert!(page.contains("<table class=\"stack\">"));
    assert!(page.contains("data-of=\"bfq\">\u{2713} kept"));
    assert!(page.contains("data-of=\"got MB/s\""));
}

/// The report has as many cells as ten policies in seven cases on two drives, so that its page
/// would be far larger than the limit.
#[test]
fn a_page_that_would_be_too_large_leaves_details_out_and_says_so() {
    let mut report = report();
    let cells = &mut report.drives[0].cells;
    cells.clear();
    for case in 0..14 {
        for policy in 0..10 {
            let mut cell = cell(
                &format!("case-{case}"),
                &format!("p{policy}"),
                740.0,
                39_000.0,
            );
            let over = cell.over_time.as_mut().expect("it has one");
            // 1009 is prime, so that the values do not repeat within 200 points.
            let wave = |i: u32| (f64::from(i) / 20.0, f64::from(i * 7919 % 1009) + 0.123);
            over.depth = (0..200).map(wave).collect();
            over.states = states("bfq");
            for state in &mut over.states {
                state.points = (0..200).map(wave).collect();
            }
            cells.push(cell);
        }
    }
    let page = compare_page(&report);
    assert!(page.len() <= PAGE_BYTES, "{} bytes", page.len());
    assert!(page.contains("Left out so that this page has less than 2 MB"));
    assert!(page.contains("case-13") && page.contains("Commands in the drive"));
}

#[test]
fn the_headline_is_about_the_figure_of_the_scenario() {
    let mut report = report();
    report.about = "shares of four clients".into();
    for (at, cell) in report.drives[0].cells.iter_mut().enumerate() {
        cell.headline = Some(ComparedFigure {
            name: "bandwidth of the log".into(),
            unit: "MB/s".into(),
            value: Some([20.0, 19.0, 0.5, 18.25][at]),
        });
    }
    let page = compare_page(&report);
    assert!(page.contains("<h1>latency on drive &amp; co: shares of four clients</h1>"));
    // The sentence is about the case in which policies differ most: 0.50 and 18.25 MB/s.
    assert!(page.contains(
        "On drive &amp; co beside writers the bandwidth of the log is 0.50 MB/s under none, and 18.25 MB/s under bfq."
    ));
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at("<h2>Bandwidth of the log</h2>") < at("<h2>Latency of the target</h2>"));
}

/// The table of policies names one client, and the tables of clients contain the others.
#[test]
fn the_table_names_the_first_of_several_short_clients() {
    let mut report = CompareReport {
        clients: true,
        ..report()
    };
    let short = |name: &str| format!("{name} got 2.10 of 4 MB/s promised");
    report.drives[0].cells[0].trouble = ["log", "web", "mail"].map(short).to_vec();
    let table = compare_table(&report, 200);
    assert!(
        table.contains("log got 2.10 of 4 MB/s promised; and 2 more"),
        "{table}"
    );
    assert!(!table.contains("web got"), "{table}");
}

#[test]
fn unknown_figures_are_left_out() {
    assert_self_contained(&compare_page(&CompareReport::default()));
    let mut report = report();
    for cell in &mut report.drives[0].cells {
        cell.case.clear();
        (cell.latency_us, cell.of_none, cell.busy) = (None, None, None);
        (cell.over_time, cell.requests) = (None, 0);
        cell.parts_us.clear();
    }
    let (page, table) = (compare_page(&report), compare_table(&report, 80));
    assert_self_contained(&page);
    assert!(!page.contains("NaN") && !page.contains("Beside"));
    assert!(!table.contains("case") && table.contains("none"), "{table}");
}

#[test]
fn the_page_of_a_suite_has_its_plots_and_is_self_contained() {
    let mut part = report();
    let figure = |value| ComparedFigure {
        name: "runtime of <a program>".into(),
        unit: "s".into(),
        value,
    };
    let page = |part: CompareReport| {
        let page = suite_page(&SuiteReport {
            name: "suite".into(),
            about: "invented & short".into(),
            parts: vec![report(), part],
            scored: false,
        });
        assert_self_contained(&page);
        page
    };
    // For each of the two parts there are columns of two cases, and bars of latency. Each is drawn
    // in two sizes.
    assert_eq!(page(part.clone()).matches("<svg").count(), 2 * 2 * (2 + 1));
    // A figure with a plot of its own replaces latency, and an unknown bar is left out.
    for (at, cell) in part.drives[0].cells.iter_mut().enumerate() {
        cell.figures = vec![figure((at != 1).then_some(at as f64 + 1.0))];
    }
    let page = page(part);
    assert_eq!(page.matches("<svg").count(), 2 * 2 * (2 + 1));
    assert!(page.contains("Runtime of &lt;a program&gt;") && !page.contains("<a program>"));
    assert_eq!(page.matches("invented &amp; short").count(), 2);
    assert!(page.contains("total under none") && page.contains("minimum"));
    // Both parts have the same note, which appears once.
    assert_eq!(page.matches("All of this is invented.").count(), 1);
}
