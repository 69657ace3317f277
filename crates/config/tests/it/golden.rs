//! The texts of all problems of a server's file: reading `tests/golden/NAME.toml` gives `NAME.txt`.
//!
//! With `WEIR_BLESS=1`, the texts are written, and a person reviews the difference.

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
fn every_problem_is_reported_as_in_its_golden_file() {
    for (input, text) in files("tests/golden", "toml") {
        check(input.with_extension("txt"), &answer(&text));
    }
}

/// Checks that each problem has a line and a column in the text.
#[test]
fn problems_have_positions() {
    for (_, text) in files("tests/golden", "toml") {
        let lines = text.lines().count();
        for problem in parse("", &text).err().into_iter().flatten() {
            let Problem { line, column, .. } = problem;
            assert!((1..=lines + 1).contains(&(line as usize)), "{problem}");
            assert!(column >= 1, "{problem}");
        }
    }
}
