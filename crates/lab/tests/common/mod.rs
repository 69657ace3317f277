//! Helpers that the tests share: golden files, and checks of tables and pages.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::Path;

pub(crate) mod sample;

/// Compares `actual` with the file `tests/golden/NAME`. With `WEIR_BLESS=1` in the environment, it
/// writes the file instead.
pub(crate) fn assert_golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("WEIR_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&path, actual).expect("the golden file can be written");
        return;
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    if want == actual {
        return;
    }
    let line = want
        .lines()
        .zip(actual.lines())
        .take_while(|(a, b)| a == b)
        .count();
    panic!(
        "{name} differs from line {} on:\n  golden: {}\n  actual: {}\nIf that is meant: WEIR_BLESS=1 cargo test -p weir-lab",
        line + 1,
        want.lines().nth(line).unwrap_or("(no such line)"),
        actual.lines().nth(line).unwrap_or("(no such line)"),
    );
}

/// Checks that no line of a table is wider than each of the widths.
#[track_caller]
pub(crate) fn assert_fits(widths: &[usize], table: impl Fn(usize) -> String) {
    for width in widths {
        let table = table(*width);
        let fits = table.lines().all(|l| l.chars().count() <= *width);
        assert!(fits && !table.contains("NaN"), "{table}");
    }
}

/// Checks that a page is well formed, and that it requests no other file.
#[track_caller]
pub(crate) fn assert_self_contained(page: &str) {
    assert_eq!(well_formed(page), Ok(()));
    // The name space of SVG is a URL that browsers do not request.
    let body = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for asks in [
        "http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "XMLHttp", "<link",
        "<iframe",
    ] {
        assert!(!body.contains(asks), "the page has {asks}");
    }
}

/// Checks that every element of XML or HTML is closed in order, that every attribute is quoted, and
/// that no `<` or `&` is unescaped.
pub(crate) fn well_formed(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.strip_prefix("<!DOCTYPE html>").unwrap_or(text);
    while let Some(at) = rest.find(['<', '&']) {
        let from = &rest[at..];
        if from.starts_with('&') {
            let end = from.find(';').ok_or("an entity without end")?;
            if !["&amp", "&lt", "&gt", "&quot", "&#39"].contains(&&from[..end]) {
                return Err(format!("an entity {}", &from[..end]));
            }
            rest = &from[end..];
            continue;
        }
        let end = end_of_tag(from)?;
        let tag = &from[1..end];
        let name = tag
            .split(|c: char| c.is_whitespace() || c == '/')
            .find(|n| !n.is_empty())
            .unwrap_or("");
        rest = &from[end + 1..];
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes something else"));
            }
        // In HTML, `meta` has no closing tag.
        } else if !tag.ends_with('/') && name != "meta" {
            open.push(name);
            // The text of styles and scripts is not markup.
            if name == "style" || name == "script" {
                let close = rest
                    .find(&format!("</{name}>"))
                    .ok_or("an endless script")?;
                rest = &rest[close..];
            }
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("never closed: {open:?}"))
    }
}

/// Returns the end of the tag at the beginning of `text`. Attributes must have the form
/// `name="value"`.
fn end_of_tag(text: &str) -> Result<usize, String> {
    let mut quoted = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            '"' => quoted = !quoted,
            '<' => return Err(format!("a bare < in {text:.60}")),
            '>' if !quoted => return Ok(i),
            _ => {}
        }
    }
    Err(format!("a tag without end: {text:.60}"))
}
