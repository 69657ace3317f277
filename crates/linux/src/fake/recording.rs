//! The parser of recorded hosts. [`FakeHost::new`] describes the format.

use super::{FakeHost, FakeNode};
use std::collections::{BTreeMap, BTreeSet};

/// Parses a recording into a host.
pub(super) fn read(recording: &str) -> FakeHost {
    let mut fake = FakeHost {
        nodes: BTreeMap::new(),
        attributes: BTreeMap::new(),
        built: BTreeSet::new(),
        loadable: BTreeSet::new(),
        tags: BTreeMap::new(),
        manual_wbt: BTreeSet::new(),
        death: None,
        reloads: 0,
    };
    let mut last = String::new();
    for line in recording.lines() {
        if let Some(more) = line.strip_prefix('\t') {
            match fake.nodes.get_mut(&last) {
                Some(FakeNode::File(text) | FakeNode::Fixed(text)) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(more);
                }
                _ => panic!("\"{line}\" is behind no file"),
            }
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            last = self::line(&mut fake, line);
        }
    }
    fake
}

/// Parses one line, and returns the path that it describes.
fn line(fake: &mut FakeHost, line: &str) -> String {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let words = rest.split_whitespace().map(str::to_owned);
    match first {
        "built" => fake.built.extend(words),
        "loadable" => fake.loadable.extend(words),
        "tags" => {
            let (folder, tags) = rest.split_once(' ').expect("tags FOLDER NUMBER");
            let tags = tags.trim().parse().expect("a number of tags");
            fake.tags.insert(folder.to_owned(), tags);
        }
        folder if rest.is_empty() => {
            let folder = folder.trim_end_matches('/');
            fake.nodes.insert(folder.to_owned(), FakeNode::Folder);
        }
        path => {
            let (sign, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let text = text.to_owned();
            let node = match sign {
                "=" => FakeNode::File(text),
                "!" => FakeNode::Fixed(text),
                "->" => FakeNode::Link(text),
                "%" => FakeNode::Device(text),
                _ => {
                    let name = sign.strip_prefix('@').expect("one of =, !, -> and @NAME");
                    fake.attributes
                        .insert((path.to_owned(), name.to_owned()), text);
                    return path.to_owned();
                }
            };
            fake.nodes.insert(path.to_owned(), node);
        }
    }
    first.to_owned()
}
