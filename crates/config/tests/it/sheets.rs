//! Sheets: those that come with Weir are valid, and problems of other files have a place.

use crate::common::files;
use crate::common::held;
use crate::common::mutate;

use files::{files, told};
use held::check;
use mutate::walk;
use weir_config::{profile, sheet};

#[test]
fn built_in_sheets_belong_to_built_in_profiles() {
    for name in sheet::names() {
        let sheet = sheet::find(name).expect("it is in the list");
        assert_eq!(sheet.profile.name, name);
        let profile = profile::find(name).expect("a drive with a sheet has a profile");
        assert_eq!(profile.about, sheet.profile.about);
        assert_eq!(profile.drive.name(), sheet.profile.drive.name());
        // A parameter is fitted or drawn from a range, but not both.
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
fn parameters_are_fitted_in_the_order_of_the_file() {
    let sheet = sheet::find("plextor-px-256m5s").expect("it comes with Weir");
    let keys: Vec<_> = sheet.fit.iter().map(|f| f.range.parameter.key).collect();
    assert_eq!(
        keys,
        ["link", "overhead", "read", "command", "favour", "flush"]
    );
}

#[test]
fn every_problem_is_reported_as_in_its_golden_file() {
    for (input, text) in files("tests/sheets", "toml") {
        let problems = sheet::read(&text, "sheet.toml").expect_err("something is wrong");
        check(input.with_extension("txt"), &told(&problems));
    }
}

#[test]
fn mutated_files_never_panic_and_errors_have_positions() {
    let sources = sheet::names().filter_map(sheet::source);
    let all: Vec<String> = sources.map(str::to_owned).collect();
    walk(&all, 5_000, 20, |text| {
        let sheet = sheet::read(text, "sheet.toml")?;
        let ranges = sheet.fit.iter().map(|f| &f.range).chain(&sheet.plausible);
        ranges.for_each(|r| assert!(1 <= r.from && r.from <= r.to, "{text}"));
        assert!(sheet.figures.iter().all(|f| f.value > 0.0), "{text}");
        Ok(())
    });
}
