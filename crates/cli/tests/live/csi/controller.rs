//! The calls of the controller service. The driver is killed at each of its requests to the server,
//! and at times between them.

use crate::csi::bench::{CsiBench, capability, id, range};
use std::collections::HashMap;
use std::time::Duration;
use tonic::{Code, Status};
use weir_csi::rpc::volume_capability::{AccessType, BlockVolume, access_mode::Mode};
use weir_csi::rpc::*;

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    let pairs = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    pairs.collect()
}

/// A call of the controller service.
#[derive(Clone, Copy, Debug)]
enum ControllerCall {
    Create(&'static str, &'static str),
    Modify(&'static str, &'static str),
    Expand(&'static str, i64),
    Delete(&'static str),
    /// Calls that change nothing: list, get, validate, capacity, capabilities.
    Look,
}

impl ControllerCall {
    /// Repeats the call until it has a final answer, as Kubernetes does. The answer `Aborted` means
    /// that the server still processed a request of the killed driver.
    fn insist(&self, bench: &CsiBench) -> Result<String, Status> {
        let mut answers = (0..50).map(|_| self.make(bench));
        let is_final = |answer: &Result<_, Status>| !matches!(answer, Err(status) if status.code() == Code::Aborted);
        answers.find(is_final).expect("the server comes to its end")
    }

    /// Makes the call once, and returns the answer as text.
    fn make(&self, bench: &CsiBench) -> Result<String, Status> {
        Ok(match *self {
            Self::Create(name, min) => format!("{:?}", bench.call(create(name, min))?),
            Self::Modify(name, min) => {
                let request = ControllerModifyVolumeRequest {
                    volume_id: id(name),
                    mutable_parameters: map(&[("min", min)]),
                    ..Default::default()
                };
                format!("{:?}", bench.call(request)?)
            }
            Self::Expand(name, mib) => {
                let request = ControllerExpandVolumeRequest {
                    volume_id: id(name),
                    capacity_range: Some(range(mib)),
                    ..Default::default()
                };
                format!("{:?}", bench.call(request)?)
            }
            Self::Delete(name) => {
                let request = DeleteVolumeRequest {
                    volume_id: id(name),
                    ..Default::default()
                };
                format!("{:?}", bench.call(request)?)
            }
            Self::Look => look(bench)?,
        })
    }
}

fn block() -> VolumeCapability {
    capability(Mode::SingleNodeWriter, AccessType::Block(BlockVolume {}))
}

fn create(name: &str, min: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(range(4)),
        volume_capabilities: vec![block()],
        parameters: map(&[("drive", "fast")]),
        mutable_parameters: map(&[("min", min)]),
        ..Default::default()
    }
}

fn look(bench: &CsiBench) -> Result<String, Status> {
    let list = bench.call(ListVolumesRequest::default())?;
    let get = ControllerGetVolumeRequest {
        volume_id: id("there"),
    };
    let get = bench.call(get)?.volume;
    let validate = ValidateVolumeCapabilitiesRequest {
        volume_id: id("there"),
        volume_capabilities: vec![block()],
        ..Default::default()
    };
    let confirmed = bench.call(validate)?;
    let capacity = GetCapacityRequest {
        parameters: map(&[("min", "200MB/s")]),
        ..Default::default()
    };
    let capacity = bench.call(capacity)?;
    let can = bench.call(ControllerGetCapabilitiesRequest {})?;
    Ok(format!(
        "{} {get:?} {confirmed:?} {capacity:?} {can:?}",
        list.entries.len()
    ))
}

/// Returns the name, min and size of each volume. Each volume must have one file, and there must be
/// no other files.
fn state(bench: &CsiBench) -> Vec<(String, u64, u64)> {
    let (volumes, files) = bench.volumes();
    assert_eq!(files, volumes.len(), "files of {volumes:?}");
    let state = volumes.into_iter().map(|v| {
        let file = v.config["file"].as_str().expect("it has a file");
        let size = std::fs::metadata(file).expect("it is there").len();
        (v.name, v.contract.min_bytes_per_second, size)
    });
    state.collect()
}

/// Makes a call whose driver is killed at each moment in turn, and then repeats the call as
/// Kubernetes does. Returns the number of moments.
///
/// `before` creates the objects that the call needs, and `after` removes those that it leaves, so
/// that the state is the same before and after.
fn sweep(
    bench: &CsiBench,
    before: Option<ControllerCall>,
    call: &ControllerCall,
    after: Option<ControllerCall>,
) -> usize {
    let all = |call: Option<ControllerCall>| {
        bench.driver(None);
        if let Some(call) = call {
            call.insist(bench)
                .unwrap_or_else(|error| panic!("{call:?}: {error}"));
        }
    };
    let begun = state(bench);
    all(before);
    let expected = call
        .make(bench)
        .unwrap_or_else(|error| panic!("{call:?}: {error}"));
    let reached = state(bench);
    all(after);
    assert_eq!(state(bench), begun, "{call:?}");
    for moment in 0.. {
        all(before);
        bench.driver(Some(moment));
        let first = call.make(bench);
        let ended = bench.has_ended();
        bench.driver(None);
        // Kubernetes repeats a call until it is answered. The second answer shows that the call is
        // idempotent.
        for _ in 0..2 {
            let again = call.insist(bench);
            let again =
                again.unwrap_or_else(|error| panic!("{call:?} after moment {moment}: {error}"));
            assert_eq!(again, expected, "{call:?} after moment {moment}");
        }
        // The repeated call has the effect of a single one.
        assert_eq!(state(bench), reached, "{call:?} after moment {moment}");
        all(after);
        assert_eq!(state(bench), begun, "{call:?} after moment {moment}");
        if !ended {
            assert_eq!(first.expect("nothing has ended it"), expected);
            // The driver was not killed any more, so the call has no further moment.
            return moment;
        }
    }
    unreachable!("a call comes to its end")
}

#[test]
fn a_driver_that_is_ended_at_any_request_loses_and_leaks_nothing() {
    let bench = CsiBench::new(None);
    bench.driver(None);
    let there = ControllerCall::Create("there", "1MB/s");
    there.make(&bench).expect("the server has room");
    let (made, gone) = (
        ControllerCall::Create("a", "10MB/s"),
        ControllerCall::Delete("a"),
    );
    let mut moments = 0;
    for (before, call, after) in [
        (None, made, Some(gone)),
        (
            Some(made),
            ControllerCall::Modify("a", "20MB/s"),
            Some(gone),
        ),
        (Some(made), ControllerCall::Expand("a", 8), Some(gone)),
        (Some(made), gone, None),
        (None, ControllerCall::Look, None),
    ] {
        let ended = sweep(&bench, before, &call, after);
        assert!(ended >= 4, "{call:?} was ended {ended} times");
        moments += ended;
    }
    println!(
        "the driver was ended at {moments} moments of its requests: calls made again are answered as before, and no volume or file is left"
    );
}

/// A creation is killed and then refused when it is repeated, because another volume has used the
/// capacity in the meantime. Kubernetes then never deletes the refused volume, so nothing of it may
/// be left.
#[test]
fn a_killed_and_later_refused_creation_leaves_no_volume() {
    let bench = CsiBench::new(None);
    let (large, other) = (
        ControllerCall::Create("a", "100MB/s"),
        ControllerCall::Create("b", "50MB/s"),
    );
    for moment in 0.. {
        bench.driver(Some(moment));
        let _ = large.make(&bench);
        let ended = bench.has_ended();
        bench.driver(None);
        let other = other.insist(&bench);
        let again = large.insist(&bench);
        match (&other, &again) {
            // The first attempt had already reserved the promise.
            (Err(refused), Ok(_)) => assert_eq!(refused.code(), Code::ResourceExhausted),
            (Ok(_), Err(refused)) => {
                assert_eq!(refused.code(), Code::ResourceExhausted);
                assert!(
                    refused.message().contains("would add up to 150MB/s"),
                    "{refused}"
                );
            }
            _ => panic!("after moment {moment}: {other:?}, {again:?}"),
        }
        assert_eq!(state(&bench).len(), 1);
        for name in ["a", "b"] {
            ControllerCall::Delete(name)
                .insist(&bench)
                .expect("it goes");
        }
        assert_eq!(state(&bench), []);
        if !ended {
            return;
        }
    }
}

#[test]
fn a_driver_that_is_ended_at_any_time_loses_and_leaks_nothing() {
    let bench = CsiBench::new(None);
    let calls = [
        ControllerCall::Create("a", "10MB/s"),
        ControllerCall::Modify("a", "20MB/s"),
        ControllerCall::Expand("a", 8),
        ControllerCall::Delete("a"),
    ];
    let mut ended = 0;
    for run in 0..60u64 {
        for call in &calls {
            bench.driver(None);
            // The driver is killed at times from before the call to after its end. A call takes
            // some milliseconds.
            bench.end_after(Duration::from_micros(run * 200));
            let _ = call.make(&bench);
            std::thread::sleep(Duration::from_millis(2));
            ended += usize::from(bench.has_ended());
            let answered = (0..50).any(|_| {
                bench.driver(None);
                call.make(&bench).is_ok()
            });
            assert!(answered, "{call:?} is not answered");
        }
        assert_eq!(state(&bench), [], "run {run}");
    }
    println!("the driver was ended {ended} times in 240 calls at times between");
    // At least a quarter of the 240 calls must have been interrupted.
    assert!(ended > 60, "the driver was ended {ended} times");
}
