//! Reading of a line of a job file as an option with its value.

use super::OptionLine;
use super::table::{FioOption, OPTIONS, OptionTreatment};
use crate::document::Document;
use crate::nearest;

/// Returns the option with this name, which can be any of its names.
fn known(name: &str) -> Option<&'static FioOption> {
    OPTIONS.iter().find(|o| o.names.contains(&name))
}

/// Reads an option with its value. An option that is refused or has no effect is reported, and the
/// result is `None`.
pub(super) fn line<'a>(
    doc: &mut Document<'_>,
    notes: &mut Document<'_>,
    line: &'a str,
    begin: usize,
) -> Option<OptionLine<'a>> {
    let (name, value) = match line.split_once('=') {
        Some((name, value)) => (name.trim_end(), Some(value)),
        // `include` separates the name of its file by a space.
        None if line.starts_with("include ") => ("include", Some(&line["include".len()..])),
        None => (line, None),
    };
    let at = begin..begin + name.len();
    let value_at = value.map_or_else(
        || at.clone(),
        |v| {
            let skipped = v.len() - v.trim_start().len();
            let from = begin + line.len() - v.len() + skipped;
            from..from + v.trim().len()
        },
    );
    let value = value.map(str::trim);
    // On a command line, options follow each other, and users copy such lines into files.
    if value.is_some_and(has_option) {
        let help = "write each option on a line of its own";
        doc.report_span(&value_at, name, "another option is on the same line", help);
        return None;
    }
    let word = name.split_whitespace().next().unwrap_or(name);
    let Some(option) = known(name).or_else(|| refused(word)) else {
        let help = unknown(name, word);
        let what = match name {
            "" => "the option before = is missing",
            _ => "unknown option",
        };
        doc.report_span(&at, word, what, &help);
        return None;
    };
    match option.fate {
        // If the job file is opened by its path, its text already contains the included lines.
        OptionTreatment::Played if option.names[0] == "include" => {
            let what = "is supported only if the job file is opened by its path";
            doc.report_span(
                &at,
                name,
                what,
                "copy the lines of the other file to this place",
            );
            None
        }
        OptionTreatment::Played => Some(OptionLine {
            name: option.names[0],
            value,
            global: false,
            at,
            value_at,
        }),
        OptionTreatment::Noted(why) => {
            notes.report_span(&at, name, format!("has no effect: {why}"), "");
            None
        }
        OptionTreatment::Refused(_) if value.is_some_and(|v| option.neutral.contains(&v)) => {
            let what = "has no effect: the option is off or has its default value";
            notes.report_span(&at, name, what, "");
            None
        }
        OptionTreatment::Refused(help) => {
            doc.report_span(&at, word, "not supported", help);
            None
        }
    }
}

/// Returns the refused option with this name. It serves to recognise it even if further text
/// precedes the value.
fn refused(word: &str) -> Option<&'static FioOption> {
    known(word).filter(|o| matches!(o.fate, OptionTreatment::Refused(_)))
}

/// Returns the help for an option that `fio` does not have.
fn unknown(name: &str, word: &str) -> String {
    if name.is_empty() {
        return "write NAME=VALUE on one line".into();
    }
    let bare = name.trim_start_matches('-');
    if bare != name && is_played(bare) {
        return format!("write {bare} without dashes");
    }
    if word == "fio" {
        return "write each option on a line of its own, without dashes, below [reader]".into();
    }
    match similar_option(name) {
        Some(near) => format!("did you mean {near}?"),
        None => {
            "remove it, or write a scenario file; `weir scenarios NAME` prints one to start from"
                .into()
        }
    }
}

/// Returns the option that a misspelt name probably means. `None` if no name is similar, or if the
/// most similar one is refused.
fn similar_option(name: &str) -> Option<&'static str> {
    let names = OPTIONS.iter().flat_map(|o| o.names.iter().copied());
    let near = nearest::name(name, names)?;
    // Options of `fio` have long names with common parts. With the tolerance of `nearest::name`, a
    // third of the letters, they would be confused.
    let edits = strsim::damerau_levenshtein(&name.to_lowercase(), near);
    let is_near = edits <= (name.chars().count() / 4).max(1);
    (is_near && refused(near).is_none()).then_some(near)
}

/// Returns true if the option is played.
fn is_played(name: &str) -> bool {
    known(name).is_some_and(|o| o.fate == OptionTreatment::Played)
}

/// Returns true if another option follows a value on the same line.
fn has_option(value: &str) -> bool {
    let mut words = value.split_whitespace().skip(1);
    words.any(|word| is_played(word.split('=').next().unwrap_or(word)))
}
