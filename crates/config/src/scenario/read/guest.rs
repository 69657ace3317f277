//! Reading of guests: their rings, the rules for notifications, and the CPU times.

use super::super::guest::{CallTiming, Cost, Guest, GuestRing, KickReaction};
use crate::document::{Document, KeyEntry, ShapedTable, refuse};
use crate::key::{COSTS, GUEST};
use crate::nearest;
use crate::text::quoted;
use crate::units::Time;
use weir_core::Span;

/// The maximum time of a rule for polls or calls, which is the same as in the server.
const LONGEST: Span = Span::from_millis(10);

pub(super) fn guest<'a>(doc: &mut Document<'a>, root: &ShapedTable<'a>) -> Option<Guest> {
    let entry = root.entry("guest")?;
    let table = entry.table(doc, &GUEST)?;
    refuse!(doc, root;
        "path", true, "cannot be combined with guest",
            "remove one of the two; a client reaches the block layer either through a guest's ring or over a path";
    );
    Some(stated(doc, &table))
}

/// Reads the guests of a table. Keys that are not set have their defaults.
pub(in crate::scenario) fn stated<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Guest {
    let ring = table.field(doc, "ring");
    // The maximum of virtio's split virtqueue is 32768 (virtio 1.2, section 2.7).
    let most = if ring == GuestRing::Virtio {
        32_768
    } else {
        512
    };
    let slots = table.entry("slots").and_then(|e| slots(doc, &e, most));
    let longest = table.entry("longest");
    let longest = longest.and_then(|e| e.size(doc));
    let kicks = table.entry("kicks").and_then(|e| kicks(doc, &e));
    let calls = table.entry("calls").and_then(|e| calls(doc, &e));
    let cost = table.entry("cost").and_then(|e| e.table(doc, &COSTS));
    let cost = cost.map_or_else(Cost::default, |cost| Cost::read(doc, &cost));
    Guest {
        ring,
        slots: slots.unwrap_or_else(|| Guest::slots(ring)),
        longest: longest.map_or_else(|| Guest::longest(ring), |bytes| bytes as u32),
        plug: table.field(doc, "plug"),
        threads: table.field(doc, "threads"),
        kicks: kicks.unwrap_or(KickReaction::AtOnce),
        calls: calls.unwrap_or(CallTiming::AtOnce),
        cost,
    }
}

fn slots(doc: &mut Document<'_>, entry: &KeyEntry<'_>, most: u64) -> Option<u32> {
    let slots = entry.integer(doc, 1..=most)?;
    if !slots.is_power_of_two() {
        let near = slots.next_power_of_two();
        let what = format!("{slots} is not a power of two");
        doc.report(entry, what, &format!("write {near} or {}", near / 2));
        return None;
    }
    Some(slots as u32)
}

/// Reads the words of a rule for notifications. The first word is its name. `known` has all names,
/// each with an example of the following words.
fn policy<'a>(
    doc: &mut Document<'_>,
    entry: &KeyEntry<'a>,
    known: &[(&str, &str)],
) -> Option<Vec<&'a str>> {
    let examples: Vec<String> = (known.iter())
        .map(|(name, example)| format!("\"{}\"", [*name, *example].join(" ").trim_end()))
        .collect();
    let text = entry.text(doc, "a notification policy", &examples[0])?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let name = words.first().copied().unwrap_or_default();
    let Some((_, example)) = known.iter().find(|k| k.0 == name) else {
        let near = nearest::name(name, known.iter().map(|k| k.0));
        let help = near.map_or_else(String::new, |n| format!("; did you mean {}?", quoted(n)));
        let what = format!("{} is not a notification policy", quoted(name));
        doc.report(entry, what, &format!("write {}{help}", examples.join(", ")));
        return None;
    };
    // The example has as many words as the rule needs after its name.
    let wanted = example.split_ascii_whitespace().count();
    if words.len() != wanted + 1 {
        let whole = quoted(format!("{name} {example}").trim_end());
        let what = format!("{} is not of the form {whole}", quoted(text));
        doc.report(entry, what, "");
        return None;
    }
    Some(words)
}

/// Reads a time among the words of a rule.
fn span(doc: &mut Document<'_>, entry: &KeyEntry<'_>, text: &str) -> Option<Span> {
    match text.parse::<Time>() {
        // A time of zero would be the same as `at-once`.
        Ok(Time(span)) if span > Span::ZERO && span <= LONGEST => Some(span),
        Ok(time) => {
            let what = format!("must be between 1ns and {}, not {time}", Time(LONGEST));
            doc.report(entry, what, "");
            None
        }
        Err(error) => {
            doc.report(entry, &error, &error.help);
            None
        }
    }
}

/// Reads a number from 1 to `most` among the words of a rule.
fn number(
    doc: &mut Document<'_>,
    entry: &KeyEntry<'_>,
    text: &str,
    of: &str,
    most: u32,
) -> Option<u32> {
    let number = text.parse().ok().filter(|n| (1..=most).contains(n));
    if number.is_none() {
        let what = format!("{} is not a number of {of}", quoted(text));
        let help = format!("write a whole number from 1 to {most}");
        doc.report(entry, what, &help);
    }
    number
}

fn kicks(doc: &mut Document<'_>, entry: &KeyEntry<'_>) -> Option<KickReaction> {
    let known = [
        ("at-once", ""),
        ("spin", "50us"),
        ("sleep", "200us"),
        ("throttle", "5000"),
    ];
    let words = policy(doc, entry, &known)?;
    match words[..] {
        ["spin", time] => span(doc, entry, time).map(KickReaction::Spin),
        ["sleep", time] => span(doc, entry, time).map(KickReaction::Sleep),
        ["throttle", rate] => {
            number(doc, entry, rate, "wake-ups a second", 1_000_000).map(KickReaction::Throttle)
        }
        _ => Some(KickReaction::AtOnce),
    }
}

fn calls(doc: &mut Document<'_>, entry: &KeyEntry<'_>) -> Option<CallTiming> {
    let known = [
        ("at-once", ""),
        ("delay", "100us 8"),
        ("vic", ""),
        ("spdk", "10us"),
    ];
    let words = policy(doc, entry, &known)?;
    match words[..] {
        ["delay", time, count] => {
            let time = span(doc, entry, time)?;
            let count = number(doc, entry, count, "responses", 256)?;
            Some(CallTiming::Delay { time, count })
        }
        ["spdk", base] => span(doc, entry, base).map(CallTiming::Spdk),
        ["vic"] => Some(CallTiming::Vic),
        _ => Some(CallTiming::AtOnce),
    }
}
