//! The house inside a crate: no file uses another that uses it, but where that is named here with its reason.
//!
//! A file uses those that its `use` lines and its paths (`crate::…`, `super::…`, `self::…`) lead to; what a module exports of another
//! leads to that other. Declaring a module is not using it. A directory's `mod.rs` is the door of a room: the files in the room are
//! parts of what it defines and may use it. Tests and documentation do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

/// Circles that there may be: the crate, the files (not all of them need be in it), and why. One that is gone is taken out here.
const NAMED: &[(&str, &[&str], &str)] = &[
    (
        "core",
        &[
            "elevator/bfq/inject",
            "elevator/bfq/merge",
            "elevator/bfq/queue",
            "elevator/bfq/raising",
            "elevator/bfq/stable",
        ],
        "a queue carries what each rule has observed of it, and a rule's file says what that does to queues",
    ),
    (
        "core",
        &[
            "elevator/contract",
            "elevator/contract/choice",
            "elevator/contract/cost",
            "elevator/contract/flush",
            "elevator/contract/offer",
            "elevator/contract/reserve",
            "elevator/contract/reserve/room",
            "elevator/contract/turn",
            "elevator/contract/window",
        ],
        "parts of one elevator, not yet in layers",
    ),
    (
        "serve",
        &[
            "backend",
            "backend/device/sysfs",
            "backend/device/usage",
            "backend/file",
            "backend/file/disk",
            "backend/file/error",
            "backend/file/medium",
            "backend/file/work",
            "backend/found",
        ],
        "what is found asks each kind of storage, which answers in its words; files and devices are one kind, opened in two ways",
    ),
    (
        "serve",
        &["shard/client", "shard/front"],
        "a client holds its front end, and what that is given in a call is the client's",
    ),
    (
        "serve",
        &["shard/count", "shard/drive"],
        "a drive holds its counts, and a file says when all that happens to it is counted",
    ),
];

/// The name of a module: where it is below the crate's root.
type Module = Vec<String>;

/// One crate's modules, the code of each, and the names that each exports of another.
struct House {
    code: BTreeMap<Module, String>,
    exports: BTreeMap<(Module, String), Module>,
}

impl House {
    fn read(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(name)
            .join("src");
        let code = sources(&root)
            .iter()
            .filter_map(|file| {
                let module = module_of(file.strip_prefix(&root).expect("it is below"))?;
                let text = fs::read_to_string(file).expect("it can be read");
                Some((module, code_of(&text)))
            })
            .collect();
        let mut house = Self {
            code,
            exports: BTreeMap::new(),
        };
        house.note_exports();
        house
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let code = files
            .iter()
            .filter_map(|(file, text)| Some((module_of(Path::new(file))?, code_of(text))))
            .collect();
        let mut house = Self {
            code,
            exports: BTreeMap::new(),
        };
        house.note_exports();
        house
    }

    /// What `pub use` makes of names. An export of an export leads on in a second pass.
    fn note_exports(&mut self) {
        for _ in 0..3 {
            let mut exports = BTreeMap::new();
            for (module, code) in &self.code {
                for (line, paths) in used_paths(code) {
                    if !line.starts_with("pub") {
                        continue;
                    }
                    for path in paths {
                        let Some(name) = path.last().cloned() else {
                            continue;
                        };
                        if let Some(target) = self.resolve(module, &path)
                            && target != *module
                        {
                            exports.insert((module.clone(), name), target);
                        }
                    }
                }
            }
            self.exports = exports;
        }
    }

    /// The module that a path in `module` leads to.
    fn resolve(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut at = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => parent(module),
            first => {
                let mut child = module.clone();
                child.push(first.to_owned());
                if !self.code.contains_key(&child) {
                    return None;
                }
                child
            }
        };
        for name in &path[1..] {
            if name == "super" {
                at = parent(&at);
                continue;
            }
            let mut child = at.clone();
            child.push(name.clone());
            if self.code.contains_key(&child) {
                at = child;
            } else {
                let exported = self.exports.get(&(at.clone(), name.clone()));
                return Some(exported.cloned().unwrap_or(at));
            }
        }
        Some(at)
    }

    /// Who uses whom.
    fn uses(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let mut all = BTreeMap::new();
        for (module, code) in &self.code {
            let in_use_lines = used_paths(code).into_iter().flat_map(|(_, paths)| paths);
            let paths = in_use_lines.chain(inline_paths(code));
            let used: BTreeSet<Module> = paths
                .filter_map(|path| self.resolve(module, &path))
                .filter(|used| used != module && !used.is_empty() && *used != parent(module))
                .collect();
            all.insert(module.clone(), used);
        }
        all.remove(&Vec::new());
        all
    }

    /// Sets of modules each of which uses every other, on whatever way.
    fn circles(&self) -> Vec<BTreeSet<String>> {
        let uses = self.uses();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = uses
            .keys()
            .map(|module| {
                let mut seen = BTreeSet::new();
                let mut left: Vec<&Module> = uses[module].iter().collect();
                while let Some(next) = left.pop() {
                    if seen.insert(next) {
                        left.extend(uses.get(next).into_iter().flatten());
                    }
                }
                (module, seen)
            })
            .collect();
        let mut circles = BTreeSet::new();
        for (module, seen) in &reached {
            if seen.contains(*module) {
                let together = seen
                    .iter()
                    .filter(|other| reached.get(**other).is_some_and(|r| r.contains(*module)));
                circles.insert(together.map(|m| m.join("/")).collect::<BTreeSet<_>>());
            }
        }
        circles.into_iter().collect()
    }
}

