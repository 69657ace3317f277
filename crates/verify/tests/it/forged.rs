//! Tests that every auditor finds violations of its rule, by forging the calls of a layer on their
//! way to the auditors. The planted bugs, which auditors must notice in a layer itself, are tested
//! with patched sources.

use std::fs;
use std::path::Path;
use std::process::Command;
use weir_core::record::{Call, Replay};
use weir_core::{
    Dispatch, Flags, Instant, Op, Outcome, Output, PromiseSums, Reject, Rejection, Span, Tag, Wake,
};
use weir_verify::audit::random::{RandomDecisions, record};
use weir_verify::audit::{Audit, Violations};

/// Passes recorded runs to the auditors, with `forge` applied to each call, until they find a
/// violation.
fn audit(mut forge: impl FnMut(&Call<'_>, Instant) -> ForgedCall) -> Violations {
    // The same runs for every forgery.
    let mut seeds = RandomDecisions::new(6);
    for _ in 0..40 {
        let record = record(seeds.bits(), 2_000);
        let mut audit = None;
        let mut replay = Replay::new();
        let shown = replay.feed_watched(&record, &mut |layer, now, call| {
            let audit = audit.get_or_insert_with(|| Audit::new(layer));
            match forge(call, now) {
                ForgedCall::As => audit.call(now, call, layer),
                ForgedCall::Poll(outputs, wake) => {
                    let outputs = &outputs[..];
                    audit.call(now, &Call::Poll { outputs, wake }, layer);
                }
                ForgedCall::Submitted(result) => {
                    let Call::Submit { batch, .. } = *call else {
                        unreachable!()
                    };
                    audit.call(now, &Call::Submit { batch, result }, layer);
                }
                ForgedCall::Changed(result) => {
                    let Call::Change { edits, .. } = *call else {
                        unreachable!()
                    };
                    let result = Ok(result);
                    audit.call(now, &Call::Change { edits, result }, layer);
                }
            }
        });
        shown.expect("the record is sound");
        let mut audit = audit.expect("there are calls");
        audit.end();
        if !audit.found().is_empty() {
            return audit.into_found();
        }
    }
    Violations::default()
}

/// The call that the auditors receive instead of the recorded one.
enum ForgedCall {
    As,
    Poll(Vec<Output>, Option<Wake>),
    Submitted(Result<(), Rejection>),
    Changed(PromiseSums),
}

/// Forges the outputs of polls, one by one.
fn audit_outputs(mut forge: impl FnMut(&Output, &mut Vec<Output>)) -> Violations {
    audit(move |call, _| {
        let Call::Poll { outputs, wake } = *call else {
            return ForgedCall::As;
        };
        let mut forged = Vec::new();
        for output in outputs {
            forge(output, &mut forged);
        }
        ForgedCall::Poll(forged, wake)
    })
}

/// Forges the pieces in the outputs of polls.
fn audit_pieces(forge: impl Fn(&mut Dispatch)) -> Violations {
    audit_outputs(|output, out| {
        let mut forged = *output;
        if let Output::Dispatch(piece) = &mut forged {
            forge(piece);
        }
        out.push(forged);
    })
}

/// Removes outputs of polls.
fn audit_without(is_lost: impl Fn(&Output) -> bool) -> Violations {
    audit_outputs(|output, out| out.extend(Some(*output).filter(|o| !is_lost(o))))
}

fn first(found: &Violations) -> &'static str {
    found
        .violations()
        .first()
        .expect("something is found")
        .auditor
}

#[test]
fn unforged_runs_have_no_violations() {
    // The auditors report nothing for the recorded runs themselves.
    assert_eq!(audit(|_, _| ForgedCall::As).violations(), []);
}

#[test]
fn an_answer_that_is_lost_or_doubled_or_wrong_is_noticed_by_once() {
    let mut seen = 0;
    let mut lost = |output: &Output, out: &mut Vec<Output>| {
        // The fiftieth completion is lost, when many requests are in flight.
        seen += u32::from(matches!(output, Output::Done(_)));
        if seen != 50 || !matches!(output, Output::Done(_)) {
            out.push(*output);
        }
    };
    // The stream of the lost completion may be closed, and its slot reused, before the run ends. In
    // that case, the auditors of space or wake-ups notice the loss.
    let found = audit_outputs(&mut lost);
    let by = ["once", "room", "wake"];
    assert!(by.contains(&first(&found)), "{:?}", found.violations());
    let doubled = |output: &Output, out: &mut Vec<Output>| {
        out.push(*output);
        if let Output::Done(_) = output {
            out.push(*output);
        }
    };
    assert_eq!(first(&audit_outputs(doubled)), "once");
    for part in 0..3 {
        let wrong = |output: &Output, out: &mut Vec<Output>| match *output {
            Output::Done(mut done) => {
                match part {
                    0 => done.outcome = Outcome::Error(9),
                    1 => done.waits.limit += Span::from_nanos(1),
                    _ => done.length += 1,
                }
                out.push(Output::Done(done));
            }
            other => out.push(other),
        };
        assert_eq!(first(&audit_outputs(wrong)), "once");
    }
}

