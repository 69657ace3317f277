//! Texts of operating system errors for users, without error numbers, which add nothing to the
//! words before them.

use std::io;

/// Returns the text of an error without its number.
pub fn message(error: &io::Error) -> String {
    without_numbers(&error.to_string())
}

/// Removes the error numbers from a text.
pub fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!(message(&error), "No such file or directory");
        let two = "a: no (os error 2), b: yes (os error 13)";
        assert_eq!(without_numbers(two), "a: no, b: yes");
    }
}
