//! `model`: a timing model in a drive's place.

use super::choice;
use crate::document::{Document, Entry, Shape, quoted};
use crate::nearest;
use weir_core::Span;
use weir_drive::null;

pub(super) const NULL: Shape = Shape {
    name: "a null model",
    keys: &["kind", "service", "tags", "queues", "link", "tick"],
};

/// Models that have a name.
const BUILT_IN: &[(&str, weir_drive::Config)] =
    &[("demo", weir_drive::Config::Null(null::Config::demo()))];

/// Drives that are to be modelled.
const DESIGNED: &[&str] = &["plextor-px-256m5s", "samsung-970-pro"];

/// Kinds of models: the design's, and whether there is code for them.
const KINDS: &[(&str, bool)] = &[
    ("null", true),
    ("hdd", false),
    ("ssd", false),
    ("stripe", false),
    ("linear", false),
];

const EXAMPLE: &str = "{ kind = \"null\", service = \"30us\", tags = 32, link = \"250MB/s\" }";

/// A model by name or as an inline table.
pub(super) fn model<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<weir_drive::Config> {
    if entry.is_table() {
        return null_model(doc, entry);
    }
    let name = entry.text(doc, "a model's name or table", EXAMPLE)?;
    let names = BUILT_IN.iter().map(|b| b.0);
    let Some(model) = BUILT_IN.iter().find(|b| b.0 == name) else {
        if DESIGNED.contains(&name) {
            let what = format!("{} is not implemented yet", quoted(name));
            doc.wrong(
                entry,
                what,
                &format!("there is \"demo\", or write one as {EXAMPLE}"),
            );
            return None;
        }
        let help = match nearest::name(name, names) {
            Some(near) => format!("did you mean {}?", quoted(near)),
            None => format!("there is \"demo\", or write one as {EXAMPLE}"),
        };
        doc.wrong(entry, format!("there is no model {}", quoted(name)), &help);
        return None;
    };
    Some(model.1)
}

fn null_model<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<weir_drive::Config> {
    let before = doc.found();
    let table = entry.table(doc, &NULL)?;
    let kind = doc.required(&table, "kind", "there is kind = \"null\"")?;
    if !choice(doc, &kind, KINDS)? {
        let what = format!("{} is not implemented yet", kind.shown());
        doc.wrong(&kind, what, "there is \"null\"");
        return None;
    }
    let mut config = null::Config {
        service: Span::ZERO,
        tags: 32,
        queues: 1,
        link: 0,
        tick: Span::ZERO,
    };
    let service = doc.required(&table, "service", "as service = \"30us\"");
    if let Some(service) = service.and_then(|e| e.time(doc)) {
        config.service = service;
    }
    let mut count = |key| table.entry(key).and_then(|e| e.integer(doc, 1..=65_535));
    if let Some(tags) = count("tags") {
        config.tags = tags as u16;
    }
    if let Some(queues) = count("queues") {
        config.queues = queues as u16;
    }
    if let Some(link) = table.entry("link").and_then(|e| e.rate(doc)) {
        config.link = link;
    }
    if let Some(tick) = table.entry("tick").and_then(|e| e.time(doc)) {
        config.tick = tick;
    }
    if doc.found() > before {
        return None;
    }
    if let Err(error) = config.validate() {
        let at = table.entry(error.key).unwrap_or_else(|| entry.clone());
        let what = format!(
            "{} is not permitted; it must be {}",
            at.shown(),
            error.allowed
        );
        doc.wrong(&at, what, "");
        return None;
    }
    Some(weir_drive::Config::Null(config))
}
