//! Resolves names on the command line to values, and removes repetitions among these values.

use crate::failure::Failure;

/// Returns the value of each word, in the order of the words.
///
/// # Errors
/// Returns the error of `find` for the first word that has no value.
pub(crate) fn find_all<T>(
    words: &[String],
    find: fn(&str) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    words.iter().map(|word| find(word)).collect()
}

/// Removes values that are equal to an earlier value, and keeps the order of the others.
///
/// `two` begins the message of an error, for example `--drive: two drives`.
///
/// # Errors
/// Two values have the same name but are not the same.
pub(crate) fn without_repetitions<T>(
    all: Vec<T>,
    two: &str,
    name: impl Fn(&T) -> &str,
    same: impl Fn(&T, &T) -> bool,
) -> Result<Vec<T>, Failure> {
    let mut once: Vec<T> = Vec::new();
    for one in all {
        match once.iter().find(|other| name(other) == name(&one)) {
            None => once.push(one),
            // The same value twice is not an error, for example a drive that is named by two
            // options.
            Some(other) if same(other, &one) => {}
            Some(_) => {
                let name = name(&one);
                return Err(Failure::Usage(format!("{two} have the name {name}")));
            }
        }
    }
    Ok(once)
}
