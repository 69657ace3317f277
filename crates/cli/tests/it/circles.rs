//! Checks that no two files of a crate use each other, except those that are listed here with a
//! reason.
//!
//! A file uses the files to which its `use` lines and its paths (`crate::…`, `super::…`, `self::…`)
//! lead. A re-export leads to the file that it exports. Declaring a module does not count as using
//! it. The `mod.rs` of a directory is its interface, whose parts are the other files of the
//! directory. These may use it. Tests and documentation do not count.

use crate::common::files_below;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Ident, ItemFn, ItemMod, ItemUse, UseName, UseRename, UseTree, VisRestricted,
    Visibility,
};

/// The permitted cycles: the crate, the files (of which some may not take part), and the reason. An
/// entry whose cycle no longer exists must be removed.
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
        "config",
        &[
            "document",
            "elsewhere",
            "field",
            "key",
            "key/apply",
            "key/drive",
            "key/gateways",
            "key/guest",
            "key/listen",
            "key/manage",
            "key/root",
            "key/scenario",
            "key/volume",
            "terms",
        ],
        "the row of a key declares its field and its reader, and a document reports each key by its row",
    ),
    (
        "config",
        &[
            "scenario",
            "scenario/fio",
            "scenario/fio/job",
            "scenario/fio/phases",
            "scenario/fio/replay",
            "scenario/fio/written",
            "scenario/guest",
            "scenario/open",
            "scenario/read",
            "scenario/read/client",
            "scenario/read/expect",
            "scenario/read/guest",
            "scenario/script",
        ],
        "a script is read from a scenario's file or from a job file, which is written as a scenario and read as a script",
    ),
];

/// The path of a module below the root of the crate.
type Module = Vec<String>;

/// The modules of one crate with the paths that they use, and the names that each re-exports.
struct ModuleGraph {
    code: BTreeMap<Module, Paths>,
    exports: BTreeMap<(Module, String), Module>,
}

impl ModuleGraph {
    fn read(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(name)
            .join("src");
        let files = files_below(&root, "rs").into_iter().map(|file| {
            let text = fs::read_to_string(&file).expect("it can be read");
            let file = file.strip_prefix(&root).expect("it is below");
            (file.to_owned(), text)
        });
        Self::of(files)
    }

    fn of(files: impl IntoIterator<Item = (PathBuf, String)>) -> Self {
        let modules = files
            .into_iter()
            .filter_map(|(file, text)| Some((module_of(&file)?, Paths::of(&text))));
        let mut house = Self {
            code: modules.collect(),
            exports: BTreeMap::new(),
        };
        house.note_exports();
        house
    }

    /// Records the names that `pub use` exports. Further passes resolve exports of exports.
    fn note_exports(&mut self) {
        // Three passes resolve exports of exports of exports.
        for _ in 0..3 {
            let mut exports = BTreeMap::new();
            for (module, paths) in &self.code {
                for path in &paths.exported {
                    if let (Some(name), Some(target)) = (path.last(), self.resolve(module, path))
                        && target != *module
                    {
                        exports.insert((module.clone(), name.clone()), target);
                    }
                }
            }
            self.exports = exports;
        }
    }

    /// Returns the module to which a path in `module` leads.
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

    /// Returns the modules that each module uses.
    fn uses(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let mut all = BTreeMap::new();
        for (module, paths) in &self.code {
            let used: BTreeSet<Module> = (paths.used.iter())
                .filter_map(|path| self.resolve(module, path))
                .filter(|used| used != module && !used.is_empty() && *used != parent(module))
                .collect();
            all.insert(module.clone(), used);
        }
        // The root of the crate, which uses all modules, is not checked.
        all.remove(&Vec::new());
        all
    }

    /// Returns the sets of modules of which each uses every other, directly or indirectly.
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

/// Returns the module of a file below `src`, or nothing for tests.
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

/// The paths in a file: those of its `use` lines, those that `pub use` exports, and others that
/// begin with `crate`, `super` or `self`.
#[derive(Default)]
struct Paths {
    used: Vec<Vec<String>>,
    exported: Vec<Vec<String>>,
}

impl Paths {
    fn of(text: &str) -> Self {
        let mut paths = Self::default();
        paths.visit_file(&syn::parse_file(text).expect("it is Rust"));
        paths
    }

    /// Splits the braces of a `use` into single paths.
    fn spread(tree: &UseTree, mut path: Vec<String>, all: &mut Vec<Vec<String>>) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                Self::spread(&tree.tree, path, all);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    Self::spread(tree, path.clone(), all);
                }
            }
            UseTree::Name(UseName { ident }) | UseTree::Rename(UseRename { ident, .. }) => {
                if path.is_empty() || ident != "self" {
                    path.push(ident.to_string());
                }
                all.push(path);
            }
            UseTree::Glob(_) => all.push(path),
        }
    }
}

/// Returns true if an item exists for tests or documentation only.
fn is_aside(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let when = attribute.parse_args::<Ident>();
        attribute.path().is_ident("cfg") && when.is_ok_and(|when| when == "test" || when == "doc")
    })
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_aside(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_aside(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if is_aside(&item.attrs) {
            return;
        }
        let mut paths = Vec::new();
        Self::spread(&item.tree, Vec::new(), &mut paths);
        if !matches!(item.vis, Visibility::Inherited) {
            self.exported.extend(paths.clone());
        }
        self.used.extend(paths);
    }

    /// Skips the path of `pub(in ...)`, because visibility is not use.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if matches!(&*parts[0], "crate" | "super" | "self") && parts.len() > 1 {
            self.used.push(parts);
        }
        visit::visit_path(self, path);
    }
}

#[test]
fn files_form_only_the_named_circles() {
    for name in ["core", "config", "serve"] {
        let house = ModuleGraph::read(name);
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
fn circles_are_found_on_every_path_and_a_directory_may_use_its_mod_file() {
    let circles = |files: &[(&str, &str)]| {
        let files = files
            .iter()
            .map(|(file, text)| (file.into(), (*text).to_owned()));
        ModuleGraph::of(files).circles()
    };
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
    // Comments, documentation and tests do not count as use.
    assert!(two("use crate::B;", "use crate::b::C; // crate::a::A").is_empty());
    assert!(two("use crate::B;", "#[cfg(doc)]\nuse crate::a::A;").is_empty());
    assert!(
        two(
            "use crate::B;",
            "#[cfg(test)]\nmod tests {\n use crate::a::A;\n}"
        )
        .is_empty()
    );
    // The files of a directory may use its `mod.rs`.
    let room = [
        ("r/mod.rs", "mod x;\nuse x::X;"),
        ("r/x.rs", "use super::R;"),
    ];
    assert!(circles(&room).is_empty());
    // A cycle that leaves the directory is found.
    let outside = [
        ("r/mod.rs", "use x::X;"),
        ("r/x.rs", "use crate::a::A;"),
        ("a.rs", "use crate::r::R;"),
    ];
    assert_eq!(circles(&outside).len(), 1, "a, the door and x");
}
