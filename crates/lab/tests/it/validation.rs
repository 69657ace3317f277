//! Tests that docs/validation.md agrees with the figures that the models give today.

use weir_config::{profile, sheet};
use weir_lab::fit::{document, validate};

/// Removes the intervals, which take minutes to compute and are not checked.
fn without_intervals(document: &str) -> String {
    let lines = document.lines().map(|line| {
        let Some((before, after)) = line.split_once("| predicted, ") else {
            return line.split(" Intervals: ").next().unwrap_or(line).to_owned();
        };
        let rest = after.split_once(" | ").map_or("", |(_, rest)| rest);
        format!("{before}| predicted | {rest}")
    });
    lines.map(|line| line + "\n").collect()
}

#[test]
fn the_document_matches_the_results_of_the_models() {
    let drives: Vec<_> = sheet::names()
        .map(|name| {
            let sheet = sheet::find(name).expect("it comes with Weir");
            let drive = profile::find(name).expect("it comes with Weir").drive;
            validate(&sheet, &drive, 0, 2, &|_| {}).expect("it can be measured")
        })
        .collect();
    let committed = include_str!("../../../../docs/validation.md");
    assert!(committed.contains("Intervals: 100 other sets"));
    assert_eq!(
        without_intervals(&document(&drives)),
        without_intervals(committed),
        "`weir drives validation > docs/validation.md` makes it anew"
    );
}

/// Reads a figure of the page, for example `39.2 ms`, in bytes per second or nanoseconds.
fn value(text: &str) -> f64 {
    let (number, unit) = text.trim().split_once(' ').expect("a number and a unit");
    let scale = match unit {
        "MB/s" | "ms" => 1e6,
        "us" => 1e3,
        other => panic!("unknown unit {other}"),
    };
    number.parse::<f64>().expect("a number") * scale
}

#[test]
fn intervals_contain_the_model_and_state_the_side_of_the_published_value() {
    let mut checked = 0;
    for line in include_str!("../../../../docs/validation.md").lines() {
        let Some((cells, rest)) = line.split_once("| predicted, ") else {
            continue;
        };
        let (interval, side) = rest.split_once(", published ").expect("its side is stated");
        let (low, high) = interval.split_once(" to ").expect("two ends");
        let (low, high) = (value(low), value(high));
        let cells: Vec<&str> = cells.split('|').collect();
        let (published, model) = (value(cells[2]), value(cells[3]));
        // The model is one of the sets. A figure that was printed for another scenario is far off.
        assert!(low / 1.1 <= model && model <= high * 1.1, "{line}");
        let inside = (low..=high).contains(&published);
        assert_eq!(side.starts_with("inside"), inside, "{line}");
        checked += 1;
    }
    assert!(checked > 10, "{checked} intervals");
}

#[test]
fn sets_are_the_same_whatever_the_threads() {
    let sheet = sheet::find("plextor-px-256m5s").expect("it comes with Weir");
    let drive = profile::find("plextor-px-256m5s")
        .expect("it comes with Weir")
        .drive;
    let sets = |jobs| {
        weir_lab::fit::ensemble(&sheet, &drive, 3, jobs, &|_| {}).expect("it can be measured")
    };
    let one = sets(1);
    assert_eq!(one.len(), 3);
    assert!(one.iter().all(|set| *set != drive));
    // The result depends neither on the run nor on the number of threads.
    assert_eq!(one, sets(1));
    assert_eq!(one, sets(7));
}
