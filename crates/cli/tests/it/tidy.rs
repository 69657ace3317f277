//! Budgets for each crate: lines, comments that are too long or vague, and names that several types
//! share.
//!
//! A budget may fall, but it may not rise without a reason in the commit. Further tests find files
//! that nothing uses, and words that mark unfinished work. `cargo test -p weir --test it tidy:: --
//! --nocapture` prints the counts.
//!
//! Budgets of lines count lines that contain code, not blank lines and not lines with only a
//! comment. Production code is the code that a release compiles, without tests and modules for
//! tests.

use crate::common::files_below;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The longest line of a comment, and of a paragraph in a document.
const COLUMNS: usize = 100;

/// The number of types of a crate that may have the same name.
const SAME_NAME: usize = 3;

/// The fewest words of the documentation comment of a public item.
const WORDS: usize = 4;

/// A documentation comment that begins with one of these words is a clause and not a description.
const INTERROGATIVES: [&str; 9] = [
    "What", "Whether", "Which", "Where", "How", "Whose", "Who", "When", "Why",
];

/// The number of type names that several files define. Most are a `Config`, or a type of the
/// management interface and the type that it describes.
const NAMES_OF_SEVERAL: usize = 54;

/// Lines of all documents that are longer than [`COLUMNS`].
const LONG_IN_DOCUMENTS: usize = 2_740;

/// Directories whose files a test or a program finds by listing them.
const LISTED: [&str; 17] = [
    "corpus",
    "crates/verify/mutants",
    "crates/config/policies",
    "crates/config/profiles",
    "crates/config/scenarios",
    "crates/config/sheets",
    "crates/config/tests",
    "crates/lab/experiments",
    "crates/lab/guest",
    "crates/lab/linux",
    "crates/core/tests/merging",
    "crates/linux/tests/contracts",
    "crates/python/tests",
    "crates/python/weir",
    "crates/verify/tests/found",
    "golden",
    "proptest-regressions",
];

/// Files that other programs look for by name.
const WELL_KNOWN: [&str; 14] = [
    ".gitignore",
    "Cargo.lock",
    "Chart.yaml",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "book.toml",
    "clippy.toml",
    "postinst",
    "postrm",
    "pyproject.toml",
    "values.yaml",
    "weir.sysusers",
];

/// The budget of a crate.
struct CrateBudget {
    name: &'static str,
    /// All lines of Rust that contain code. Lines of comments have no budget, because a reason
    /// beside the code is worth its lines.
    total: usize,
    /// Those of production code.
    production: usize,
    /// Lines of comments that are longer than [`COLUMNS`].
    long: usize,
    /// Documentation comments of production code that do not name their item (see [`vague`]).
    vague: usize,
    /// Names of more than [`SAME_NAME`] types of production code.
    shared: usize,
}

const fn budget(name: &'static str, counts: [usize; 5]) -> CrateBudget {
    let [total, production, long, vague, shared] = counts;
    CrateBudget {
        name,
        total,
        production,
        long,
        vague,
        shared,
    }
}

/// Crates by name.
const BUDGETS: [CrateBudget; 15] = [
    budget("cli", [29_485, 13_345, 0, 0, 0]),
    budget("config", [24_009, 18_190, 0, 0, 0]),
    budget("core", [40_256, 23_527, 7, 0, 1]),
    budget("csi", [3_381, 2_803, 0, 0, 0]),
    budget("lab", [9_873, 7_128, 0, 0, 0]),
    budget("linux", [9_990, 7_402, 0, 0, 0]),
    budget("manage", [8_309, 5_455, 25, 18, 0]),
    budget("measure", [8_004, 5_859, 0, 0, 0]),
    budget("model", [9_463, 5_804, 0, 0, 0]),
    budget("python", [931, 931, 0, 0, 0]),
    budget("serve", [36_174, 21_450, 1, 0, 0]),
    budget("sim", [9_652, 5_164, 0, 0, 0]),
    budget("uring", [5_337, 3_098, 0, 0, 0]),
    budget("verify", [11_591, 9_429, 10, 0, 0]),
    budget("wire", [12_297, 4_377, 1, 0, 0]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// True if a file below a crate's directory contains tests only.
fn is_test(path: &Path) -> bool {
    let parts = || {
        path.components()
            .map(|part| part.as_os_str().to_string_lossy())
    };
    parts().next().is_none_or(|part| part != "src")
        || parts().any(|part| part == "tests" || part == "tests.rs" || part == "testing")
}

/// The lines before the module of tests, which is the last item of a file.
fn production(text: &str) -> &str {
    // Everything after the start of the module of tests belongs to it.
    let code = text.split("\n#[cfg(test)]\nmod ").next();
    code.unwrap_or_default()
}

/// Counts the documentation comments that begin with an interrogative, or that describe a public
/// item in fewer than [`WORDS`] words.
fn vague(text: &str) -> usize {
    let (mut count, mut comment) = (0, Vec::new());
    for line in text.lines().map(str::trim_start) {
        if let Some(of) = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))
        {
            comment.extend(of.split_whitespace());
        } else if !line.starts_with("#[") && !comment.is_empty() {
            let is_short = comment.len() < WORDS && line.starts_with("pub ");
            count += usize::from(is_short || INTERROGATIVES.contains(&comment[0]));
            // The line after a comment and its attributes is the item.
            comment.clear();
        }
    }
    count
}

