//! Tests that the conformance pages and the table are what the simulator gives today.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};
use weir_lab::conformance::experiment::Experiment;
use weir_lab::conformance::guest::row::GuestRow;
use weir_lab::conformance::{RUNS, compare, guest, root, stored};

#[test]
fn page_and_table_are_current() {
    let written = compare().unwrap();
    assert_current("conformance.md", &written.page);
    assert_current("conformance.csv", &written.rows);
}

#[test]
fn page_of_the_guest_is_current() {
    assert_current("conformance-guest.md", &guest::compare().unwrap().page);
}

#[test]
fn stored_figures_of_the_guest_belong_to_existing_rows() {
    let rows = guest::rows().unwrap();
    let rows: BTreeSet<String> = rows.all().iter().map(GuestRow::name).collect();
    let stored: BTreeSet<String> = guest::stored().unwrap().into_keys().collect();
    assert!(stored.is_subset(&rows), "{:?}", stored.difference(&rows));
    assert!(!stored.is_empty());
}

/// Checks that a document is equal to the text that was just written.
fn assert_current(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{name}"));
    if env::var_os("WEIR_BLESS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap();
    let differs = stored.lines().zip(text.lines()).find(|(a, b)| a != b);
    assert!(
        stored == text,
        "{} is not what `WEIR_BLESS=1 cargo test -p weir-lab` writes: {differs:?}",
        file.display()
    );
}

#[test]
fn stored_samples_belong_to_existing_cases() {
    let mut found = 0;
    for experiment in Experiment::all(&root().join("experiments")).unwrap() {
        let sections = experiment.sections().unwrap();
        let samples = stored(&root().join("linux"), &experiment).unwrap();
        for case in &experiment.setting.case {
            for player in case.players(&sections) {
                let of = samples
                    .iter()
                    .filter(|s| s.case == case.name && s.player == player.name);
                let mut runs: Vec<u32> = of.map(|s| s.run).collect();
                runs.sort_unstable();
                runs.dedup();
                let name = format!("{}: {}: {}", experiment.name, case.name, player.name);
                // Each player has all samples or none.
                assert!(
                    runs.is_empty() || runs.len() >= RUNS as usize,
                    "{name}: {runs:?}"
                );
                found += runs.len();
            }
        }
        assert!(
            samples
                .iter()
                .all(|s| experiment.setting.case.iter().any(|c| c.name == s.case)),
            "{}: samples of a case that is not there any more",
            experiment.name
        );
    }
    assert!(found > 0, "nothing is stored");
}
