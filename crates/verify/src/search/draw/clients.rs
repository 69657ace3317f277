//! Draws clients, their groups, and their programs.

use super::dice::Dice;
use crate::search::case::{KINDS, SearchCase, max_bandwidth};
use weir_core::{Class, Contract, GroupId, Knobs, ROOT, Span};
use weir_model::load::{Arrival, Pattern, Program, Size, SyncMode};
use weir_sim::GroupSpec;

/// The maximum number of different programs in a case, without those of realtime clients and
/// clones.
const PROGRAMS: u64 = 6;

/// Adds clients with a few different programs. Most are in a group of their own, and some share a
/// tenant.
pub(super) fn add(dice: &mut Dice, case: &mut SearchCase) {
    let number = match dice.range(0, 49) {
        // One case in fifty has many clients.
        0 => dice.range(41, 200),
        _ => dice.log(2, 40),
    };
    let size = space(dice, case, number.max(8) + 8);
    let kind = case.kind();
    let programs: Vec<(Program, bool)> = (0..dice.range(1, PROGRAMS))
        .map(|_| program(dice, kind))
        .collect();
    let even_shares = dice.chance(1, 2);
    let tenants = if dice.chance(1, 5) {
        dice.range(1, 2)
    } else {
        0
    };
    let mut left = if case.clones { number.min(6) } else { number };
    if case.clones {
        clones(dice, case, kind, size);
    }
    for _ in 0..tenants {
        let members = dice.range(2, 4).min(left);
        let tenant = group(dice, case, ROOT, even_shares);
        for _ in 0..members {
            let member = group(dice, case, tenant, even_shares);
            client(dice, case, &programs, member, size);
        }
        left -= members;
        // A tenant without members would be a group without clients.
        if members == 0 {
            case.scenario.groups.pop();
        }
    }
    while left > 0 {
        let own = group(dice, case, ROOT, even_shares);
        if !case.clones && dice.chance(1, 8) {
            let limit = dice.log(
                200,
                if KINDS[kind] == "hdd" {
                    20_000
                } else {
                    200_000
                },
            );
            let max = &mut case.group_mut(own).contract.max;
            *max = max_bandwidth(limit * 1000);
            max.burst = Span::from_millis(*dice.pick(&[0, 0, 10, 100]));
        }
        // Some groups have several streams.
        let streams = if dice.chance(1, 20) { left.min(3) } else { 1 };
        for _ in 0..streams {
            client(dice, case, &programs, own, size);
        }
        left -= streams;
    }
    add_special_clients(dice, case, kind, size);
}

/// Adds clients that differ only in their shares, with queue depths that use the drive fully.
fn clones(dice: &mut Dice, case: &mut SearchCase, kind: usize, size: u64) {
    let (mut program, _) = program(dice, kind);
    program.arrival = Arrival::Closed { think: Span::ZERO };
    (program.start, program.stop) = (Span::ZERO, None);
    program.depth = *dice.pick(&[8, 16, 32, 64]);
    program.sync = SyncMode::Never;
    for _ in 0..dice.range(2, 3) {
        let own = group(dice, case, ROOT, true);
        case.group_mut(own).contract.share = *dice.pick(&[50, 100, 100, 200, 300, 500]);
        case.add(own, (program, false), size);
    }
}

/// Adds realtime clients and one of the idle class, each in a sixth of the cases.
fn add_special_clients(dice: &mut Dice, case: &mut SearchCase, kind: usize, size: u64) {
    if dice.chance(1, 6) {
        for _ in 0..dice.range(1, 2) {
            let (mut program, buffered) = program(dice, kind);
            // A realtime client with a deep queue would mostly wait for itself.
            program.depth = if buffered { 1 } else { program.depth.min(4) };
            if !buffered {
                program.sync = SyncMode::Never;
            }
            let own = group(dice, case, ROOT, true);
            // Its max is set once its bandwidth without contention is known.
            case.group_mut(own).contract.class = Class::Realtime;
            case.add(own, (program, buffered), size);
        }
    }
    if dice.chance(1, 6) {
        let (program, buffered) = program(dice, kind);
        let own = group(dice, case, ROOT, true);
        case.group_mut(own).contract.class = Class::Idle;
        case.add(own, (program, buffered), size);
    }
}

