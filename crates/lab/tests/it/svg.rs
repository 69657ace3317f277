//! Tests of plots: golden SVG, and properties of every plot with any data.

use crate::common::{assert_golden, well_formed};
use proptest::prelude::*;
use weir_lab::report::policy::Looks;
use weir_lab::report::svg::{Along, Bar, Chart, ChartMark, Ink, MarkShape, Scale};

fn mark(name: &str, ink: Ink, shape: MarkShape) -> ChartMark {
    let name = name.into();
    ChartMark { name, ink, shape }
}

fn rows(names: &[&str]) -> Along {
    let rows = names.iter().map(|name| ((*name).into(), String::new()));
    Along::Rows(rows.collect())
}

fn lines(scale: Scale) -> Chart {
    let line = |quiet, values: [f64; 5]| {
        let values = values.into_iter().enumerate();
        MarkShape::Line {
            points: values.map(|(i, v)| (i as f64, v)).collect(),
            quiet,
            dash: usize::from(quiet),
        }
    };
    let others = vec![(0.0, 11.0, 13.0), (2.0, 10.0, 14.0), (4.0, 11.5, 12.0)];
    let target = line(false, [0.9, 1.1, 0.0, 10.5, 10.4]);
    let total = line(true, [240.0, 250.0, f64::NAN, 239.0, 241.0]);
    let promise = MarkShape::Rule {
        value: 10.0,
        dashed: true,
    };
    Chart {
        title: "Bandwidth".into(),
        description: "Two clients over time.".into(),
        unit: "MB/s".into(),
        scale,
        along: Along::Quantity("seconds".into(), None),
        marks: vec![
            mark("target", Looks::of([]).ink("contract"), target),
            mark("total", Ink::STRONG, total),
            mark("others", Ink::QUIET, MarkShape::Band(others)),
            mark("promised 10 MB/s", Ink::STRONG, promise),
        ],
        ..Chart::default()
    }
}

fn bars(scale: Scale) -> Chart {
    let bar = |value, low, high| {
        Some(Bar {
            value,
            range: Some((low, high)),
        })
    };
    let mean = vec![bar(4400.0, 4300.0, 4500.0), bar(360.0, 300.0, 420.0)];
    let p99 = vec![Some(Bar::new(9000.0)), None];
    Chart {
        title: "Latency".into(),
        description: "Two policies.".into(),
        unit: "us".into(),
        scale,
        along: rows(&["none", "bfq"]),
        marks: vec![
            mark("mean", Ink::STRONG, MarkShape::Bars(mean)),
            mark("p99", Ink::QUIET, MarkShape::Bars(p99)),
        ],
        ..Chart::default()
    }
}

fn stack() -> Chart {
    let row = |name: &str, sum: &str| (name.into(), sum.into());
    let part =
        |name: &str, ink, values: [f64; 2]| mark(name, ink, MarkShape::Parts(values.to_vec()));
    Chart {
        title: "A request".into(),
        description: "Where its time went.".into(),
        unit: "us".into(),
        along: Along::Rows(vec![row("none", "4.37 ms"), row("bfq", "363 us")]),
        marks: vec![
            part("elevator", Ink::PARTS[1], [0.0, 241.0]),
            part("drive", Ink::PARTS[4], [4310.0, 58.0]),
            part("link", Ink::QUIET, [64.0, -1.0]),
        ],
        ..Chart::default()
    }
}

fn columns() -> Chart {
    let part =
        |name: &str, ink, values: [f64; 3]| mark(name, ink, MarkShape::Parts(values.to_vec()));
    let rule = |value, dashed| MarkShape::Rule { value, dashed };
    let names = ["none", "a policy with a long name", "contract"];
    Chart {
        title: "Beside readers".into(),
        description: "Bandwidth of the target and of all.".into(),
        unit: "MB/s".into(),
        along: rows(&names),
        marks: vec![
            part("target", Ink::PARTS[4], [0.4, 12.0, 22.0]),
            part("others", Ink::QUIET, [514.6, f64::NAN, 480.0]),
            mark(
                "total under none",
                Looks::of([]).ink("none"),
                rule(515.0, false),
            ),
            mark("minimum", Ink::STRONG, rule(10.0, true)),
        ],
        ..Chart::default()
    }
}

const SIZE: (f64, f64) = (520.0, 280.0);

#[test]
fn columns_of_parts() {
    assert_golden("columns.svg", &columns().svg((330.0, 270.0)));
}

#[test]
fn line_charts() {
    assert_golden("lines.svg", &lines(Scale::Linear).svg((520.0, 300.0)));
    assert_golden("lines-log.svg", &lines(Scale::Log).svg((520.0, 300.0)));
}

#[test]
fn bar_charts() {
    assert_golden("bars.svg", &bars(Scale::Linear).svg(SIZE));
    assert_golden("bars-log.svg", &bars(Scale::Log).svg(SIZE));
}

/// A log scale has no zero, so that the length of a bar on it would have no meaning.
#[test]
fn values_on_a_log_scale_are_dots() {
    let (log, linear) = (bars(Scale::Log).svg(SIZE), bars(Scale::Linear).svg(SIZE));
    assert!(log.contains("<circle") && !log.contains("<rect"), "{log}");
    assert!(linear.contains("<rect") && !linear.contains("<circle"));
}

