//! Suggestions for names that do not exist.

use crate::text::quoted;

/// Returns the candidate that is most similar to `word`, if one is similar enough.
pub(crate) fn name<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = folded(word);
    let length = word.chars().count();
    candidates
        .into_iter()
        // The edit distance is at least the difference in length. This cheap test rules out most
        // candidates.
        .filter(|c| c.chars().count().abs_diff(length) <= length / 3 + 1)
        .map(|c| (strsim::damerau_levenshtein(&word, &folded(c)), c))
        // A third of the letters can differ, and at least one.
        .filter(|(distance, _)| *distance <= (length / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// Returns the help for an unknown name: the most similar name, or up to eight of the known names.
pub(crate) fn help<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    const FEW: usize = 8;
    if let Some(near) = name(word, candidates.clone()) {
        return format!("did you mean {}?", quoted(near));
    }
    let mut names = candidates.into_iter();
    let few: Vec<String> = names.by_ref().take(FEW).map(quoted).collect();
    match few.len() {
        0 => "define one first".to_owned(),
        _ if names.next().is_some() => format!("use for example one of {}", few.join(", ")),
        1 => format!("use {}", few[0]),
        _ => format!("use one of {}", few.join(", ")),
    }
}

/// Returns a word in lower case and with underscores in place of dashes, so that these do not count
/// as differences.
fn folded(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let keys = ["bandwidth", "read_bandwidth", "iops", "burst", "min"];
        assert_eq!(name("bandwith", keys), Some("bandwidth"));
        assert_eq!(name("Read-Bandwidth", keys), Some("read_bandwidth"));
        assert_eq!(name("ipos", keys), Some("iops"));
        assert_eq!(name("mim", keys), Some("min"));
        // No key is within a third of the letters.
        assert_eq!(name("weight", keys), None);
        assert_eq!(name("", keys), None);
        // Lengths are counted in characters.
        assert_eq!(
            name("rea\u{1f600}_b\u{1f600}ndwidth", keys),
            Some("read_bandwidth")
        );
    }

    #[test]
    fn help_names_the_nearest_or_a_few() {
        assert_eq!(help("fats", ["fast", "slow"]), "did you mean \"fast\"?");
        assert_eq!(help("x", ["fast", "slow"]), "use one of \"fast\", \"slow\"");
        assert_eq!(help("x", ["fast"]), "use \"fast\"");
        assert_eq!(help("x", []), "define one first");
        let many: Vec<String> = (0..20).map(|n| format!("drive{n}")).collect();
        let text = help("x", many.iter().map(String::as_str));
        assert!(
            text.starts_with("use for example one of \"drive0\", "),
            "{text}"
        );
    }
}