fn parent(module: &Module) -> Module {
    module[..module.len().saturating_sub(1)].to_vec()
}

/// The module that a file below `src` is, or nothing where it is tests.
fn module_of(file: &Path) -> Option<Module> {
    let mut module: Module = file
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if module.iter().any(|part| part == "tests") {
        return None;
    }
    if matches!(module.last()?.as_str(), "mod" | "lib" | "main") {
        module.pop();
    }
    Some(module)
}

/// A file without its tests, its comments and what is for documentation only.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    let mut code = String::new();
    let mut skipped = false;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or("");
        if line.trim() == "#[cfg(doc)]" || line.trim() == "#[cfg(test)]" {
            skipped = true;
        } else if skipped {
            skipped = !line.contains(';') && !line.contains('}');
        } else {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Every `use` in the code, as its first words and the paths that it names.
fn used_paths(code: &str) -> Vec<(String, Vec<Vec<String>>)> {
    let mut found = Vec::new();
    for statement in code.split(';') {
        let Some(at) = statement.rfind("use ") else {
            continue;
        };
        let line_start = statement[..at].rfind('\n').map_or(0, |n| n + 1);
        let before = statement[line_start..at].trim();
        if !(before.is_empty() || before.starts_with("pub")) {
            continue;
        }
        let mut paths = Vec::new();
        spread(statement[at + 4..].trim(), &[], &mut paths);
        found.push((before.to_owned(), paths));
    }
    found
}

/// Takes the braces of a `use` apart.
fn spread(tree: &str, before: &[String], paths: &mut Vec<Vec<String>>) {
    let tree = tree.split(" as ").next().unwrap_or(tree).trim();
    let Some(open) = tree.find('{') else {
        let mut path = before.to_vec();
        path.extend(tree.split("::").map(|part| part.trim().to_owned()));
        path.retain(|part| !part.is_empty() && part != "*");
        if path.last().is_some_and(|part| part == "self") && path.len() > 1 {
            path.pop();
        }
        paths.push(path);
        return;
    };
    let mut path = before.to_vec();
    let head = tree[..open].trim_end_matches("::").trim();
    path.extend(
        head.split("::")
            .filter(|p| !p.is_empty())
            .map(str::to_owned),
    );
    let inner = tree[open + 1..].trim_end();
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                spread(&inner[start..at], &path, paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        spread(&inner[start..], &path, paths);
    }
}

/// Paths that begin at `crate`, `super` or `self` outside of `use` lines.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    code.split(|c: char| !is_path(c))
        .filter(|word| {
            ["crate::", "super::", "self::"]
                .iter()
                .any(|begin| word.starts_with(begin))
        })
        .map(|word| {
            let parts = word.split("::").filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        })
        .collect()
}

/// Every Rust file below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            found.append(&mut sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn no_files_use_each_other_but_those_named() {
    for name in ["core", "config", "serve"] {
        let house = House::read(name);
        assert!(house.code.len() > 20, "{name}: {}", house.code.len());
        let circles = house.circles();
        let named: Vec<BTreeSet<String>> = NAMED
            .iter()
            .filter(|circle| circle.0 == name)
            .map(|circle| circle.1.iter().map(|&file| file.to_owned()).collect())
            .collect();
        for circle in &circles {
            assert!(
                named.iter().any(|named| circle.is_subset(named)),
                "files of {name} use each other: {circle:#?}\nput what they share below them, or name them with the reason"
            );
        }
        for named in &named {
            assert!(
                circles.iter().any(|circle| circle.is_subset(named)),
                "{name}: take this out of NAMED, there is no circle any more: {named:?}"
            );
        }
    }
}

#[test]
fn a_circle_is_found_on_every_way_and_a_room_may_use_its_door() {
    let circles = |files: &[(&str, &str)]| House::of(files).circles();
    let two = |one: &str, other: &str| {
        circles(&[("a.rs", one), ("b.rs", other), ("lib.rs", "pub use b::B;")])
    };
    let ab: BTreeSet<String> = ["a", "b"].map(String::from).into();
    assert_eq!(
        two("use crate::b::B;", "use crate::{a::A, c};"),
        slice::from_ref(&ab)
    );
    assert_eq!(
        two("use crate::B;", "fn f(a: super::a::A) {}"),
        [ab],
        "by an export and by a path"
    );
    assert!(two("use crate::B;", "use crate::b::C; // crate::a::A").is_empty());
    assert!(two("use crate::B;", "#[cfg(doc)]\nuse crate::a::A;").is_empty());
    assert!(
        two(
            "use crate::B;",
            "#[cfg(test)]\nmod tests {\n use crate::a::A;\n}"
        )
        .is_empty()
    );
    let room = [
        ("r/mod.rs", "mod x;\nuse x::X;"),
        ("r/x.rs", "use super::R;"),
    ];
    assert!(circles(&room).is_empty());
    let outside = [
        ("r/mod.rs", "use x::X;"),
        ("r/x.rs", "use crate::a::A;"),
        ("a.rs", "use crate::r::R;"),
    ];
    assert_eq!(circles(&outside).len(), 1, "a, the door and x");
}
