//! Words of the command line as values, each once.

use crate::failure::Failure;

/// The values of these words, in their order.
///
/// # Errors
/// As `find`, for the first word without a value.
pub(crate) fn found<T>(
    words: &[String],
    find: fn(&str) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    words.iter().map(|word| find(word)).collect()
}

/// These values, each once, in the order in which they come first.
///
/// # Errors
/// `two` (as `--drive: two drives`) that are not the same have one name.
pub(crate) fn each<T>(
    all: Vec<T>,
    two: &str,
    name: impl Fn(&T) -> &str,
    same: impl Fn(&T, &T) -> bool,
) -> Result<Vec<T>, Failure> {
    let mut once: Vec<T> = Vec::new();
    for one in all {
        match once.iter().find(|other| name(other) == name(&one)) {
            None => once.push(one),
            Some(other) if same(other, &one) => {}
            Some(_) => {
                let name = name(&one);
                return Err(Failure::Usage(format!("{two} have the name {name}")));
            }
        }
    }
    Ok(once)
}