#[test]
fn a_piece_in_the_wrong_place_is_noticed_by_once() {
    for part in 0..3 {
        let wrong = |piece: &mut Dispatch| match part {
            _ if piece.op != Op::Write => {}
            0 => piece.offset += 512,
            1 => piece.length -= 1,
            _ => piece.within += 1,
        };
        assert_eq!(first(&audit_pieces(wrong)), "once");
    }
}

#[test]
fn a_tag_used_twice_is_noticed_by_tags() {
    let found = audit_pieces(|piece| piece.tag = Tag(0));
    assert_eq!(first(&found), "tags");
}

#[test]
fn lost_pause_and_resume_outputs_are_noticed_by_flow() {
    for lost in [
        |output: &Output| matches!(output, Output::Resume(_)),
        |output: &Output| matches!(output, Output::Pause(_)),
    ] {
        assert_eq!(first(&audit_without(lost)), "flow");
    }
}

#[test]
fn a_lost_flag_or_a_flush_that_is_never_sent_is_noticed_by_durability() {
    let bare = audit_pieces(|piece| piece.flags = Flags::NONE);
    assert_eq!(first(&bare), "durability");
    let is_flush = |o: &Output| matches!(o, Output::Dispatch(piece) if piece.op == Op::Flush);
    let found = audit_without(is_flush);
    // A lost flush also looks like missing work conservation.
    assert!(
        found.violations().iter().any(|v| v.auditor == "durability") || first(&found) == "conserve"
    );
}

#[test]
fn a_wake_up_that_is_too_late_or_past_is_noticed() {
    let late = |call: &Call<'_>, _| match *call {
        Call::Poll {
            outputs,
            wake: Some(wake),
        } => {
            // The wake-up is one microsecond late.
            let at = wake.at + Span::from_micros(1);
            ForgedCall::Poll(outputs.to_vec(), Some(Wake { at, ..wake }))
        }
        _ => ForgedCall::As,
    };
    // The auditor of the timer that is late notices it first.
    assert!(["wake", "ledger", "slices"].contains(&first(&audit(late))));
    let past = |call: &Call<'_>, now| match *call {
        Call::Poll {
            outputs,
            wake: Some(wake),
        } => ForgedCall::Poll(outputs.to_vec(), Some(Wake { at: now, ..wake })),
        _ => ForgedCall::As,
    };
    assert!(["wake", "ledger"].contains(&first(&audit(past))));
    let none = |call: &Call<'_>, _| match *call {
        Call::Poll { outputs, .. } => ForgedCall::Poll(outputs.to_vec(), None),
        _ => ForgedCall::As,
    };
    assert!(["wake", "ledger", "slices", "conserve"].contains(&first(&audit(none))));
}

#[test]
fn a_refusal_without_a_reason_is_noticed_by_room() {
    let refused = |call: &Call<'_>, _| match *call {
        Call::Submit { result: Ok(()), .. } => ForgedCall::Submitted(Err(Rejection {
            accepted: 0,
            reason: Reject::Full,
        })),
        _ => ForgedCall::As,
    };
    assert_eq!(first(&audit(refused)), "room");
}

#[test]
fn sums_that_are_wrong_are_noticed_by_admission() {
    let more = |call: &Call<'_>, _| match *call {
        Call::Change {
            result: Ok(promised),
            ..
        } => ForgedCall::Changed(PromiseSums {
            bytes: promised.bytes + 1,
            ..promised
        }),
        _ => ForgedCall::As,
    };
    assert_eq!(first(&audit(more)), "admission");
}

/// Each patch of a planted bug must apply to the sources, and must state the auditor or test that
/// notices the bug.
#[test]
fn planted_bugs_apply() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut patches = 0;
    for entry in fs::read_dir(package.join("mutants")).expect("it is there") {
        let patch = entry.expect("it can be read").path();
        let text = fs::read_to_string(&patch).expect("it can be read");
        let is_stated = text.starts_with("Bug: ") && text.contains("\nNoticed by: ");
        assert!(is_stated, "{} has no header", patch.display());
        let mut check = Command::new("git");
        check.args(["apply", "--check"]).arg(&patch);
        let output = check.current_dir(package.join("../..")).output();
        let output = output.expect("git is installed");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {why}", patch.display());
        patches += 1;
    }
    // A wrong directory would let the test pass without a patch.
    assert!(patches > 80, "{patches} patches");
}
