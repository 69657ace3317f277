//! Checks that the output of `--json` has exactly the keys that `docs/json.md` describes.

use crate::common::{Scratch, document, records, run};
use serde_json::Value;
use std::collections::BTreeMap;
use weir_measure::keys::{KEYS, Key, KeyPresence, page};

/// Runs of every kind: with and without promises, with cases, in virtual time and live.
const RUNS: &str = "\
demo --on sim --seconds 2
demo --on sim --seconds 1 --scenario max
demo --seconds 1 --policy contract
compare latency --drive demo --seconds 1 --repetitions 1
compare ring --drive demo --case 2-new
compare mixed.fio --drive demo
compare quiet.toml --drive demo --policy none
compare late.fio --drive demo --policy none
compare startup --drive demo --case idle
compare video --drive demo --case idle --seconds 1
compare contract --seconds 1 --repetitions 1
";

/// A client with reads, writes and flushes, and enough others in front of it that it starves.
const MIXED: &str = "[global]\nioengine=libaio\ndirect=1\nsize=64m\nruntime=2\ntime_based\n[both]\nrw=randrw\nbs=4k\nfdatasync=4\n\
                     [streams]\nrw=read\nbs=1m\niodepth=32\nnumjobs=15\n";

/// A client whose time begins after the measurement.
const LATE: &str = "[late]\nrw=randread\ndirect=1\nsize=64m\ntime_based\nruntime=1\nstartdelay=1\n";

/// A client that rarely requests its whole min, and one whose queue depth is too low for its min.
const QUIET: &str = "name = \"quiet\"\nduration = \"2s\"\n\
    [[client]]\nname = \"quiet\"\nsize = \"64MiB\"\nmin = \"5MB/s\"\ndirect = true\nrw = \"randread\"\nbs = \"4KiB\"\nthinktime = \"100ms\"\n\
    [[client]]\nname = \"shallow\"\nsize = \"64MiB\"\nmin = \"120MB/s\"\ndirect = true\nrw = \"randread\"\nbs = \"4KiB\"\n";

/// Keys that no command line here can produce. Tests in `crates/measure` cover them.
const UNPLAYED: &[&str] = &[
    "errors",
    "promised_iops",
    "promise_seconds.lacking_requests",
    // These keys require a kernel. The test `compare_guest` covers them.
    "kernel",
    "processor_percent",
    "path_us",
    "path_left_us",
];

const WHERE: &str = "the table is in crates/measure/src/keys.rs; WEIR_BLESS=1 cargo test -p weir --test it json:: then prints docs/json.md anew";

/// The number of lines, and the number of lines with each key.
#[derive(Default, Debug)]
struct KeyCounts {
    lines: usize,
    keys: BTreeMap<String, usize>,
}

impl KeyCounts {
    fn line(&mut self, record: &Value) {
        self.lines += 1;
        self.object("", record);
    }

    fn object(&mut self, at: &str, value: &Value) {
        for (key, value) in value.as_object().expect("an object") {
            let path = format!("{at}{key}");
            if value.is_object() {
                self.object(&format!("{path}."), value);
            } else {
                *self.keys.entry(path).or_default() += 1;
            }
        }
    }

    /// Returns the errors in the table, for lines of this kind.
    fn against(&self, kind: &str, of: impl Fn(&Key) -> KeyPresence) -> Vec<String> {
        let mut wrong = Vec::new();
        for path in self
            .keys
            .keys()
            .filter(|path| !KEYS.iter().any(|key| key.is(path)))
        {
            wrong.push(format!(
                "{kind} has the key {path}, which is not in the table: add it"
            ));
        }
        for key in KEYS {
            let found = self.keys.iter().filter(|(path, _)| key.is(path));
            let found: usize = found.map(|(_, count)| count).sum();
            let path = key.path;
            match of(key) {
                // No command line here can produce these keys.
                KeyPresence::Where(_) if UNPLAYED.contains(&path) => {}
                KeyPresence::Always if found < self.lines => wrong.push(format!(
                    "{path} is in {found} of {} lines of {kind}, and the table says always: remove it, or say when it is there",
                    self.lines
                )),
                KeyPresence::Where(runs) if found == 0 => wrong.push(format!(
                    "{path} is in no line of {kind}, and the table says where {runs}: remove it, or play a run here that prints it"
                )),
                KeyPresence::Never if found > 0 => {
                    wrong.push(format!("{path} is in lines of {kind}, and the table says never"));
                }
                _ => {}
            }
        }
        wrong
    }
}

#[test]
fn every_key_that_is_printed_is_documented_and_every_documented_one_printed() {
    let scratch = Scratch::new();
    scratch.file("mixed.fio", MIXED);
    scratch.file("late.fio", LATE);
    scratch.file("quiet.toml", QUIET);
    let (mut clients, mut totals) = (KeyCounts::default(), KeyCounts::default());
    for line in RUNS.lines() {
        let said = run(&scratch, &format!("{line} --json -")).ended(0);
        for record in records(&said.out) {
            if record["client"] == "total" {
                totals.line(&record);
            } else {
                clients.line(&record);
            }
        }
    }
    let mut wrong = clients.against("a client", |key| key.clients);
    wrong.extend(totals.against("the total", |key| key.total));
    assert!(wrong.is_empty(), "{}\n{WHERE}", wrong.join("\n"));
}

#[test]
fn the_page_is_generated_from_the_table_of_keys() {
    document("json.md", "json", &page());
}
