//! Comparison of a test's result with a golden file.

use std::fs;
use std::path::Path;

/// Compares a text with this file of the crate. With `WEIR_BLESS=1`, it writes the file instead,
/// and a person reviews the difference.
pub(crate) fn check(golden: impl AsRef<Path>, found: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&golden, found).expect("writable");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let differs = (found.lines().zip(expected.lines())).find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{}: {differs:#?}; WEIR_BLESS=1 writes it anew",
        golden.display()
    );
}
