//! All numbers that determine a run, for the scenarios that come with Weir and the accepted ones in
//! `tests/scenarios`. `tests/plays.txt` has a digest of each case.

use crate::common::files;
use crate::common::held;

use files::{files, told};
use held::check;
use std::fmt::{Debug, Write as _};
use weir_config::scenario::{self, Choice, Requirement, Scenario, Script};
use weir_config::{policy, profile};
use weir_core::elevator;

fn put(text: &mut String, name: &str, value: impl Debug) {
    writeln!(text, "  {name}: {value:?}").expect("a String takes anything");
}

/// Returns the properties that do not depend on the case.
fn facts(script: &Script) -> String {
    let mut text = format!("{}\n", script.name());
    put(&mut text, "about", script.about());
    put(&mut text, "load", script.load());
    put(&mut text, "target", script.target());
    put(&mut text, "drives", script.drives());
    put(&mut text, "policies", script.policies());
    put(&mut text, "repetitions", script.repetitions());
    put(&mut text, "cases", script.cases());
    for expect in script.expects() {
        put(&mut text, "expect", expect);
        let required = ["none", "bfq", "contract"].map(|policy| expect.is_required(policy));
        put(&mut text, "  of none, bfq, contract", required);
        match &expect.asked {
            Requirement::Shares(part) | Requirement::Max(part) => {
                put(&mut text, "  part", (part.to_string(), part.fraction()));
            }
            Requirement::Figure(bounds) => {
                put(&mut text, "  whose", bounds.whose.to_string());
                for value in [bounds.at_least, bounds.at_most].into_iter().flatten() {
                    put(&mut text, "  bound", value.number());
                }
            }
            Requirement::Promise(_) => {}
        }
    }
    for published in script.published() {
        put(&mut text, "published", published);
        put(&mut text, "  value", published.value.number());
    }
    text + &told(script.notes())
}

/// Returns the properties of a case on a drive under a policy.
fn played(script: &Script, case: Option<&str>, drive: &str, policy: &str) -> String {
    let (name, case_name) = (script.name(), case.unwrap_or("all"));
    let mut text = format!("{name}: {case_name} on {drive} under {policy}\n");
    let drive = profile::find(drive).expect("built in").drive;
    let choice = Choice::new(&drive, case, policy);
    let mut tuned = policy::find(policy).expect("it comes with Weir");
    match script.scenario(&choice) {
        Ok(scenario) => text += &shown(&scenario, &tuned),
        Err(problems) => text += &told(&problems),
    }
    if script.tune(&choice, &mut tuned).is_ok() {
        let before = policy::find(policy).expect("it comes with Weir");
        if tuned != before {
            put(&mut text, "tuned", &tuned.elevator);
        }
    }
    text
}

fn shown(scenario: &Scenario, policy: &policy::Policy) -> String {
    let mut text = String::new();
    let s = scenario;
    put(&mut text, "name, case", (&s.name, &s.case));
    put(&mut text, "warm_up, duration", (s.warm_up, s.duration));
    put(&mut text, "ends", s.ends());
    put(&mut text, "awaits, exits", (s.awaits, s.exits));
    put(&mut text, "capacity", s.capacity);
    put(&mut text, "spaces", &s.spaces);
    put(&mut text, "bases", s.bases());
    put(
        &mut text,
        "adapter, merging",
        (s.adapter, s.merging.config(&elevator::Config::None)),
    );
    if let Some(filesystem) = s.filesystem {
        put(&mut text, "filesystem", filesystem);
    }
    put(&mut text, "path, machine", (&s.path, &s.machine));
    put(&mut text, "sizes", s.sizes(policy));
    if let Some(guest) = &s.guest {
        put(&mut text, "guest", guest);
        put(&mut text, "  kicks", guest.kicks.to_string());
        put(&mut text, "  calls", guest.calls.to_string());
        put(
            &mut text,
            "  parts of 10 MB",
            10_000_000u32.div_ceil(guest.longest),
        );
    }
    if let Some(freeze) = s.freeze {
        put(&mut text, "freeze", freeze);
    }
    if let Some(spread) = s.spread {
        put(&mut text, "spread", spread);
    }
    for change in &s.changes {
        put(&mut text, "change", change);
    }
    for action in &s.actions {
        put(&mut text, "action", action);
    }
    for group in &s.groups {
        put(&mut text, "group", group);
    }
    for client in &s.clients {
        // Without a recorded load, the field is left out, as in the digests of other clients.
        let shown = format!("{client:?}").replace(" trace: None,", "");
        writeln!(text, "  client: {shown}").expect("a String takes anything");
        put(&mut text, "  outstanding", s.outstanding(client, policy));
        if let Some(buffered) = &client.buffered {
            put(&mut text, "  window", buffered.window());
        }
    }
    text
}

/// Returns the properties of the first and the last case, under policies that scripts distinguish.
fn all(script: &Script) -> Vec<String> {
    let (first, last) = match script.cases() {
        [] => (None, None),
        [first, rest @ ..] => (Some(first.as_str()), rest.last().map(String::as_str)),
    };
    let mut all = vec![
        facts(script),
        played(script, first, "demo", "contract"),
        played(script, first, "seagate-st3808110as", "bfq"),
    ];
    all.extend(last.map(|_| played(script, last, "demo", "contract")));
    all
}

/// Returns a hash of a text: FNV-1a, folded to 32 bits.
fn digest(text: &str) -> u32 {
    // The numbers are the offset basis and the prime of FNV-1a for 64 bits, which multiplies modulo
    // 2^64.
    let all = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (all ^ all >> 32) as u32
}

/// With `WEIR_SHOW=1`, the texts of the digests are printed.
#[test]
fn accepted_scenarios_have_the_recorded_digests() {
    let mut scripts: Vec<Script> = scenario::names().flat_map(scenario::find).collect();
    for ending in ["fio", "toml"] {
        for (path, text) in files("tests/scenarios", ending) {
            let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
            scripts.extend(scenario::parse(&text, name));
        }
    }
    let mut found = String::new();
    for text in scripts.iter().flat_map(all) {
        if std::env::var_os("WEIR_SHOW").is_some() {
            print!("{text}");
        }
        let first = text.lines().next().unwrap_or_default();
        writeln!(found, "{:08x} {first}", digest(&text)).expect("a String takes anything");
    }
    check("tests/plays.txt", &found);
}
