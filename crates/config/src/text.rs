//! Texts in messages and files: quoting, and paths of keys.

use std::fmt::{self, Display, Formatter, Write as _};

/// Returns a string in quotes. A string of more than 80 characters is shortened.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 80;
    // Of a long text, only the first characters are read.
    if text.chars().nth(SHOWN).is_none() {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(SHOWN).collect();
    format!("{head:?}...")
}

/// Returns true if a text is a valid name for a drive, a policy, a scenario, or an object in one of
/// them.
pub(crate) fn is_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.' || b == b'_';
    name.len() <= 64
        && name.bytes().all(inner)
        && name
            .as_bytes()
            .first()
            .is_some_and(u8::is_ascii_alphanumeric)
}

/// Appends a key to a path, in quotes if TOML requires them.
pub(crate) fn join(path: &str, key: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let key = if !key.is_empty() && key.bytes().all(bare) {
        key.to_owned()
    } else {
        format!("{key:?}")
    };
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

/// Returns the path of a table `[kind.NAME]`.
pub(crate) fn path(kind: &str, name: &str) -> String {
    join(kind, name)
}

/// Returns a text that is safe to print on one line of a terminal. Characters with which a name
/// could move the cursor, change colours, or imitate another line are escaped as in a Rust string.
/// These are control characters, separators of lines, and characters that reverse the direction of
/// text.
pub fn one_line(text: &str) -> String {
    let is_command = |c: char| {
        c.is_control()
            // U+200E and U+200F are direction marks, U+2028 and U+2029 separators, and the others
            // embeddings, overrides and isolates of direction.
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if is_command(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// A string that is displayed in the syntax of TOML.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                // In a basic string, quotation marks, backslashes and control characters must be
                // escaped (TOML 1.0, String).
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Returns a name as a key of TOML, in quotes if TOML requires them.
pub fn toml_key(name: &str) -> String {
    let is_bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(is_bare) {
        name.to_owned()
    } else {
        Quoted(name).to_string()
    }
}

/// Returns a text in the syntax of TOML. A text of several lines becomes a multi-line string.
pub(crate) fn block(text: &str) -> String {
    if !text.contains('\n') {
        return Quoted(text).to_string();
    }
    let lines = text.split('\n').map(|line| {
        let quoted = Quoted(line).to_string();
        // The quotes around each line are removed, because the block has its own.
        quoted[1..quoted.len() - 1].to_owned()
    });
    let lines: Vec<String> = lines.collect();
    format!("\"\"\"\n{}\"\"\"", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_a_name_are_escaped() {
        let name = "a\n\u{1b}[2J\t\u{9b}\u{202e}\u{2028}b";
        let line = one_line(name);
        assert_eq!(line, r"a\n\u{1b}[2J\t\u{9b}\u{202e}\u{2028}b");
        for plain in ["/a b/ä@\u{1f600}.slice", r"a\x2db", &line] {
            assert_eq!(one_line(plain), plain);
        }
    }
}