/// The name of the type that a line defines.
fn defined_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let item = match line.strip_prefix("pub") {
        Some(public) => public.split_once(' ')?.1,
        None => line,
    };
    let (kind, rest) = item.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "union"].contains(&kind);
    is_type.then(|| rest.split(|c: char| !c.is_alphanumeric()).next())?
}

fn is_long_comment(line: &str) -> bool {
    line.trim_start().starts_with("//") && line.chars().count() > COLUMNS
}

/// Returns true if a line contains code, and not only a comment.
fn is_code(line: &&str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// The counts of a crate, as its budget.
fn count(name: &'static str) -> CrateBudget {
    let directory = root().join("crates").join(name);
    let mut counts = budget(name, [0; 5]);
    let mut types = BTreeMap::new();
    for path in files_below(&directory, "rs") {
        let text = fs::read_to_string(&path).expect("it is text");
        counts.total += text.lines().filter(is_code).count();
        if !is_test(path.strip_prefix(&directory).expect("it is below")) {
            let code = production(&text);
            counts.production += code.lines().filter(is_code).count();
            counts.vague += vague(code);
            for name in code.lines().filter_map(defined_type) {
                *types.entry(name.to_owned()).or_insert(0) += 1;
            }
        }
        counts.long += text.lines().filter(|line| is_long_comment(line)).count();
    }
    counts.shared = types.values().filter(|&&count| count > SAME_NAME).count();
    counts
}

#[test]
fn every_crate_is_within_its_budget() {
    let crates = fs::read_dir(root().join("crates")).expect("it is there");
    assert_eq!(crates.count(), BUDGETS.len(), "each crate has a budget");
    let mut over = String::new();
    let (mut total, mut code) = (0, 0);
    for budget in &BUDGETS {
        let now = count(budget.name);
        println!(
            "{:12} {:6} {:6} {:5} {:4} {:2}",
            now.name, now.total, now.production, now.long, now.vague, now.shared
        );
        (total, code) = (total + now.total, code + now.production);
        let counts = [
            (now.total, budget.total, "lines"),
            (
                now.production,
                budget.production,
                "lines of production code",
            ),
            (now.long, budget.long, "long comment lines"),
            (now.vague, budget.vague, "vague documentation comments"),
            (now.shared, budget.shared, "names of several types"),
        ];
        for (now, most, kind) in counts {
            if now > most {
                writeln!(over, "{}: {now} {kind}, of at most {most}", budget.name)
                    .expect("a String takes anything");
            }
        }
    }
    println!("{:12} {total:6} {code:6}", "all");
    assert!(
        over.is_empty(),
        "{over}remove duplicates, or state in the commit why the budget rises"
    );
}

/// The comments of Rust sources.
#[derive(Default)]
struct Comments {
    lines: usize,
    /// Documentation comments.
    docs: usize,
    /// Documentation comments that begin with one of [`INTERROGATIVES`].
    interrogative: usize,
    /// Documentation comments of one word.
    one_word: usize,
    /// Lines with other comments, which state reasons.
    inline: usize,
}

impl Comments {
    /// Adds the comments of a file.
    fn add(&mut self, text: &str) {
        let mut doc = Vec::new();
        for line in text.lines().chain([""]).map(str::trim_start) {
            self.lines += 1;
            let of = ["///", "//!"].iter().find_map(|p| line.strip_prefix(p));
            if let Some(of) = of {
                doc.extend(of.split_whitespace());
                continue;
            }
            self.inline += usize::from(line.starts_with("//") || line.contains("; // "));
            // The end of a code block can be a comment of its own, behind an included file.
            let words = std::mem::take(&mut doc);
            if let Some(first) = words.first().filter(|first| **first != "```") {
                self.docs += 1;
                self.interrogative += usize::from(INTERROGATIVES.contains(first));
                self.one_word += usize::from(words.len() == 1);
            }
        }
    }
}

#[test]
fn comments_give_reasons_and_types_have_names_of_their_own() {
    let (mut comments, mut types) = (Comments::default(), BTreeMap::<_, BTreeSet<_>>::new());
    for path in files_below(&root().join("crates"), "rs") {
        let text = fs::read_to_string(&path).expect("it is text");
        comments.add(&text);
        for name in text.lines().filter_map(defined_type) {
            types
                .entry(name.to_owned())
                .or_default()
                .insert(path.clone());
        }
    }
    let several = types.values().filter(|files| files.len() > 1).count();
    println!(
        "{} documentation comments, {} of them interrogative and {} of one word; {} of {} lines with \
         other comments; {several} of {} type names in several files",
        comments.docs,
        comments.interrogative,
        comments.one_word,
        comments.inline,
        comments.lines,
        types.len()
    );
    assert!(comments.interrogative * 100 <= comments.docs);
    assert_eq!(comments.one_word, 0);
    assert!(comments.inline * 100 >= 3 * comments.lines);
    assert!(several <= NAMES_OF_SEVERAL, "give types specific names");
}

/// The paths of the repository, and the texts of those that are texts.
fn tracked() -> Vec<(String, String)> {
    let output = Command::new("git")
        .arg("ls-files")
        .current_dir(root())
        .output();
    let paths = String::from_utf8(output.expect("git is there").stdout).expect("names are text");
    let text = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_default();
    paths
        .lines()
        .map(|path| (path.to_owned(), text(path)))
        .collect()
}

/// A line of a paragraph that is too long. Rows of tables, code and links cannot be wrapped.
fn is_long_prose(line: &str) -> bool {
    let is_prose =
        !line.starts_with(['|', '\t']) && !line.starts_with("    ") && !line.contains("](");
    is_prose && line.chars().count() > COLUMNS
}

#[test]
fn documents_are_within_their_budget() {
    let is_document = |path: &str| Path::new(path).extension().is_some_and(|e| e == "md");
    let documents = tracked().into_iter().filter(|(path, _)| is_document(path));
    let long = documents.map(|(_, text)| text.lines().filter(|line| is_long_prose(line)).count());
    let long: usize = long.sum();
    println!("{long} long lines in documents");
    assert!(
        long <= LONG_IN_DOCUMENTS,
        "{long} lines above {COLUMNS} columns, of at most {LONG_IN_DOCUMENTS}"
    );
}

/// Returns true if a Rust file, given by its path without the extension, is compiled as the root of
/// a target or as a module.
fn is_module(path: &str, modules: &BTreeSet<&str>) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let (folder, name) = (parts[parts.len() - 2], parts[parts.len() - 1]);
    let name = if name == "mod" { folder } else { name };
    ["main", "lib", "build"].contains(&name)
        || ["examples", "tests"].contains(&folder)
        || modules.contains(name)
}