/// At the end of an error bar, a value could be mistaken for that of the end.
#[test]
fn values_stand_in_a_column_whatever_the_error_bars() {
    let svg = bars(Scale::Linear).svg(SIZE);
    for value in ["4.40 ms", "360 us", "9.00 ms", "-"] {
        let line = svg
            .lines()
            .find(|l| l.contains(&format!(">{value}</text>")));
        let line = line.unwrap_or_else(|| panic!("{value} in {svg}"));
        assert!(
            line.contains("x=\"516.0\"") && line.contains("\"end\""),
            "{line}"
        );
    }
}

/// Long names are shortened, and never reach into the values.
#[test]
fn rows_with_long_names_stay_within_the_plot() {
    let long = "a policy with a name that nobody would type twice".repeat(3);
    let chart = Chart {
        title: long.clone(),
        along: rows(&[&long, "b"]),
        ..bars(Scale::Linear)
    };
    let svg = chart.svg((330.0, 100.0));
    let names = svg.lines().filter(|l| l.contains("\u{2026}</t"));
    assert_eq!(names.count(), 2, "{svg}");
}

/// More points than a plot has pixels would make a page large without being visible.
#[test]
fn a_line_has_no_more_points_than_can_be_seen_and_keeps_its_peaks() {
    let points = (0..100_000).map(|i| {
        (
            f64::from(i),
            // A single peak among 100,000 points must survive the reduction.
            if i == 54_321 { 99.0 } else { f64::from(i % 7) },
        )
    });
    let line = MarkShape::Line {
        points: points.collect(),
        quiet: false,
        dash: 0,
    };
    let chart = Chart {
        along: Along::Quantity("seconds".into(), None),
        marks: vec![mark("a", Ink::STRONG, line)],
        ..Chart::default()
    };
    let svg = chart.svg(SIZE);
    // A plot of 520 pixels has about 210 points of 2.2 pixels each.
    assert!(svg.len() < 8_000, "{} bytes", svg.len());
    assert!(svg.contains(";99.00;"), "{svg}");
}

#[test]
fn stacked_bars() {
    assert_golden("stack.svg", &stack().svg((520.0, 200.0)));
}

#[test]
fn an_infinite_value_breaks_a_line_and_is_never_written() {
    let svg = lines(Scale::Linear).svg(SIZE);
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
fn a_plot_has_a_label_for_screen_readers() {
    for svg in [
        lines(Scale::Log).svg(SIZE),
        bars(Scale::Log).svg(SIZE),
        stack().svg(SIZE),
        columns().svg(SIZE),
    ] {
        assert!(svg.contains("role=\"img\" aria-label=\""));
        assert!(svg.contains("<title>") && svg.contains("<desc>"));
    }
}

/// Generates values, including those that measurements never have.
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

/// Solid lines are below lines with gaps, in whatever order they are given, so that both are
/// visible.
#[test]
fn lines_on_each_other_are_told_apart() {
    let line = |policy: &str, dash| {
        let shape = MarkShape::Line {
            points: vec![(0.0, 5.0), (1.0, 5.0)],
            quiet: false,
            dash,
        };
        mark(policy, Looks::of([]).ink(policy), shape)
    };
    let chart = Chart {
        marks: vec![line("io.latency", 1), line("none", 0)],
        ..Chart::default()
    };
    let svg = chart.svg(SIZE);
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
        let (firsts, rest): (Vec<f64>, Vec<(f64, f64)>) = points.iter().map(|p| (p.0, (p.1, p.2))).unzip();
        let line = MarkShape::Line { points: points.iter().map(|p| (p.0, p.1)).collect(), quiet: false, dash: 0 };
        let bar = |(value, range): (&f64, &(f64, f64))| Some(Bar { value: *value, range: Some(*range) });
        let bars = MarkShape::Bars(firsts.iter().zip(&rest).map(bar).collect());
        let rule = MarkShape::Rule { value: firsts.first().copied().unwrap_or(1.0), dashed: log };
        let parts = MarkShape::Parts(firsts.clone());
        let names = vec![name.clone(); 3];
        let rows = names.iter().map(|name| (name.clone(), name.clone()));
        let over = Along::Quantity(name.clone(), None);
        let rows = Along::Rows(rows.collect());
        for (along, shapes) in [
            (over, vec![line, MarkShape::Band(points.clone()), rule.clone()]),
            (rows.clone(), vec![bars.clone(), parts.clone(), bars, rule]),
            (rows, vec![parts.clone(), parts]),
        ] {
            let marks = shapes.into_iter().map(|shape| mark(&name, Ink::QUIET, shape));
            let chart = Chart { title: name.clone(), scale, along, marks: marks.collect(), ..Chart::default() };
            let svg = chart.svg(SIZE);
            prop_assert_eq!(well_formed(&svg), Ok(()), "{}", svg);
            let size = svg.split_once("viewBox=\"0 0 520 ").and_then(|(_, rest)| rest.split_once('"'));
            let height: f64 = size.and_then(|(height, _)| height.parse().ok()).unwrap_or(f64::NAN);
            for (_, rest) in svg.match_indices(" y=\"").map(|(i, m)| svg.split_at(i + m.len())) {
                let y: f64 = rest.split('"').next().and_then(|y| y.parse().ok()).unwrap_or(f64::NAN);
                prop_assert!((-8.0..=height).contains(&y), "y {} in {}", y, svg);
            }
        }
    }
}
