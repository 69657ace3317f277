//! The positions of spaces on drives that have positions.

use weir_core::{Contract, Span};
use weir_model::drive::{DriveConfig, null};
use weir_model::load::Program;
use weir_sim::{Policy, Scenario, SimError, SimRun};

const GIB: u64 = 1 << 30;

fn two_readers(drive: DriveConfig) -> Scenario {
    let mut scenario = Scenario::new("placement", drive, Span::from_secs(10));
    for name in ["one", "other"] {
        let program = Program::random_reads(4096, 1);
        scenario.add_client_with_group(name, Contract::DEFAULT, GIB, program);
    }
    scenario
}

fn requests(scenario: &Scenario) -> u64 {
    let run = SimRun::new(scenario, &Policy::none(), 0).unwrap();
    run.run(|_| {}).unwrap().total.requests()
}

#[test]
fn spaces_lie_one_behind_the_other_unless_stated() {
    let mut scenario = two_readers(DriveConfig::Hdd(
        weir_model::drive::hdd::HddConfig::generic(),
    ));
    assert_eq!(scenario.bases(), [0, GIB]);
    scenario.places = vec![5 * GIB];
    assert_eq!(scenario.bases(), [5 * GIB, 6 * GIB]);
    scenario.places = vec![5 * GIB, 0];
    assert_eq!(scenario.bases(), [5 * GIB, 0]);
}

#[test]
fn a_disk_seeks_from_one_space_to_the_other() {
    let mut scenario = two_readers(DriveConfig::Hdd(
        weir_model::drive::hdd::HddConfig::generic(),
    ));
    let near = requests(&scenario);
    scenario.places = vec![0, 400 * GIB];
    let far = requests(&scenario);
    assert!(4 * near > 5 * far, "{near} near, {far} far");
}

#[test]
fn a_space_beyond_the_drive_is_refused_and_a_null_drive_takes_any() {
    let mut scenario = two_readers(DriveConfig::Hdd(
        weir_model::drive::hdd::HddConfig::generic(),
    ));
    scenario.places = vec![480 * GIB - GIB];
    let error = SimRun::new(&scenario, &Policy::none(), 0).unwrap_err();
    let said = error.to_string();
    let name = &scenario.clients[1].name;
    assert!(
        said.starts_with(&format!(
            "client {name}: the files do not fit: they end at byte "
        )),
        "{said}"
    );
    assert!(matches!(error, SimError::Beyond { .. }), "{error}");
    scenario.drive = DriveConfig::Ssd(weir_model::drive::ssd::SsdConfig::generic());
    assert!(SimRun::new(&scenario, &Policy::none(), 0).is_err());
    scenario.drive = DriveConfig::Null(null::NullConfig::demo());
    assert!(requests(&scenario) > 10_000);
}