/// Returns true if a file other than Rust is found by its name, or because a program lists its
/// directory.
fn is_found(path: &str, name: &str, names: &BTreeMap<&str, BTreeSet<&str>>) -> bool {
    let path_within = format!("/{path}");
    let is_listed = LISTED
        .iter()
        .any(|of| path_within.contains(&format!("/{of}/")));
    let is_named = names
        .get(name)
        .is_some_and(|by| by.iter().any(|by| *by != path));
    WELL_KNOWN.contains(&name) || is_listed || is_named
}

#[test]
fn every_file_is_used_and_finished() {
    let files = tracked();
    let (mut modules, mut names) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<_>>::new());
    for (path, text) in &files {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_.-".contains(c)));
        let mut before = "";
        for word in words.filter(|word| !word.is_empty()) {
            if before == "mod" {
                modules.insert(word);
            }
            // A word can end a sentence. A module can be named by a path.
            let word = word.trim_end_matches('.');
            names.entry(word).or_default().insert(path.as_str());
            modules.extend(word.strip_suffix(".rs"));
            before = word;
        }
    }
    let mut wrong = Vec::new();
    for (path, text) in &files {
        let (stem, name) = (
            path.strip_suffix(".rs"),
            path.rsplit('/').next().unwrap_or(path),
        );
        if !stem.map_or_else(
            || is_found(path, name, &names),
            |stem| is_module(stem, &modules),
        ) {
            wrong.push(format!("{path}: nothing uses it"));
        }
        // The words are written in two parts, so that this file does not contain them.
        let unfinished = [concat!("TO", "DO"), concat!("FIX", "ME")];
        if stem.is_some() && unfinished.iter().any(|word| text.contains(word)) {
            wrong.push(format!("{path}: unfinished"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn vague_comments_and_types_are_recognised() {
    let item = |comment: &str, item: &str| vague(&format!("/// {comment}\n#[inline]\n{item} a"));
    assert_eq!(item("Whether it rotates.", "bool"), 1);
    // Two words are too few for a public item, but not for others.
    assert_eq!(item("Its weight.", "pub"), 1);
    assert_eq!(item("Its weight.", "pub(crate)"), 0);
    assert_eq!(item("Weight of the group.", "pub"), 0);
    assert_eq!(defined_type("    pub(super) struct A<T> {"), Some("A"));
    assert_eq!(defined_type("enum B {"), Some("B"));
    assert_eq!(defined_type("let a = b;"), None);
}

#[test]
fn production_code_and_long_comments_are_counted() {
    let code = production("a\nb\n\n#[cfg(test)]\nmod tests {\n}\n");
    assert_eq!(code.lines().count(), 2);
    assert_eq!(production("a\nb\n"), "a\nb\n");
    assert!(is_test(Path::new("tests/a.rs")) && is_test(Path::new("src/a/tests.rs")));
    assert!(is_test(Path::new("examples/a.rs")) && !is_test(Path::new("src/a.rs")));
    let long = format!("    // {}", "x".repeat(COLUMNS));
    assert!(is_long_prose(&long[5..]) && !is_long_prose(&long) && !is_long_prose("| a |"));
    assert!(is_long_comment(&long) && !is_long_comment(long.trim_start_matches(['/', ' '])));
}