pub(super) fn group(
    dice: &mut Dice,
    case: &mut SearchCase,
    parent: GroupId,
    even: bool,
) -> GroupId {
    let share = if even { 100 } else { dice.log(1, 1000) as u16 };
    case.scenario.groups.push(GroupSpec {
        parent,
        contract: Contract::DEFAULT.share(share),
        knobs: Knobs::NONE,
    });
    GroupId(case.scenario.groups.len() as u32)
}

fn client(
    dice: &mut Dice,
    case: &mut SearchCase,
    programs: &[(Program, bool)],
    group: GroupId,
    size: u64,
) {
    let (mut program, buffered) = *dice.pick(programs);
    let millis = case.seconds() * 1000;
    let (mut arrives, mut leaves) = (Span::ZERO, None);
    match dice.range(0, 39) {
        0 | 1 => arrives = Span::from_millis(dice.range(1, millis / 2)),
        2 => leaves = Some(Span::from_millis(dice.range(millis / 2, millis - 1))),
        // A burst: the client is active for at least half a second.
        3 | 4 => {
            let start = dice.range(0, millis - 1000);
            program.start = Span::from_millis(start);
            program.stop = Some(Span::from_millis(dice.range(start + 500, millis)));
        }
        _ => {}
    }
    let client = case.add(group, (program, buffered), size);
    (client.arrives, client.leaves) = (arrives, leaves);
}

/// Draws a program, and whether it uses the page cache.
fn program(dice: &mut Dice, kind: usize) -> (Program, bool) {
    // From 4 KiB to 1 MiB.
    let bytes = 4096 << dice.range(0, 8);
    let size = if dice.chance(1, 10) {
        Size::Range {
            min: 4096,
            max: bytes.max(8192) as u32,
            step: 4096,
        }
    } else {
        Size::Fixed(bytes as u32)
    };
    let pattern = dice.weighted(&[
        (5, Pattern::Random),
        (5, Pattern::Sequential),
        (1, Pattern::ZIPF),
    ]);
    let mut program = Program {
        pattern,
        writes: dice.weighted(&[(5, 0), (2, 100), (1, 50), (1, 30), (1, 5)]),
        size,
        depth: dice.log(1, 64) as u32,
        arrival: arrival(dice, kind),
        ..Program::random_reads(4096, 1)
    };
    if program.writes > 0 {
        program.fua = dice.chance(1, 12);
        let every = dice.log(1, 64) as u32;
        program.sync = dice.weighted(&[
            (8, SyncMode::Never),
            (1, SyncMode::Flush(every)),
            (1, SyncMode::Fdatasync(every)),
        ]);
    }
    let closed = matches!(program.arrival, Arrival::Closed { .. });
    let buffered = closed && pattern != Pattern::ZIPF && dice.chance(1, 10);
    if buffered {
        // A process without direct I/O has one request at a time and no FUA.
        program.depth = 1;
        program.fua = false;
        program.sync = match program.sync {
            SyncMode::Never if program.writes > 0 => SyncMode::Fdatasync(dice.log(1, 64) as u32),
            // A buffered process calls `fdatasync` and waits for it.
            SyncMode::Flush(every) => SyncMode::Fdatasync(every),
            sync => sync,
        };
    }
    (program, buffered)
}

fn arrival(dice: &mut Dice, kind: usize) -> Arrival {
    // The largest rate of an open loop, in requests per second, by kind of drive.
    let most = [20_000, 20_000, 200][kind];
    let interval = Span::from_micros(1_000_000 / dice.log(5, most));
    match dice.range(0, 19) {
        0..=12 => Arrival::Closed { think: Span::ZERO },
        13..=16 => Arrival::Closed {
            think: dice.micros(10, 5_000),
        },
        17 | 18 => Arrival::Poisson { interval },
        _ => Arrival::Even { interval },
    }
}

/// Draws the size of each client's space in bytes, so that all spaces fit on the drive.
pub(super) fn space(dice: &mut Dice, case: &SearchCase, clients: u64) -> u64 {
    let most = match case.scenario.drive.size() {
        Some(size) => size / clients,
        None => 16 << 30,
    };
    // The largest value stands for all of the client's part of the drive.
    let drawn = *dice.pick(&[256 << 20, 1 << 30, 4 << 30, u64::MAX]);
    // Whole MiB, which a scenario's file can contain.
    drawn.min(most) >> 20 << 20
}
