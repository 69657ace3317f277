//! Printing of a policy as a file that users can read, copy and change.

use super::{Budget, Policy, PolicyController, cost};
use crate::key::KeyKind;
use crate::text::{Quoted, block};
use crate::tunable;
use crate::units::Time;
use crate::words::Words;
use std::fmt::Write as _;
use weir_core::tunable::{Tunable, Tuned};

/// The maximum length of a comment line in bytes, unless a single word is longer.
const WIDTH: usize = 110;

/// Prints a policy as a file that reads back as an equal policy. Each tunable has a comment with
/// its effect, its range and its source.
pub fn print(policy: &Policy) -> String {
    // The name of a composed policy, such as `bfq + io.latency`, is not a valid name in a file.
    let name = policy.name.replace(" + ", "-");
    let about = block(&policy.about);
    let mut text = format!("name = {}\nabout = {about}\n", Quoted(&name));
    let kind = policy.elevator.kind();
    let _ = writeln!(text, "elevator = {}", Quoted(kind.name));
    let controllers = policy.controllers.iter();
    let controllers: Vec<String> = controllers
        .map(|c| Quoted(PolicyController::name(*c)).to_string())
        .collect();
    let _ = writeln!(text, "controllers = [{}]", controllers.join(", "));
    knobs(&mut text, policy);
    if let Some(tuned) = policy.elevator.tuned() {
        let _ = writeln!(text, "\n[{}]", kind.name);
        tunables(&mut text, tuned, |tunable| {
            // The value follows from the budget that is printed below.
            policy.budget.is_some() && tunable.name == Budget::TUNABLE
        });
    }
    if policy.controllers.contains(&PolicyController::Slices) {
        text += "\n[max]\n";
        tunables(&mut text, &policy.slices, |_| false);
    }
    if policy.controllers.contains(&PolicyController::Low) {
        text += "\n[low]\n";
        tunables(&mut text, &policy.low, |_| false);
    }
    if policy.controllers.contains(&PolicyController::Cost) {
        cost_lines(&mut text, policy);
    }
    if let Some(budget) = policy.budget {
        text += "\n[derived]\n";
        comment(
            &mut text,
            "Calculated from the contracts: budgets are so small that, within the window, no client gets less than its share of the drive by more than \
             this percentage because it has to wait for its turn.",
        );
        let _ = writeln!(
            text,
            "{} = {{ window = \"{}\", percent = {} }}",
            Budget::TUNABLE,
            Time(budget.window),
            budget.percent
        );
    }
    text
}

/// Prints tunables, each with a comment on its effect, its range and its source. Tunables that are
/// derived from contracts are commented out.
fn tunables(text: &mut String, tuned: &dyn Tuned, is_derived: impl Fn(&Tunable) -> bool) {
    for (place, tunable) in tuned.tunables().iter().enumerate() {
        comment(text, tunable.about);
        let default = tunable::toml(tunable, tunable.default);
        let facts = format!(
            "{}; default {default}; {}.",
            KeyKind::of(tunable).text(),
            tunable.source
        );
        comment(text, &facts);
        let mark = if is_derived(tunable) {
            "# derived below: "
        } else {
            ""
        };
        let value = tunable::toml(tunable, tuned.get(place));
        let _ = writeln!(text, "{mark}{} = {value}", tunable.name);
    }
}

/// Prints the tunables of `io.cost` as lines in the format of Linux's files.
fn cost_lines(text: &mut String, policy: &Policy) {
    *text += "\n[cost]\n";
    for (key, file) in [
        ("qos", cost::CostFile::Qos),
        ("model", cost::CostFile::Model),
    ] {
        for (word, tunable) in cost::words(file) {
            let facts = format!(
                "{word}: {} {}; {}.",
                tunable.about,
                cost::allowed(tunable),
                tunable.source
            );
            comment(text, &facts);
        }
        let line = file.line(&policy.cost);
        // The line itself names no word in this case.
        if line == "ctrl=auto" {
            comment(text, "Every word, for example:");
            let _ = writeln!(text, "# {key} = {}", Quoted(&file.example()));
        }
        let _ = writeln!(text, "{key} = {}", Quoted(&line));
    }
    for (line, tunable) in cost::own(&policy.cost) {
        comment(text, tunable.about);
        comment(
            text,
            &format!("{}; {}.", KeyKind::of(tunable).text(), tunable.source),
        );
        let _ = writeln!(text, "{line}");
    }
}

fn knobs(text: &mut String, policy: &Policy) {
    fn line<T: Words>(text: &mut String, key: &str, value: T) {
        let words: Vec<&str> = T::WORDS.iter().map(|w| w.0).collect();
        let assigned = format!("{key} = \"{}\"", value.word());
        let _ = writeln!(text, "{assigned:20}  # {}", words.join(", "));
    }
    let knobs = &policy.mapping;
    *text += "\n# The effect of each part of a contract.\n[knobs]\n";
    line(text, "min", knobs.min);
    line(text, "share", knobs.share);
    line(text, "max", knobs.max);
    line(text, "class", knobs.class);
    line(text, "latency", knobs.latency);
}

/// Prints a text as comment lines.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            *text += &line;
            *text += "\n";
            line = String::from("#");
        }
        line += " ";
        line += word;
    }
    *text += &line;
    *text += "\n";
}
