//! Properties that hold for arbitrary bytes and texts.
#![allow(dead_code, reason = "each program of tests uses a part")]

use weir_config::policy::{self, GroupNode};
use weir_config::scenario::{self, Choice};
use weir_config::{Problem, Server, parse, plan, reload};
use weir_core::{Capacity, Contract, DriveShape, Edit, GroupId, Instant, Layer, ROOT, Sizes};
use weir_model::drive::{DriveConfig, null};

/// Reads the bytes as a server's file and checks the properties of the result.
///
/// # Panics
/// Panics if a file is refused without a problem, or a problem has no text. Also panics if an
/// accepted file is refused by the core, reads differently once printed, or changes something when
/// it is reloaded without a change.
pub(crate) fn server_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse("fuzz.toml", &text) {
        Ok(server) => accepted(&server),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            for problem in problems {
                assert!(!problem.message.is_empty(), "{problem:?}");
                assert!(problem.to_string().starts_with("fuzz.toml:"), "{problem}");
            }
        }
    }
}

/// Reads the text as a policy's file and checks the properties of the result.
///
/// # Errors
/// Everything that is wrong with the text.
///
/// # Panics
/// Panics if the core refuses an accepted policy with one of several contracts, or if it reads
/// differently once printed.
pub(crate) fn policy_file(text: &str) -> Result<(), Vec<Problem>> {
    let policy = policy::read(text, "fuzz.toml")?;
    let printed = policy::print(&policy);
    let again = policy::read(&printed, "printed.toml");
    assert_eq!(again.as_ref(), Ok(&policy), "printed as\n{printed}");
    // No promise, the smallest one, and an ordinary one.
    let contracts = [0, 1, 1_000_000].map(|min| Contract::DEFAULT.with_min(min));
    let drive = Capacity::rates(250_000_000, 250_000_000);
    for capacity in [None, Some(drive)] {
        let nodes = contracts.map(|contract| GroupNode {
            parent: None,
            contract,
        });
        let setup = policy.set_up(capacity, nodes);
        let mut layer = Layer::new(weir_core::Config {
            sizes: Sizes::default(),
            drive: DriveShape {
                capacity: Some(drive),
                ..DriveShape::default()
            },
            controllers: setup.controllers,
            merge: weir_core::merge::Config::OFF,
            elevator: setup.elevator.clone(),
        })
        .expect("its tunables were checked");
        let groups = (1..).map(GroupId).zip(setup.contracts());
        let edits: Vec<Edit> = groups
            .map(|(id, told)| Edit::AddGroup {
                id,
                parent: ROOT,
                contract: *told,
            })
            .collect();
        let promised = layer.change(Instant::ZERO, &edits);
        assert!(promised.is_ok(), "{promised:?}");
    }
    Ok(())
}

/// Reads the text as a scenario's file or as a job file of `fio` (`ending` is `toml` or `fio`), and
/// checks the properties of the result.
///
/// # Errors
/// Everything that is wrong with the text.
///
/// # Panics
/// Panics if a combination of an accepted file cannot be built, or has a client whose program does
/// not fit its region. Also panics if a job file plays differently once printed as a scenario.
pub(crate) fn scenario_text(text: &str, ending: &str) -> Result<(), Vec<Problem>> {
    let script = scenario::parse(text, &format!("fuzz.{ending}"))?;
    let printed = script.printed();
    let again = printed.as_deref().map(|printed| {
        let read = scenario::read(printed, "printed.toml");
        read.unwrap_or_else(|problems| panic!("{problems:#?} in\n{printed}"))
    });
    let drive = DriveConfig::Null(null::NullConfig::demo());
    let cases = script.cases().iter().map(|c| Some(c.as_str()));
    let one = script.cases().is_empty().then_some(None);
    // A fuzzed file can have very many cases, each of which takes time.
    for case in cases.chain(one).take(8) {
        for policy in ["none", "bfq", "contract"] {
            let choice = Choice::new(&drive, case, policy);
            let mut built = script.scenario(&choice).expect("read before");
            // These remarks differ, because they contain the name of the file and the line.
            built.unclassed.clear();
            if let (Some(again), Some(printed)) = (&again, &printed) {
                let mut again = again.scenario(&choice).expect("it is read again");
                again.unclassed.clear();
                assert_eq!(again, built, "printed as\n{printed}");
            }
            for client in &built.clients {
                let fits = client.program.validate(client.region);
                assert_eq!(fits, Ok(()), "{}", client.name);
                let end = client.region.start + client.region.length;
                assert!(
                    end <= built.spaces[client.space.0 as usize],
                    "{}",
                    client.name
                );
            }
        }
    }
    Ok(())
}

fn accepted(server: &Server) {
    let printed = server.to_string();
    let again = parse("printed.toml", &printed);
    assert_eq!(again.as_ref(), Ok(server), "printed as\n{printed}");
    let plans: Vec<_> = server
        .drives
        .iter()
        .filter_map(|d| plan(server, &d.name))
        .collect();
    assert_eq!(plans.len(), server.drives.len());
    for plan in &plans {
        let mut config = plan.config.clone();
        // The rules between sizes still apply to these sizes. The largest permitted ones would
        // exhaust the fuzzer's memory.
        config.sizes.requests = config.sizes.requests.min(1 << 14);
        config.sizes.streams = config.sizes.streams.min(1 << 10);
        config.sizes.reserved = config.sizes.reserved.min(4);
        let mut layer = Layer::new(config).expect("checked");
        let promised = layer.change(Instant::ZERO, &plan.edits);
        assert!(promised.is_ok(), "{promised:?}");
    }
    let reload = reload(server, &plans, server).expect("nothing differs");
    for (drive, plan) in reload.drives.iter().zip(&plans) {
        assert!(drive.edits.is_empty(), "{:?}", drive.edits);
        assert_eq!(&drive.plan, plan);
    }
}
