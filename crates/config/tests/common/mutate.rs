//! Texts that are nearly right, and what is to be said of them.

use super::random::Random;
use weir_config::Problem;

const WORDS: &[&str] = &[
    "-1",
    "0",
    "1",
    "65536",
    "99999999999999999999",
    "1e3",
    "0x10",
    "true",
    "\"\"",
    "\"0s\"",
    "\"1ns\"",
    "\"9h\"",
    "\"16EiB\"",
    "\"18446744073709551615B\"",
    "\"1B/s\"",
    "[]",
    "{}",
    "[\"demo\"]",
    "{ kind = \"null\" }",
    "\"stripe\"",
    "\"linear\"",
    "\"hdd\"",
    "\"ssd\"",
    "\"\"\"",
    "\u{e9}",
];

/// Whatever the text: no panic, and every problem has its place and its words; more than one text in `accepted_in` is accepted.
/// `WEIR_FUZZ_STEPS` and `WEIR_FUZZ_SEED` make it another or a longer walk.
pub(crate) fn walk(
    all: &[String],
    steps: u64,
    accepted_in: u64,
    mut read: impl FnMut(&str) -> Result<(), Vec<Problem>>,
) {
    let number = |name, or| std::env::var(name).map_or(or, |n| n.parse().expect("a number"));
    let mut random = Random::new(number("WEIR_FUZZ_SEED", 1));
    let (steps, mut accepted) = (number("WEIR_FUZZ_STEPS", steps), 0);
    for _ in 0..steps {
        let text = mutate(&mut random, all);
        match read(&text) {
            Ok(()) => accepted += 1,
            Err(problems) => located(&text, &problems),
        }
    }
    assert!(
        accepted > steps / accepted_in && accepted < steps / 2,
        "{accepted} of {steps}"
    );
}

/// Another value, a key with a letter changed, a line out, twice, elsewhere or of another file, a byte.
fn mutate(random: &mut Random, all: &[String]) -> String {
    let mut lines: Vec<String> = all[random.below(all.len())]
        .lines()
        .map(str::to_owned)
        .collect();
    for _ in 0..=random.below(3) {
        let other: Vec<&str> = all[random.below(all.len())].lines().collect();
        let at = random.below(lines.len());
        match random.below(6) {
            0 => {
                let key = lines[at].split('=').next().unwrap_or_default().to_owned();
                lines[at] = format!("{key}= {}", WORDS[random.below(WORDS.len())]);
            }
            1 => {
                let mut letters: Vec<char> = lines[at].chars().collect();
                if !letters.is_empty() {
                    let letter = random.below(letters.len());
                    letters[letter] = ['x', '=', '"', '.', '{', '\n', '\u{e9}'][random.below(7)];
                }
                lines[at] = letters.into_iter().collect();
            }
            2 if lines.len() > 1 => drop(lines.remove(at)),
            3 => lines.insert(at, lines[at].clone()),
            4 => {
                let to = random.below(lines.len());
                lines.swap(at, to);
            }
            _ => lines.insert(at, other[random.below(other.len())].to_owned()),
        }
    }
    lines.join("\n")
}

/// Every problem has its place in the text, and words.
pub(crate) fn located(text: &str, problems: &[Problem]) {
    assert!(!problems.is_empty(), "refused without a reason:\n{text}");
    let lines = text.lines().count() + 1;
    for problem in problems {
        let Problem { line, column, .. } = *problem;
        let inside = (1..=lines as u32).contains(&line) && column >= 1;
        // That there are more problems than are shown has no place.
        assert!(
            inside || problem.message.ends_with("are not shown"),
            "{problem:?}"
        );
        assert!(!problem.message.is_empty() && !problem.file.is_empty());
    }
}
