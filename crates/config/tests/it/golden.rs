//! The text of everything that can be wrong with a file: `tests/golden/NAME.toml` read gives `NAME.txt`.
//!
//! `WEIR_BLESS=1` writes the texts anew; the difference is for someone to read.

use crate::common::files;
use crate::common::held;

use files::{files, told};
use held::check;
use weir_config::{Problem, parse};

fn answer(text: &str) -> String {
    match parse("weir.toml", text) {
        Ok(_) => "accepted\n".to_owned(),
        Err(problems) => told(&problems),
    }
}

#[test]
fn every_problem_is_told_as_written_down() {
    for (input, text) in files("tests/golden", "toml") {
        check(input.with_extension("txt"), &answer(&text));
    }
}

/// One problem a line at least, each with its place, unless the file as a whole is meant.
#[test]
fn problems_have_places() {
    for (_, text) in files("tests/golden", "toml") {
        let lines = text.lines().count();
        for problem in parse("", &text).err().into_iter().flatten() {
            let Problem { line, column, .. } = problem;
            assert!((1..=lines + 1).contains(&(line as usize)), "{problem}");
            assert!(column >= 1, "{problem}");
        }
    }
}
