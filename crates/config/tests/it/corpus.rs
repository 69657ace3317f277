//! Replays the files that fuzzing found, mutants of these files, and randomly drawn files.

use crate::common;
use crate::common::RandomSource;
use crate::common::fuzz::server_file;
use std::fs;
use std::path::{Path, PathBuf};
use weir_config::parse;

fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is part of the source")
        .map(|f| f.expect("readable").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|p| fs::read(p).expect("readable"))
        .collect()
}

#[test]
fn corpus_and_golden_files_keep_the_properties() {
    for folder in ["corpus", "tests/golden"] {
        for data in files(folder) {
            server_file(&data);
        }
    }
}

/// The bytes that a mutation inserts: those with a meaning in TOML, and some that are not valid
/// text.
const BYTES: &[u8] = b"\"0159.=[]{}_-\n\x00\xff aGMi";

/// Makes one to four changes: a changed byte, a removed or swapped line, or a line or word of
/// another file.
fn mutate(random: &mut RandomSource, all: &[Vec<u8>]) -> Vec<u8> {
    let mut data = all[random.below(all.len())].clone();
    for _ in 0..=random.below(4) {
        let other = &all[random.below(all.len())];
        let lines: Vec<&[u8]> = data.split_inclusive(|b| *b == b'\n').collect();
        let others: Vec<&[u8]> = other.split_inclusive(|b| *b == b'\n').collect();
        if lines.is_empty() || others.is_empty() {
            return data;
        }
        let (at, from) = (random.below(lines.len()), random.below(others.len()));
        let mut changed: Vec<Vec<u8>> = lines.iter().map(|l| l.to_vec()).collect();
        match random.below(5) {
            0 => {
                let byte = random.below(changed[at].len());
                changed[at][byte] = BYTES[random.below(BYTES.len())];
            }
            1 => drop(changed.remove(at)),
            2 => {
                let to = random.below(changed.len());
                changed.swap(at, to);
            }
            3 => changed.insert(at, others[from].to_vec()),
            _ => {
                let words = |line: &[u8]| -> Vec<Vec<u8>> {
                    line.split_inclusive(|b| b" =\",".contains(b))
                        .map(<[u8]>::to_vec)
                        .collect()
                };
                let (mut into, from) = (words(&changed[at]), words(others[from]));
                let place = random.below(into.len());
                into[place].clone_from(&from[random.below(from.len())]);
                changed[at] = into.concat();
            }
        }
        data = changed.concat();
    }
    data
}

/// `WEIR_FUZZ_STEPS` and `WEIR_FUZZ_SEED` select a longer or different sequence of mutants.
#[test]
fn mutants_of_the_corpus_keep_the_properties() {
    let mut random = RandomSource::new(number("WEIR_FUZZ_SEED", 1));
    let all: Vec<Vec<u8>> = [files("corpus"), files("tests/golden")].concat();
    for _ in 0..number("WEIR_FUZZ_STEPS", 2_000) {
        server_file(&mutate(&mut random, &all));
    }
}

/// Most drawn files are accepted, while mutants hardly ever are.
#[test]
fn most_drawn_files_are_accepted() {
    let mut random = RandomSource::new(number("WEIR_FUZZ_SEED", 1));
    let steps = number("WEIR_FUZZ_STEPS", 600);
    let mut accepted = 0;
    for _ in 0..steps {
        let text = common::draw(&mut random);
        server_file(text.as_bytes());
        accepted += u64::from(parse("", &text).is_ok());
    }
    // If fewer files are accepted, the generator draws keys that contradict each other.
    assert!(accepted * 2 > steps, "{accepted} of {steps}");
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).map_or(or, |n| n.parse().expect("a number"))
}
