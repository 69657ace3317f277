//! The demo as tables on a terminal.

use std::fmt::Write;

use super::{DemoReport, rows};

/// The demo as tables at most `width` columns wide; clients that differ only in their number share two rows, the least
/// and the most of each figure.
pub fn demo_table(report: &DemoReport, width: usize) -> String {
    render(report, width, false)
}

/// As [`demo_table`], with a row for every client.
pub fn demo_table_all(report: &DemoReport, width: usize) -> String {
    render(report, width, true)
}

fn render(report: &DemoReport, width: usize, all: bool) -> String {
    let mut out = String::new();
    for result in &report.policies {
        let heading = format!("{}: {}", result.policy, result.verdict);
        push_wrapped(&mut out, &heading, width);
        out.push('\n');
        out.push_str(&rows::clients(result, &report.target, all).text(width));
        out.push('\n');
    }
    out.push_str(&rows::policies(report).text(width));
    out.push('\n');
    for best in &report.best {
        push_wrapped(
            &mut out,
            &format!("best possible: {}: {}", best.what, best.value),
            width,
        );
    }
    push_wrapped(&mut out, UNITS, width);
    out
}

/// Appends `text` in lines of at most `width`, broken between words.
fn push_wrapped(out: &mut String, text: &str, width: usize) {
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let gap = match used {
            0 => "",
            n if n + 1 + length > width => "\n",
            _ => " ",
        };
        used = if gap == " " {
            used + 1 + length
        } else {
            length
        };
        write!(out, "{gap}{word}").expect("memory takes every byte");
    }
    out.push('\n');
}

const UNITS: &str = "Bandwidths in MB/s of 10^6 bytes. worst s: the worst second in which the client was waiting \
                     throughout; met: the part of these seconds with at least 99% of the promise.";
