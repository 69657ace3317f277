//! Tests of `io.cost` against Linux: the same jobs of fio on the same drive, and the requests per
//! second of each.
//!
//! The figures of Linux come from Linux 6.1 as a user-mode program whose processors take no time
//! (`time-travel=inf-cpu`), with one processor, `null_blk` (`nr_devices=1 queue_mode=2 irqmode=2
//! gb=64`, one queue, `hw_queue_depth` and `completion_nsec` as in [`Drive`]), elevator `none`, and
//! fio 3.33. The command for each client is
//!
//! ```text
//! fio --thread --filename=/dev/nullb0 --direct=1 --time_based --ioengine=io_uring --ramp_time=1 --runtime=4 --size=16G
//!     --rw=randread --bs=4k --iodepth=16
//! ```
//!
//! with the options of [`Row::jobs`] instead of the last line. Each client is in a cgroup of its
//! own, in the tree and with the weights (`io.weight`) of [`Row::groups`]. The files of the root
//! cgroup are
//!
//! ```text
//! io.cost.model  DEV ctrl=user model=linear rbps=409600000 rseqiops=50000 rrandiops=20000 wbps=204800000 wseqiops=25000 wrandiops=10000
//! io.cost.qos    DEV enable=1 ctrl=user rpct=0 rlat=10000 wpct=0 wlat=10000 min=100 max=100
//! ```
//!
//! so that both sides have the same coefficients, and a drive of 160,000 requests/s is limited to
//! 20,000. Each figure is the mean of two samples, in which the start of the threads is shifted by
//! up to a millisecond. The samples differ by less than 1 %. The figure of eight groups is a single
//! sample of two seconds, with `libaio`.
//!
//! If `io_uring` finds no tag, it tries again later and is charged again, because Linux charges
//! first. Therefore, a drive that runs out of tags is measured with `libaio`.

use std::fmt::Write as _;

use super::host::{NullDrive, READS, TOP, host};
use weir_core::control::cost::{Config, Control, DonationRule};
use weir_core::testing::{AccessPattern, Client, SECOND, ms, us};
use weir_core::{GroupId, Op, Sample, SampleMask, Span};

/// An experiment with its result in Linux.
struct Row {
    name: &'static str,
    groups: &'static [(u32, u16)],
    jobs: &'static [Client],
    /// Requests per second of each job.
    linux: &'static [u64],
}

const FAST: NullDrive = NullDrive {
    tags: 16,
    service: us(100),
};

const fn at(group: u32) -> Client {
    READS.of(GroupId(group))
}

const fn paced(group: u32, rate: u64) -> Client {
    at(group).rate(rate)
}

const EQUAL: &[(u32, u16)] = &[(TOP, 100), (TOP, 100)];

const ROWS: &[Row] = &[
    Row {
        name: "1 : 1",
        groups: EQUAL,
        jobs: &[at(1), at(2)],
        linux: &[10_007, 10_008],
    },
    Row {
        name: "1 : 2",
        groups: &[(TOP, 100), (TOP, 200)],
        jobs: &[at(1), at(2)],
        linux: &[6_672, 13_344],
    },
    Row {
        name: "1 : 2 : 4",
        groups: &[(TOP, 100), (TOP, 200), (TOP, 400)],
        jobs: &[at(1), at(2), at(3)],
        linux: &[2_861, 5_719, 11_437],
    },
    Row {
        name: "two of weights 1 : 3 in a group, and one beside it",
        groups: &[(TOP, 100), (TOP, 100), (1, 100), (1, 300)],
        jobs: &[at(3), at(4), at(2)],
        linux: &[2_504, 7_506, 10_008],
    },
    Row {
        name: "one wants a tenth (--rate_iops=2000)",
        groups: EQUAL,
        jobs: &[at(1), paced(2, 2_000)],
        linux: &[18_062, 2_000],
    },
    Row {
        name: "seven of eight want a twentieth each (--rate_iops=1000)",
        groups: &[(TOP, 100); 8],
        jobs: &[
            at(1),
            paced(2, 1_000),
            paced(3, 1_000),
            paced(4, 1_000),
            paced(5, 1_000),
            paced(6, 1_000),
            paced(7, 1_000),
            paced(8, 1_000),
        ],
        linux: &[13_398, 999, 999, 999, 999, 999, 999, 999],
    },
    Row {
        name: "seven of eight want a two-hundredth each (--rate_iops=100)",
        groups: &[(TOP, 100); 8],
        jobs: &[
            at(1),
            paced(2, 100),
            paced(3, 100),
            paced(4, 100),
            paced(5, 100),
            paced(6, 100),
            paced(7, 100),
            paced(8, 100),
        ],
        linux: &[20_541, 100, 100, 100, 100, 100, 100, 100],
    },
    Row {
        name: "one in a group wants a twentieth (--rate_iops=1000)",
        groups: &[(TOP, 100), (TOP, 100), (1, 100), (1, 100)],
        jobs: &[paced(3, 1_000), at(4), at(2)],
        linux: &[1_000, 6_345, 12_689],
    },
    Row {
        name: "one rests half of the time (--thinktime=500000 --thinktime_blocks=5000)",
        groups: EQUAL,
        jobs: &[at(1), at(2).rest(5_000, ms(500))],
        linux: &[13_729, 5_586],
    },
    Row {
        name: "one after the other (--rw=read) beside random",
        groups: EQUAL,
        jobs: &[at(1).place(AccessPattern::Sequential), at(2)],
        linux: &[24_675, 10_007],
    },
    Row {
        name: "64 KiB (--bs=64k) beside 4 KiB",
        groups: EQUAL,
        jobs: &[at(1).length(65_536), at(2)],
        linux: &[2_501, 10_008],
    },
    Row {
        name: "writes (--rw=randwrite) beside reads",
        groups: EQUAL,
        jobs: &[at(1).op(Op::Write), at(2)],
        linux: &[5_005, 10_008],
    },
];

