//! Tests of the structure of the crate: only front ends know a protocol, and modules use only
//! modules below them.

use std::fs;
use std::path::{Path, PathBuf};

/// The only module that may use a protocol with clients.
const FRONT: &str = "front";
/// The only module that may use a protocol with other servers.
const REMOTE: &str = "backend/nbd";
/// An exception, because it tests a shard with clients that need a protocol.
const EXCEPT: &str = "shard/allocations.rs";

/// The modules from the bottom to the top. A module may use itself and those before it.
const ORDER: [&str; 24] = [
    "clock", "errno", "log", "slab", "created", "holder", "memory", "places", "access", "upgrade",
    "tls", "gateway", "record", "backend", "metrics", "shard", "watch", "parts", "acceptor",
    "doors", "front", "error", "setup", "server",
];
/// The modules above all of these.
const TOP: [&str; 2] = ["preflight", "lib"];

/// Returns all source files, each with its path below `src`.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("it can be read") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("it can be read");
                let below = path.strip_prefix(&root).expect("it is below");
                found.push((below.to_owned(), text));
            }
        }
    }
    assert!(found.len() > 50, "{} files", found.len());
    found
}

/// Returns the top-level module of a file.
fn room(path: &Path) -> String {
    let first = path.iter().next().expect("it has a name");
    let first = first.to_str().expect("it is a word");
    first.trim_end_matches(".rs").to_owned()
}

/// Returns the lines of code in front of a file's tests, without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let built = text.lines().take_while(|line| *line != "#[cfg(test)]");
    built.map(|line| line.split("//").next().unwrap_or_default())
}

#[test]
fn only_front_ends_speak_a_protocol() {
    let mut speaks = 0;
    for (path, text) in sources() {
        let lines = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default());
        let spoken = lines
            .enumerate()
            .find(|(_, line)| line.contains("weir_wire"));
        if room(&path) == FRONT || path.starts_with(REMOTE) || path == Path::new(EXCEPT) {
            speaks += usize::from(spoken.is_some());
        } else {
            assert_eq!(
                spoken,
                None,
                "{}: what is said to clients belongs in src/{FRONT}, and to other servers in src/{REMOTE}",
                path.display()
            );
        }
    }
    // The exceptions would hide it if no file was found at all.
    assert!(speaks >= 4, "front ends were looked at: {speaks}");
}

#[test]
fn modules_use_only_lower_modules() {
    let place = |room: &str| ORDER.iter().position(|r| *r == room);
    let mut uses = 0;
    for (path, text) in sources() {
        let room = room(&path);
        let is_test = ["tests.rs", "bench.rs", "allocations.rs", "refusals.rs"];
        if TOP.contains(&room.as_str()) || is_test.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let own = place(&room).unwrap_or_else(|| panic!("{room} has no place in ORDER"));
        for line in code(&text) {
            for after in line.split("crate::").skip(1) {
                let word = |c: char| c.is_ascii_lowercase() || c == '_';
                let end = after.find(|c| !word(c)).unwrap_or(after.len());
                let Some(used) = place(&after[..end]) else {
                    continue;
                };
                uses += 1;
                assert!(
                    used <= own,
                    "{}: {room} must not use {}",
                    path.display(),
                    ORDER[used]
                );
            }
        }
    }
    assert!(uses > 40, "uses were looked at: {uses}");
}
