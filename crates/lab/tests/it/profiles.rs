//! Tests that the built-in profiles are what their sheets produce, and fit them.

use weir_config::profile::{self, DriveProfile};
use weir_config::sheet;
use weir_lab::fit::{DriveFigure, compare, fit};
use weir_sim::scenario::{self, Interferers};

/// The drives of the comparison of 2019. Their rows without control must be within 25 %.
const COMPARED: [&str; 3] = ["samsung-970-pro", "plextor-px-256m5s", "hitachi-hts72755"];

#[test]
fn a_fit_gives_the_committed_profile_to_the_byte() {
    for name in sheet::names() {
        let sheet = sheet::find(name).expect("it comes with Weir");
        let drive = fit(&sheet).expect("it can be measured");
        let profile = DriveProfile {
            drive,
            ..sheet.profile
        };
        let committed = profile::source(name).expect("it comes with Weir");
        assert_eq!(
            profile::print(&profile),
            committed,
            "{name}: `weir drives fit {name}` gives another profile"
        );
    }
}

#[test]
fn every_fitted_figure_is_as_near_as_its_sheet_asks() {
    for name in sheet::names() {
        let mut sheet = sheet::find(name).expect("it comes with Weir");
        sheet.figures.retain(|f| f.within.is_some());
        let drive = profile::find(name).expect("it comes with Weir").drive;
        for row in compare(&sheet, &drive).expect("it can be measured") {
            let (figure, off) = (row.figure.name(), row.relative_error() * 100.0);
            assert_eq!(
                row.is_within_tolerance(),
                Some(true),
                "{name}: {figure} is {off:.0} % off"
            );
        }
    }
}

#[test]
fn rows_without_control_are_fitted_and_all_others_are_not() {
    for name in COMPARED {
        let sheet = sheet::find(name).expect("it comes with Weir");
        for interferers in Interferers::ALL {
            for control in scenario::COMPARED {
                let figure = DriveFigure::Latency(interferers, control).name();
                let published = sheet.figures.iter().find(|f| f.figure == figure);
                let within = published.expect("the sheet has all six").within;
                // Rows without control are fitted within 25 %, and all others are predicted.
                let wanted = (control == "none").then_some(25);
                assert_eq!(within, wanted, "{name}: {figure}");
                let tied = sheet.fit.iter().any(|f| f.figure == figure);
                assert_eq!(tied, control == "none", "{name}: {figure}");
            }
        }
    }
}

#[test]
fn readers_under_no_control_leave_little_of_the_peak() {
    for name in COMPARED {
        let drive = profile::find(name).expect("it comes with Weir").drive;
        let of = |figure: DriveFigure| figure.of(&drive, 2).expect("it can be measured");
        let total = of(DriveFigure::Total(Interferers::Readers, "none"));
        let peak = of(DriveFigure::SequentialRead);
        // Without control, readers use at least 95 % of the sequential peak.
        assert!(total >= 0.95 * peak, "{name}: {total:.0} of {peak:.0}");
    }
}