/// Returns a configuration with the coefficients and targets of the experiments.
pub(crate) fn config(rrandiops: u64, pct: u32, min: u32, max: u32) -> Config {
    Config {
        qos: Control::User,
        rpct: pct,
        rlat: Span::from_millis(10),
        wpct: pct,
        wlat: Span::from_millis(10),
        min,
        max,
        model: Control::User,
        rbps: 409_600_000,
        rseqiops: 50_000,
        rrandiops,
        wbps: 204_800_000,
        wseqiops: 25_000,
        wrandiops: 10_000,
        tick: Span::from_millis(4),
        donation: DonationRule::Tree,
        kept: 0,
    }
}

/// Returns true if `a` differs from `b` by no more than `percent`.
fn near(a: u64, b: u64, percent: u64) -> bool {
    a.abs_diff(b) * 100 <= b * percent
}

/// Runs an experiment and returns the requests per second of each job.
fn play(config: Config, row: &Row) -> Vec<u64> {
    play_jobs(config, row.groups, row.jobs)
}

fn play_jobs(config: Config, groups: &[(u32, u16)], jobs: &[Client]) -> Vec<u64> {
    let mut host = host(config, FAST, groups);
    for job in jobs {
        host.add(*job);
    }
    // The first second is left out, as by fio with `--ramp_time=1`.
    host.run_for(SECOND);
    host.take_done();
    host.run_for(4 * SECOND);
    host.take_done().iter().map(|n| n / 4).collect()
}

/// Checks the donation rule of Linux before 5.10. A group that needs little gets it, and the others
/// get at least a third of the remainder. The rule keeps for each group a quarter of its usage and
/// a fiftieth of the drive in reserve, and takes everything back whenever the budget of the group
/// becomes low.
#[test]
fn flat_donation_meets_small_demands_and_gives_a_third_of_the_rest() {
    let tree = config(20_000, 0, 10_000, 10_000);
    let flat = tree.donation(DonationRule::Flat);
    for row in ROWS {
        let got = play(flat, row);
        let greedy: Vec<Client> = row
            .jobs
            .iter()
            .map(|job| Client { rate: 0, ..*job })
            .collect();
        // The entitlement of each job is its rate if no job is limited.
        let entitled = play_jobs(flat, row.groups, &greedy);
        let (mut left, mut gained) = (0, 0);
        for (job, (got, entitled)) in row.jobs.iter().zip(got.iter().zip(&entitled)) {
            if job.rate > 0 {
                assert!(
                    near(*got, job.rate, 1),
                    "{}: {got} of {}",
                    row.name,
                    job.rate
                );
                left += entitled - got;
            } else {
                gained += got.saturating_sub(*entitled);
            }
        }
        // At least a third of the unused part reaches the others.
        assert!(gained * 3 >= left, "{}: {gained} of {left}", row.name);
        // If every job uses its part, there is nothing to donate, and both rules agree.
        if left == 0 {
            let tree = play(tree, row);
            let alike = got.iter().zip(&tree).all(|(a, b)| near(*a, *b, 1));
            assert!(alike, "{}: {got:?}, {tree:?}", row.name);
        }
    }
}

