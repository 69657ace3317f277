//! Sheets: what comes with Weir can be read, and what is wrong in one is said with its place.

#[path = "common/mutate.rs"]
mod mutate;
#[path = "common/random.rs"]
mod random;

use mutate::walk;
use weir_config::{profile, sheet};

#[test]
fn the_sheets_that_come_with_weir_are_of_drives_that_do() {
    for name in sheet::names() {
        let sheet = sheet::find(name).expect("it is in the list");
        assert_eq!(sheet.profile.name, name);
        let profile = profile::find(name).expect("a drive with a sheet has a profile");
        assert_eq!(profile.about, sheet.profile.about);
        assert_eq!(profile.drive.name(), sheet.profile.drive.name());
        for fit in &sheet.fit {
            let key = fit.range.parameter.key;
            assert!(sheet.figures.iter().any(|f| f.figure == fit.figure));
            assert!(
                !sheet.plausible.iter().any(|p| p.parameter.key == key),
                "{name}: {key} is fitted and drawn"
            );
        }
    }
    assert!(sheet::find("no-such-drive").is_none());
}

#[test]
fn parameters_are_tied_in_the_order_of_the_file() {
    let sheet = sheet::find("plextor-px-256m5s").expect("it comes with Weir");
    let keys: Vec<_> = sheet.fit.iter().map(|f| f.range.parameter.key).collect();
    assert_eq!(
        keys,
        ["link", "overhead", "read", "command", "favour", "flush"]
    );
}

/// A sheet with one thing wrong, and what is said of it.
#[test]
fn what_is_wrong_is_said_with_its_place() {
    let profile = profile::source("scsi-debug").expect("it comes with Weir");
    let wrong = |tables: &str| {
        let text = format!("{profile}\n{tables}\n");
        let problems = sheet::read(&text, "x.toml").expect_err(tables);
        assert!(problems.iter().all(|p| p.line > 0 && p.column > 0));
        let told = problems
            .iter()
            .map(|p| format!("{}: {} {:?}", p.key, p.message, p.help));
        told.collect::<Vec<_>>().join("; ")
    };
    for (tables, words) in [
        (
            "[fit]\nservce = { figure = \"access\", from = \"1us\", to = \"2us\" }",
            &["fit.servce", "unknown key", "service"][..],
        ),
        (
            "[fit]\nservice = { from = \"1us\", to = \"2us\" }",
            &["fit.service.figure", "is missing"],
        ),
        (
            "[fit]\nservice = { figure = \"access\", from = \"2us\", to = \"1us\" }",
            &["fit.service.to", "from 2us to 1us is not a range"],
        ),
        (
            "[plausible]\ntags = { from = 0, to = 9 }",
            &["plausible.tags.from", "not permitted"],
        ),
        (
            "[plausible]\ntags = { from = 1, until = 9 }",
            &["plausible.tags.until", "unknown key"],
        ),
        (
            "[[figure]]\nname = \"access\"\nvalue = \"fast\"\nsource = \"x\"",
            &["value", "neither a rate nor a time"],
        ),
        (
            "[[figure]]\nname = \"access\"\nvalue = \"1ms\"",
            &["source", "is missing"],
        ),
        (
            "[[figure]]\nname = \"access\"\nvalue = \"1ms\"\nsource = \"x\"\nwithin = 0",
            &["within", "must be between 1 and 100, not 0"],
        ),
    ] {
        let told = wrong(tables);
        for word in words {
            assert!(told.contains(word), "{tables}\n{told}\nlacks {word}");
        }
    }
}

#[test]
fn mutants_never_panic_and_say_where() {
    let sources = sheet::names().filter_map(sheet::source);
    let all: Vec<String> = sources.map(str::to_owned).collect();
    walk(&all, 5_000, |text| {
        let sheet = sheet::read(text, "sheet.toml")?;
        let ranges = sheet.fit.iter().map(|f| &f.range).chain(&sheet.plausible);
        ranges.for_each(|r| assert!(1 <= r.from && r.from <= r.to, "{text}"));
        assert!(sheet.figures.iter().all(|f| f.value > 0.0), "{text}");
        Ok(())
    });
}
