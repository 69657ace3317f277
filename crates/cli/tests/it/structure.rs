//! The structure of the workspace: the permitted dependencies between crates, the only crate that
//! may contain `unsafe`, and the documents that list crates and modules.

use crate::common::{files_below, root};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The crates from the bottom to the top. A crate may use only those before it.
const ORDER: [&str; 15] = [
    "weir-core",
    "weir-wire",
    "weir-uring",
    "weir-measure",
    "weir-model",
    "weir-config",
    "weir-sim",
    "weir-verify",
    "weir-linux",
    "weir-lab",
    "weir-serve",
    "weir-manage",
    "weir-csi",
    "weir",
    "weir-python",
];

/// The only crate that may contain `unsafe`.
const UNSAFE: &str = "weir-uring";

/// Returns the packages of the workspace.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs this test");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    metadata["packages"].as_array().expect("a list").clone()
}

/// Returns the names of the dependencies of a package, except those that only its tests use.
fn uses(package: &Value) -> Vec<&str> {
    let all = package["dependencies"].as_array().expect("a list");
    // Dependencies of tests may point in any direction, because tests are not shipped.
    let built = all.iter().filter(|d| d["kind"] != "dev");
    built.map(|d| d["name"].as_str().expect("a name")).collect()
}

#[test]
fn a_crate_depends_only_on_crates_below_it() {
    let packages = packages();
    let mut names: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    names.sort_unstable();
    let mut known = ORDER;
    known.sort_unstable();
    assert_eq!(names, known, "every crate has its place in ORDER");
    let place = |name: &str| ORDER.iter().position(|n| *n == name);
    for package in &packages {
        let name = package["name"].as_str().expect("a name");
        for used in uses(package) {
            let Some(below) = place(used) else { continue };
            assert!(Some(below) < place(name), "{name} must not use {used}");
        }
    }
}

#[test]
fn the_core_uses_nothing() {
    let packages = packages();
    let core = packages.iter().find(|p| p["name"] == "weir-core");
    assert_eq!(uses(core.expect("there is a core")), [""; 0]);
}

/// `ARCHITECTURE.md` must have a row for every crate, and `docs/modules.md` one for every module of
/// the elevator `contract`.
#[test]
fn the_documents_list_every_crate_and_every_module_of_contract() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("it can be read");
    let map = read("ARCHITECTURE.md");
    assert!(map.lines().count() <= 200, "details belong in docs");
    for package in packages() {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let folder = manifest.parent().and_then(Path::file_name);
        let folder = folder.expect("a directory").to_string_lossy();
        let row = format!("\n| `crates/{folder}` | ");
        assert!(map.contains(&row), "ARCHITECTURE.md has no row {row}");
    }
    let modules = read("docs/modules.md");
    let contract = root().join("crates/core/src/elevator/contract");
    for file in files_below(&contract, "rs") {
        let name = file.strip_prefix(&contract).expect("it is below");
        if name.starts_with("tests") || name == Path::new("tests.rs") {
            continue;
        }
        let name = name.with_extension("");
        // This module only declares its submodules.
        let is_listed = name == Path::new("learned/mod");
        let row = format!(" | `{}` | ", name.display());
        assert!(
            is_listed || modules.contains(&row),
            "docs/modules.md: {row}"
        );
    }
}

#[test]
fn only_one_crate_contains_unsafe() {
    let mut files = 0;
    for package in packages() {
        if package["name"] == UNSAFE {
            continue;
        }
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        for file in files_below(manifest.parent().expect("a directory"), "rs") {
            let text = fs::read_to_string(&file).expect("it can be read");
            files += 1;
            let at = text.lines().position(is_unsafe);
            assert_eq!(at, None, "{} contains unsafe", file.display());
        }
    }
    assert!(files > 100, "the sources were looked at: {files}");
}

/// Returns true for a line with the keyword in its code. Words in comments and names of lints do
/// not count.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    // The word is written in two parts, so that this line does not contain it.
    words.any(|w| w == concat!("un", "safe")) && !code.contains('"')
}

#[test]
fn the_keyword_is_distinguished_from_similar_words() {
    let keyword = concat!("un", "safe");
    assert!(is_unsafe(&format!("    {keyword} {{ call() }}")));
    assert!(is_unsafe(&format!("pub {keyword} fn f() {{")));
    assert!(!is_unsafe(&format!("#![forbid({keyword}_code)]")));
    assert!(!is_unsafe(&format!("// {keyword} is a word")));
}
