//! Profiles of drives: those that come with Weir, problems of other files, and mutants.

use crate::common::files;
use crate::common::held;
use crate::common::mutate;

use files::{files, told};
use held::check;
use mutate::walk;
use std::fs;
use std::path::Path;
use weir_config::parameter::parameters;
use weir_config::profile::{self, DriveProfile};

/// With `WEIR_BLESS=1`, the files are written as they are printed.
#[test]
fn built_in_profiles_equal_their_printed_form() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    for name in profile::names() {
        let path = folder.join(format!("{name}.toml"));
        let text = fs::read_to_string(&path).expect("part of the source");
        let read = profile::read(&text, name).unwrap_or_else(|p| panic!("{p:#?}"));
        assert_eq!(read.name, name);
        let printed = profile::print(&read);
        if bless {
            fs::write(&path, &printed).expect("writable");
        } else {
            assert_eq!(printed, text, "{name}");
            assert_eq!(profile::source(name), Some(text.as_str()));
            assert_eq!(profile::find(name).as_ref(), Ok(&read));
        }
        assert_eq!(profile::read(&printed, "").as_ref(), Ok(&read));
        assert_eq!(read.drive.validate(), Ok(()), "{name}");
        assert!(read.summary().len() <= 120, "{name}: {}", read.summary());
    }
    let files = fs::read_dir(folder).expect("part of the source").count();
    assert_eq!(files, profile::names().count(), "every file is built in");
}

#[test]
fn an_unknown_name_has_a_nearest_one() {
    let unknown = profile::find("samsung-970-por").unwrap_err();
    assert_eq!(unknown.nearest, Some("samsung-970-pro"));
    assert_eq!(
        unknown.to_string(),
        "unknown drive \"samsung-970-por\"; did you mean \"samsung-970-pro\"?"
    );
    // A part of a name is recognised in any case.
    let unknown = profile::find("MQ04").unwrap_err();
    assert_eq!(unknown.nearest, Some("toshiba-mq04abf1"));
    // No name is similar, and none contains the text.
    let unknown = profile::find("floppy").unwrap_err();
    assert_eq!(unknown.nearest, None);
    assert_eq!(unknown.to_string(), "unknown drive \"floppy\"");
}

#[test]
fn parameters_come_in_any_order() {
    for name in profile::names() {
        let read = profile::find(name).expect("built in");
        let about = DriveProfile {
            about: "in another order".to_owned(),
            ..read
        };
        let printed = profile::print(&about);
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.reverse();
        assert_eq!(profile::read(&lines.join("\n"), ""), Ok(about));
    }
}

#[test]
fn printed_profiles_parse_to_the_same_profile() {
    let texts = [
        "x",
        "x\n",
        "x\n\ny \"\"\" \\ z\n",
        "\u{e9}\tx\r\ny\u{7f}",
        "x\\\ny",
    ];
    for name in profile::names() {
        for (step, text) in texts.into_iter().enumerate() {
            let mut profile = profile::find(name).expect("built in");
            profile.about = text.to_owned();
            // Numbers are increased as far as the model permits it.
            for parameter in parameters(&profile.drive) {
                let mut other = profile.drive.clone();
                parameter.set(&mut other, parameter.get(&profile.drive) + step as u64);
                if other.validate().is_ok() {
                    profile.drive = other;
                }
            }
            let printed = profile::print(&profile);
            assert_eq!(profile::read(&printed, ""), Ok(profile), "{printed}");
        }
    }
}

/// Compares the problems of `tests/profiles/NAME.toml` with `NAME.txt`. An accepted file gives the
/// text of its printed profile. With `WEIR_BLESS=1`, the texts are written, and a person reviews
/// the difference.
#[test]
fn every_problem_is_reported_as_in_its_golden_file() {
    for (input, text) in files("tests/profiles", "toml") {
        let answer = match profile::read(&text, "drive.toml") {
            Ok(profile) => profile::print(&profile),
            Err(problems) => told(&problems),
        };
        check(input.with_extension("txt"), &answer);
    }
}

/// Checks that an accepted profile is valid and reads back as printed.
#[test]
fn mutated_files_never_panic_and_errors_have_positions() {
    let own = files("tests/profiles", "toml");
    let accepted = own.into_iter().find(|f| f.0.ends_with("accepted.toml"));
    let built_in = profile::names().filter_map(profile::source);
    let built_in = built_in.map(str::to_owned);
    let all: Vec<String> = built_in.chain(accepted.map(|f| f.1)).collect();
    walk(&all, 5_000, 20, |text| {
        let profile = profile::read(text, "drive.toml")?;
        assert_eq!(profile.drive.validate(), Ok(()));
        let printed = profile::print(&profile);
        assert_eq!(profile::read(&printed, ""), Ok(profile), "{printed}");
        Ok(())
    });
}
