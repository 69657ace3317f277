//! Files of the tests, and the text of their problems.

use std::fs;
use std::path::{Path, PathBuf};
use weir_config::Problem;

/// Returns the path and text of each file in a folder with this extension, sorted by path.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).expect("part of the source");
    let mut files: Vec<_> = files.map(|f| f.expect("readable").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == ending));
    files.sort();
    let read = |f: PathBuf| (f.clone(), fs::read_to_string(f).expect("readable"));
    files.into_iter().map(read).collect()
}

/// Returns the text of problems, each followed by a line break.
pub(crate) fn told(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|p| format!("{p}\n")).collect();
    lines.concat()
}
