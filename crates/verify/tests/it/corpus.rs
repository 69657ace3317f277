//! Replays the corpus of the fuzzer of operations, and mutations of it.
//!
//! The files `corpus/operations/found-*` were found by `fuzz_for_new_events` below, which is a
//! small fuzzer of its own. It keeps an input that causes an event (see
//! [`weir_verify::audit::Tally`]) that no kept input caused, or more often than these.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use weir_verify::audit::fuzz;
use weir_verify::audit::random::{DecisionSource, RandomDecisions};

#[test]
fn the_corpus_passes() {
    let corpus = corpus();
    // An empty directory would let the test pass without testing anything.
    assert!(corpus.len() >= 20, "files are missing");
    for input in &corpus {
        fuzz::operations(input);
    }
    // Without bytes, every decision is zero.
    fuzz::operations(&[]);
}

#[test]
fn mutations_of_the_corpus_pass() {
    let corpus = corpus();
    let mut random = RandomDecisions::new(1);
    for round in 0..300 {
        let mut input = corpus[round % corpus.len()].clone();
        for _ in 0..=random.below(4) {
            mutate(&mut input, &corpus, &mut random);
        }
        fuzz::operations(&input);
    }
}

/// With `cargo test --release -p weir-verify --test it corpus:: -- --ignored`, this test writes new
/// inputs into the corpus.
#[test]
#[ignore = "takes a while and writes into the source tree"]
fn fuzz_for_new_events() {
    let mut kept = corpus();
    let mut seen = BTreeSet::new();
    for input in &kept {
        seen.extend(features(input));
    }
    // The seed depends on the corpus, so that each call of this test searches elsewhere.
    let mut random = RandomDecisions::new(seen.len() as u64);
    for _ in 0..200_000 {
        let mut input = if kept.is_empty() || random.once_in(16) {
            (0..200 + random.below(1_000))
                .map(|_| random.below(256) as u8)
                .collect()
        } else {
            kept[random.below(kept.len() as u64) as usize].clone()
        };
        for _ in 0..=random.below(6) {
            let others = if kept.is_empty() {
                vec![Vec::new()]
            } else {
                Vec::new()
            };
            mutate(
                &mut input,
                if kept.is_empty() { &others } else { &kept },
                &mut random,
            );
        }
        // Long inputs take long to replay and rarely cause new events.
        input.truncate(1_200);
        let new = features(&input);
        if !new.is_subset(&seen) {
            seen.extend(new);
            // FNV-1a, so that the name of an input depends only on its contents.
            let name = input.iter().fold(0xCBF2_9CE4_8422_2325u64, |h, &b| {
                (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3)
            });
            fs::write(directory().join(format!("found-{name:016x}")), &input)
                .expect("the corpus can be written");
            kept.push(input);
        }
    }
}

/// Returns the events that an input causes, each with its number in powers of four.
fn features(input: &[u8]) -> BTreeSet<(usize, u32)> {
    let mut summary = fuzz::perform(input).unwrap_or_else(|failure| panic!("{failure}"));
    let counts = summary.tally.counts().map(|count| *count).enumerate();
    counts
        .filter(|c| c.1 > 0)
        .map(|(i, count)| (i, count.ilog2() / 2))
        .collect()
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/operations")
}

/// Returns the contents of the files, in the order of their names.
fn corpus() -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory()).expect("the corpus is there");
    let mut paths: Vec<PathBuf> = entries
        .map(|e| e.expect("a file of the corpus").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).expect("a file of the corpus"))
        .collect()
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut RandomDecisions) {
    let at = random.below(input.len() as u64 + 1) as usize;
    match random.below(6) {
        0 => input.truncate(at),
        1 => input.insert(at, random.below(256) as u8),
        2 => {
            let other = &corpus[random.below(corpus.len() as u64) as usize];
            let from = random.below(other.len() as u64 + 1) as usize;
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ if at == input.len() => input.push(0),
        3 => input[at] ^= 1 << random.below(8),
        4 => input[at] = random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        _ => drop(input.remove(at)),
    }
}
