//! Plots: golden SVG, and what every plot must be whatever its data.

mod common;

use common::{golden, well_formed};
use proptest::prelude::*;
use weir_report::policy;
use weir_report::svg::{
    Band, Bar, BarChart, BarGroup, ColumnChart, Ink, Line, LineChart, Mark, Scale, StackChart,
    StackRow, standalone,
};

fn lines(scale: Scale) -> LineChart {
    let line = |name: &str, ink, quiet, values: [f64; 5]| Line {
        name: name.into(),
        ink,
        quiet,
        dash: usize::from(quiet),
        points: values
            .into_iter()
            .enumerate()
            .map(|(i, v)| (i as f64, v))
            .collect(),
    };
    LineChart {
        title: "Bandwidth".into(),
        description: "Two clients over time.".into(),
        x_name: "seconds".into(),
        y_unit: "MB/s".into(),
        scale,
        size: (520.0, 300.0),
        bands: vec![Band {
            name: "others".into(),
            ink: Ink::QUIET,
            points: vec![(0.0, 11.0, 13.0), (2.0, 10.0, 14.0), (4.0, 11.5, 12.0)],
        }],
        lines: vec![
            line(
                "target",
                policy::ink("contract"),
                false,
                [0.9, 1.1, 0.0, 10.5, 10.4],
            ),
            line(
                "total",
                Ink::STRONG,
                true,
                [240.0, 250.0, f64::NAN, 239.0, 241.0],
            ),
        ],
        marks: vec![Mark {
            name: "promised 10 MB/s".into(),
            value: 10.0,
        }],
        ..LineChart::default()
    }
}

fn bars(scale: Scale) -> BarChart {
    let bar = |value, low, high| {
        Some(Bar {
            value,
            range: Some((low, high)),
        })
    };
    BarChart {
        title: "Latency".into(),
        description: "Two policies.".into(),
        unit: "us".into(),
        scale,
        size: (520.0, 280.0),
        series: vec![("mean".into(), Ink::STRONG), ("p99".into(), Ink::QUIET)],
        groups: vec![
            BarGroup {
                name: "none".into(),
                bars: vec![bar(4400.0, 4300.0, 4500.0), Some(Bar::new(9000.0))],
            },
            BarGroup {
                name: "bfq".into(),
                bars: vec![bar(360.0, 300.0, 420.0), None],
            },
        ],
    }
}

fn stack() -> StackChart {
    let row = |name: &str, sum: &str, values: [f64; 3]| StackRow {
        name: name.into(),
        sum: sum.into(),
        values: values.to_vec(),
    };
    StackChart {
        title: "A request".into(),
        description: "Where its time went.".into(),
        unit: "us".into(),
        size: (520.0, 200.0),
        parts: vec![
            ("elevator".into(), Ink::PARTS[1]),
            ("drive".into(), Ink::PARTS[4]),
            ("link".into(), Ink::QUIET),
        ],
        rows: vec![
            row("none", "4.37 ms", [0.0, 4310.0, 64.0]),
            row("bfq", "363 us", [241.0, 58.0, -1.0]),
        ],
    }
}

fn columns() -> ColumnChart {
    let column = |name: &str, values: [f64; 2]| (name.to_owned(), values.to_vec());
    ColumnChart {
        title: "Beside readers".into(),
        description: "Bandwidth of the target and of all.".into(),
        unit: "MB/s".into(),
        size: (330.0, 270.0),
        parts: vec![
            ("target".into(), Ink::PARTS[4]),
            ("others".into(), Ink::QUIET),
        ],
        columns: vec![
            column("none", [0.4, 514.6]),
            column("a policy with a long name", [12.0, f64::NAN]),
            column("contract", [22.0, 480.0]),
        ],
        lines: vec![
            ("total under none".into(), Some(policy::ink("none")), 515.0),
            ("minimum".into(), None, 10.0),
        ],
    }
}

#[test]
fn columns_of_parts() {
    golden("columns.svg", &columns().svg());
}

#[test]
fn line_charts() {
    golden("lines.svg", &standalone(&lines(Scale::Linear).svg()));
    golden("lines-log.svg", &lines(Scale::Log).svg());
}

#[test]
fn bar_charts() {
    golden("bars.svg", &bars(Scale::Linear).svg());
    golden("bars-log.svg", &bars(Scale::Log).svg());
}

#[test]
fn stacked_bars() {
    golden("stack.svg", &stack().svg());
}

#[test]
fn an_infinite_value_breaks_a_line_and_is_never_written() {
    let svg = lines(Scale::Linear).svg();
    let total = svg
        .lines()
        .find(|l| l.contains("data-name=\"total\""))
        .expect("there is such a line");
    assert_eq!(
        total.matches('M').count() - total.matches("MB/s").count(),
        2,
        "broken where there is no value"
    );
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn a_plot_says_what_it_is_to_those_who_cannot_see_it() {
    for svg in [
        lines(Scale::Log).svg(),
        bars(Scale::Log).svg(),
        stack().svg(),
        columns().svg(),
    ] {
        assert!(svg.contains("role=\"img\" aria-label=\""));
        assert!(svg.contains("<title>") && svg.contains("<desc>"));
    }
}

/// Values as measurements never have them, too.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.0..1e3,
        -1e12..1e12,
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MIN_POSITIVE),
        Just(f64::MAX)
    ]
}

/// Whatever the order in which they are given, what is solid lies below what has gaps, so that both are seen.
#[test]
fn lines_on_each_other_are_told_apart() {
    let line = |policy: &str, dash| Line {
        name: policy.into(),
        ink: policy::ink(policy),
        quiet: false,
        dash,
        points: vec![(0.0, 5.0), (1.0, 5.0)],
    };
    let chart = LineChart {
        lines: vec![line("io.latency", 1), line("none", 0)],
        size: (520.0, 300.0),
        ..LineChart::default()
    };
    let svg = chart.svg();
    let at = |name: &str| {
        svg.find(&format!("data-name=\"{name}\""))
            .expect("it is drawn")
    };
    assert!(at("none") < at("io.latency"));
    assert!(svg.contains("class=\"line dash1 ink1\""), "{svg}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn any_data_and_names_make_a_well_formed_plot_within_its_frame(
        name in any::<String>(), log: bool,
        points in prop::collection::vec((value(), value(), value()), 0..8),
    ) {
        let scale = if log { Scale::Log } else { Scale::Linear };
        let mut chart = lines(scale);
        chart.title.clone_from(&name);
        chart.lines[0].name.clone_from(&name);
        chart.lines[0].points = points.iter().map(|p| (p.0, p.1)).collect();
        chart.bands[0].points.clone_from(&points);
        let mut groups = bars(scale);
        groups.groups[0].name.clone_from(&name);
        groups.groups[0].bars = points.iter().map(|p| Some(Bar { value: p.0, range: Some((p.1, p.2)) })).collect();
        let mut rows = stack();
        rows.rows[0].name.clone_from(&name);
        rows.rows[0].values = points.iter().map(|p| p.0).collect();
        for (svg, height) in [(chart.svg(), 300.0), (groups.svg(), 280.0), (rows.svg(), 200.0)] {
            prop_assert_eq!(well_formed(&svg), Ok(()), "{}", svg);
            for (_, rest) in svg.match_indices(" y=\"").map(|(i, m)| svg.split_at(i + m.len())) {
                let y: f64 = rest.split('"').next().and_then(|y| y.parse().ok()).unwrap_or(f64::NAN);
                prop_assert!((-8.0..=height).contains(&y), "y {} in {}", y, svg);
            }
        }
    }
}
