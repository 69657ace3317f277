//! The page is what the simulator gives today.

use std::path::Path;
use std::{env, fs};
use weir_conformance::experiment::Experiment;
use weir_conformance::{RUNS, compare, root, stored};

#[test]
fn the_page_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let page = compare().unwrap();
    if env::var_os("WEIR_BLESS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap();
    let differs = stored.lines().zip(page.lines()).find(|(a, b)| a != b);
    assert!(
        stored == page,
        "docs/conformance.md is not what `WEIR_BLESS=1 cargo test -p weir-conformance` writes: {differs:?}"
    );
}

#[test]
fn stored_samples_are_of_cases_that_there_are() {
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
