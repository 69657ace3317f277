//! Grouping of clients that differ only in a number.

use std::ops::Range;

/// Groups neighbours that differ only in the number at the end of their names and for which `same`
/// returns true. Returns the common name of each group, such as `reader 1-15`, and its range of
/// indices. A client without such neighbours keeps its name.
pub fn alike<T>(
    all: &[T],
    name: impl Fn(&T) -> &str,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<(String, Range<usize>)> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let stem = stem(name(one));
        // Equal names without a number are different clients.
        let numbered = stem != name(one);
        match runs.last_mut() {
            Some(run)
                if numbered
                    && self::stem(name(&all[run.start])) == stem
                    && same(&all[run.start], one) =>
            {
                run.end = at + 1;
            }
            _ => runs.push(at..at + 1),
        }
    }
    let called = runs.into_iter().map(|run| {
        let (first, last) = (name(&all[run.start]), name(&all[run.end - 1]));
        let stem = stem(first);
        let called = if run.len() == 1 {
            first.to_owned()
        } else {
            // The separator before the number is not part of the common name.
            let shown = stem.trim_end_matches(['-', '_', ' ', '.']);
            format!("{shown} {}-{}", &first[stem.len()..], &last[stem.len()..])
        };
        (called, run)
    });
    called.collect()
}

/// Returns a name without the digits at its end.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(names: &[&str]) -> Vec<String> {
        let all = alike(
            names,
            |name| name,
            |a, b| a != &"reader-3" && b != &"reader-3",
        );
        all.into_iter().map(|(called, _)| called).collect()
    }

    #[test]
    fn only_neighbours_alike_but_for_a_number_share_a_name() {
        let names = [
            "reader-1", "reader-2", "reader-3", "reader-4", "reader-5", "total",
        ];
        // `reader-3` differs from the others, and divides its neighbours into two groups.
        let together = ["reader 1-2", "reader-3", "reader 4-5", "total"];
        assert_eq!(called(&names), together);
        assert_eq!(called(&["a", "a", "b2", "b 3"]), ["a", "a", "b2", "b 3"]);
        assert_eq!(called(&["1", "2"]), [" 1-2"]);
        assert_eq!(called(&[]), [] as [&str; 0]);
    }
}
