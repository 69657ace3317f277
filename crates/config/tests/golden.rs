//! The text of everything that can be wrong with a file: `tests/golden/NAME.toml` read gives `NAME.txt`.
//!
//! `WEIR_BLESS=1` writes the texts anew; the difference is for someone to read.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use weir_config::{Options, Problem, parse};

fn inputs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is part of the source")
        .map(|f| f.expect("readable").path())
        .filter(|f| f.extension().is_some_and(|e| e == "toml"))
        .collect();
    all.sort();
    all
}

fn answer(input: &Path) -> String {
    let text = fs::read_to_string(input).expect("readable");
    // Tests of the test table say so in their first line.
    let options = Options {
        allow_test: text.starts_with("# allow_test"),
    };
    match parse("weir.toml", &text, &options) {
        Ok(_) => "accepted\n".to_owned(),
        Err(problems) => problems.iter().fold(String::new(), |mut all, problem| {
            writeln!(all, "{problem}").expect("a String takes anything");
            all
        }),
    }
}

#[test]
fn every_problem_is_told_as_written_down() {
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut wrong = Vec::new();
    for input in inputs() {
        let answer = answer(&input);
        let golden = input.with_extension("txt");
        if bless {
            fs::write(&golden, &answer).expect("writable");
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if answer != expected {
            wrong.push(format!(
                "{}:\n{answer}instead of\n{expected}",
                input.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One problem a line at least, each with its place, unless the file as a whole is meant.
#[test]
fn problems_have_places() {
    for input in inputs() {
        let text = fs::read_to_string(&input).expect("readable");
        let lines = text.lines().count();
        for problem in parse("", &text, &Options::default())
            .err()
            .into_iter()
            .flatten()
        {
            let Problem { line, column, .. } = problem;
            assert!((1..=lines + 1).contains(&(line as usize)), "{problem}");
            assert!(column >= 1, "{problem}");
        }
    }
}