#[test]
fn groups_get_within_10_percent_of_their_service_in_linux() {
    let mut table = String::new();
    let mut worst = 0;
    for row in ROWS {
        let ours = play(config(20_000, 0, 10_000, 10_000), row);
        for (ours, linux) in ours.iter().zip(row.linux) {
            worst = worst.max(ours.abs_diff(*linux) * 1_000 / linux);
        }
        writeln!(table, "{}: {ours:?}, Linux {:?}", row.name, row.linux).unwrap();
    }
    println!("{table}");
    assert!(worst <= 100, "{worst} thousandths away:\n{table}");
}

/// Samples `vrate` every 100 ms, as Linux was sampled, and measures the rates at the end.
fn vrates(config: Config, drive: NullDrive, samples: usize) -> (Vec<u32>, Vec<u64>) {
    let mut host = host(config, drive, &[(TOP, 100), (TOP, 300)]);
    host.add(at(1));
    host.add(at(2));
    let mut vrates = Vec::new();
    for _ in 0..samples {
        host.run_for(ms(100));
        let rate = host
            .samples(SampleMask::GROUPS)
            .into_iter()
            .find_map(|s| match s {
                Sample::Rate { vrate, .. } => Some(vrate),
                _ => None,
            });
        vrates.push(rate.expect("io.cost is there"));
    }
    // The rates are measured after `vrate` has settled.
    host.run_for(2 * SECOND);
    host.take_done();
    host.run_for(4 * SECOND);
    (vrates, host.take_done().iter().map(|n| n / 4).collect())
}

/// Compares `vrate` and the final rates with those of Linux, with a tolerance of 10 %.
fn hold_against(run: (Vec<u32>, Vec<u64>), vrates: &[u32], rates: &[u64]) {
    let (our_vrates, our_rates) = run;
    println!("{our_vrates:?}, Linux {vrates:?}; {our_rates:?}, Linux {rates:?}");
    for (ours, linux) in our_vrates.iter().zip(vrates) {
        assert!(near((*ours).into(), (*linux).into(), 10), "{our_vrates:?}");
    }
    for (ours, linux) in our_rates.iter().zip(rates) {
        assert!(near(*ours, *linux, 10), "{our_rates:?}");
    }
}

/// The samples of `vrate` in Linux for [`vrate_rises_as_linuxs_does`].
const RISES: [u32; 12] = [
    10_100, 10_510, 10_937, 11_382, 11_961, 13_206, 14_295, 15_473, 17_412, 20_370, 25_699, 37_760,
];

/// The settings of Linux were `rrandiops=1000 wrandiops=1000` and `rpct=95 wpct=95 min=50 max=400`,
/// on the drive above, which is 16 times as fast as the model states. Linux's `cost.vrate` was
/// sampled every 100 ms, from the first value other than 100.00 on. The rates are requests per
/// second at the end, with the weights 1 : 3.
#[test]
fn vrate_rises_as_linuxs_does() {
    let run = vrates(config(1_000, 9_500, 5_000, 40_000), FAST, RISES.len());
    hold_against(run, &RISES, &[1_000, 3_000]);
}

/// The samples of `vrate` in Linux for [`vrate_falls_as_linuxs_does`].
const FALLS: [u32; 13] = [
    9_900, 9_510, 9_135, 8_776, 8_345, 7_543, 6_958, 6_418, 5_681, 4_825, 3_764, 2_500, 2_500,
];

/// The settings of Linux were `rrandiops=600 wrandiops=600` and `rpct=95 wpct=95 min=25 max=200`,
/// with `completion_nsec=20000000`, so that every request misses its target of 10 ms.
#[test]
fn vrate_falls_as_linuxs_does() {
    let drive = NullDrive {
        tags: 16,
        service: ms(20),
    };
    let run = vrates(config(600, 9_500, 2_500, 20_000), drive, FALLS.len());
    hold_against(run, &FALLS, &[38, 114]);
}

/// The samples of `vrate` in Linux for [`vrate_settles_where_tags_suffice`].
const SETTLES: [u32; 12] = [
    9_900, 9_510, 9_135, 8_776, 8_345, 7_543, 6_958, 6_418, 5_681, 4_825, 3_764, 2_481,
];

/// The settings of Linux were `rrandiops=8000 wrandiops=8000` and `rpct=95 wpct=95 min=10 max=200`,
/// with `hw_queue_depth=4 completion_nsec=1000000` and `libaio`. The drive is half as fast as the
/// model states, so requests wait for tags.
#[test]
fn vrate_settles_where_tags_suffice() {
    let drive = NullDrive {
        tags: 4,
        service: ms(1),
    };
    let run = vrates(config(8_000, 9_500, 1_000, 20_000), drive, SETTLES.len());
    hold_against(run, &SETTLES, &[763, 2_329]);
}
