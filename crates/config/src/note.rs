//! What promises come to that admission accepts: it cannot know what clients will ask for, and their requests decide it.

use crate::admission::scratch;
use crate::measured::rounded;
use crate::plan::{plan, written_edits};
use crate::problem::Problem;
use crate::server::{Drive, Server};
use crate::storage::Storage;
use crate::text::{join, path};
use crate::units::{Rate, Size};
use weir_core::{Capacity, Contract, Instant, Op, Promised, elevator};
use weir_model::drive::Config;

/// The request that a drive's requests a second are stated of, bytes.
const SMALL: u64 = 4096;

/// What the promises of each drive whose requests a second are known come to at random places: the shortest requests that promises in
/// bytes are kept for, and the longest that promises in requests are. The drive as a whole is meant: what is promised to all together,
/// everyone asking for the like, as many at a time as the drive takes. Before that, for which requests a contract's own max leaves its min,
/// and the drives that are not said to be servers across a network.
pub fn notes(server: &Server) -> Vec<Problem> {
    let near = server.drives.iter().filter_map(|drive| near(server, drive));
    // Under another policy no promise is kept, which is a warning.
    let drives = server.drives.iter().filter(|d| d.policy.keeps_min());
    let own = within_max(server);
    let of = |drive: &Drive| {
        let promised = promised(server, drive)?;
        let texts = [in_bytes(promised, drive), in_requests(promised, drive)];
        let key = path("drive", &drive.name);
        let note = move |(what, help): (String, &str)| {
            server.places.problem(&key, what, Some(help.to_owned()))
        };
        Some(texts.into_iter().flatten().map(note))
    };
    own.chain(near)
        .chain(drives.filter_map(of).flatten())
        .collect()
}

/// A drive with volumes of other servers that is taken for one of this machine.
fn near(server: &Server, drive: &Drive) -> Option<Problem> {
    let mut volumes = server.volumes_of(&drive.name);
    let volume = volumes.find(|v| matches!(v.storage, Storage::Nbd(_)))?;
    let at = path("drive", &drive.name);
    let help = match drive.policy.elevator {
        _ if drive.policy.is_remote() => return None,
        elevator::Config::Contract(_) => {
            "set how much the drive can have in flight, for example contract = { remote = \"30ms\" }, about twice the time of a request there"
        }
        _ if server.places.keys.contains_key(&join(&at, "tags")) => return None,
        _ => {
            "set how many requests the drive can have in flight, for example tags = 256, and how long they can be, for example max_transfer = \"1280KiB\""
        }
    };
    let volume = path("volume", &volume.name);
    let what = format!("is treated as a local drive, but {volume} is on another server");
    Some(server.places.problem(&at, what, Some(help.to_owned())))
}

/// The contracts whose max leaves their min to some requests only.
fn within_max(server: &Server) -> impl Iterator<Item = Problem> {
    server.contracted().filter_map(|owner| {
        let drive = server.drive(owner.drive)?;
        let (key, what) = own_max(owner.contract).filter(|_| drive.policy.keeps_min())?;
        let help = "set min and max both in bytes or both in requests".to_owned();
        Some(server.problem(&join(&owner.path, key), what, Some(help)))
    })
}

/// For which requests a max in bytes leaves a min in requests, or the other way round, if not for those of 4 KiB.
fn own_max(contract: &Contract) -> Option<(&'static str, String)> {
    let (bytes, iops) = (contract.max.bytes_ceiling(), contract.max.iops_ceiling());
    let (min, requests) = (contract.min, contract.min_iops);
    if requests > 0 && bytes > 0 && bytes / requests < SMALL {
        let length = Size(bytes / requests / 512 * 512);
        let what = format!("its max permits {requests} requests/s only up to {length} each");
        Some(("min_iops", what))
    } else if min > 0 && iops > 0 && min.div_ceil(iops) > SMALL {
        let length = Size(min.div_ceil(iops).next_multiple_of(512));
        let what = format!(
            "its max permits {} only in requests of at least {length}",
            Rate(min)
        );
        Some(("min", what))
    } else {
        None
    }
}

/// A direction.
#[derive(Clone, Copy)]
struct Kind {
    /// What its requests are called.
    name: &'static str,
    op: Op,
    /// How many of 4 KiB at random places are done in a second, and how many bytes in sequence.
    requests: u64,
    rate: u64,
}

/// The shortest requests, in bytes and whole 4 KiB, that come to what is promised in bytes: what a request has beyond 4 KiB is counted as
/// moved at the rate of a sequence. `None` if there are none that do.
fn kept_from(promised: Promised, kind: Kind) -> Option<u64> {
    let [bytes, beside, requests, rate] =
        [promised.bytes, promised.iops, kind.requests, kind.rate].map(|n| n as f64);
    // s bytes take 1 / requests + (s - SMALL) / rate seconds of those that the promised requests leave.
    let left = 1.0 - beside / requests - bytes / rate;
    let small = SMALL as f64;
    let length = bytes * (1.0 / requests - small / rate) / left;
    (left > 0.0 && length.is_finite()).then(|| {
        let blocks = (length / small).ceil().max(1.0);
        (blocks as u64).saturating_mul(SMALL)
    })
}

/// [`kept_from`] on a modelled drive, which is asked: longer writes find less room in a cache to be put in order in.
fn kept_from_on(model: &Config, promised: Promised, kind: Kind) -> Option<u64> {
    let mut length = kept_from(promised, kind)?;
    let left = 1.0 - promised.iops as f64 / kind.requests as f64;
    // Beyond that, a request reaches the drive in parts that lie side by side.
    while length < model.shape().max_transfer.into() {
        let rate = model.at_random(kind.op, length as u32).ok()?;
        if rate as f64 * length as f64 * left >= promised.bytes as f64 {
            break;
        }
        length += (length / 16).next_multiple_of(SMALL);
    }
    Some(length)
}

/// The longest requests of which `promised.iops` a second are done at random places, as [`kept_from`] counts.
fn kept_to(promised: Promised, kind: Kind) -> u64 {
    let [bytes, count, requests, rate] =
        [promised.bytes, promised.iops, kind.requests, kind.rate].map(|n| n as f64);
    let each = (1.0 - bytes / rate) / count - 1.0 / requests;
    let blocks = (each * rate / SMALL as f64).floor().max(0.0);
    (blocks as u64).saturating_add(1).saturating_mul(SMALL)
}

/// Both directions as far as their requests are known; one for both if they are alike.
fn kinds(capacity: Capacity) -> Vec<Kind> {
    let of = |name, op, own: u64, rate| {
        // What is stated of the direction itself says more than what is stated of any.
        let requests = if own > 0 { own } else { capacity.iops };
        (requests > 0).then_some(Kind {
            name,
            op,
            requests,
            rate,
        })
    };
    let reads = of("reads", Op::Read, capacity.read_iops, capacity.read);
    let writes = of("writes", Op::Write, capacity.write_iops, capacity.write);
    match (reads, writes) {
        (Some(r), Some(w)) if (r.requests, r.rate) == (w.requests, w.rate) => vec![Kind {
            name: "requests",
            ..w
        }],
        (reads, writes) => reads.into_iter().chain(writes).collect(),
    }
}

/// What is promised in bytes, if small requests at random places do not come to it.
fn in_bytes(promised: Promised, drive: &Drive) -> Option<(String, &'static str)> {
    let parts: Vec<String> = kinds(drive.capacity?)
        .into_iter()
        .filter_map(|kind| {
            let name = kind.name;
            let length = match &drive.model {
                Some(model) => kept_from_on(model, promised, kind),
                None => kept_from(promised, kind),
            };
            let length = length.filter(|l| *l > SMALL)?;
            let left = kind.requests.saturating_sub(promised.iops);
            let left = left.saturating_mul(SMALL);
            Some(format!(
                "\n  {name} of at least {}; those of 4KiB get {}",
                Size(length),
                Rate(rounded(left))
            ))
        })
        .collect();
    let help = "set min_iops for a client that sends small random requests";
    let all = Rate(promised.bytes);
    (promised.bytes > 0 && !parts.is_empty()).then(|| {
        let what = format!(
            "for random requests, the {all} promised in bytes are guaranteed only for{}",
            parts.concat()
        );
        (what, help)
    })
}

/// What is promised in requests, if long ones at random places are fewer. What is longer than the drive takes reaches
/// it in parts.
fn in_requests(promised: Promised, drive: &Drive) -> Option<(String, &'static str)> {
    let parts: Vec<String> = kinds(drive.capacity?)
        .into_iter()
        .filter(|_| promised.iops > 0)
        .map(|kind| (kind.name, kept_to(promised, kind)))
        .filter(|part| part.1 < drive.max_transfer.into())
        .map(|(name, length)| format!("\n  {name} of up to {}", Size(length)))
        .collect();
    let help = "set min, in bytes, for a client that sends long requests";
    (!parts.is_empty()).then(|| {
        let what = format!(
            "for random requests, the {} requests/s promised are guaranteed only for{}",
            promised.iops,
            parts.concat()
        );
        (what, help)
    })
}

/// What a drive's contracts add up to as they are written, whatever its policy makes of them.
pub fn promised(server: &Server, drive: &Drive) -> Option<Promised> {
    let plan = plan(server, &drive.name)?;
    let mut layer = scratch(&plan.config).ok()?;
    let edits = written_edits(server, &plan);
    layer.change(Instant::ZERO, &edits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    #[test]
    fn nothing_is_said_of_requests_where_none_are_promised() {
        let text = "listen.nbd = [\"127.0.0.1:0\"]\n[drive.d]\ncapacity = { read = \"100MB/s\", write = \"100MB/s\", iops = 1000 }";
        let server = crate::parse("", text).unwrap();
        let of = |bytes, iops| {
            let promised = Promised::rates(bytes, iops);
            in_requests(promised, &server.drives[0]).is_some()
        };
        assert!(of(50_000_000, 400));
        assert!(!of(50_000_000, 0));
        assert!(!of(100_000_001, 0), "more than the drive does");
    }

    #[test]
    fn a_max_in_the_other_currency_says_which_requests_it_leaves() {
        let of = |min, min_iops, bandwidth, iops| {
            let max = weir_core::Max {
                bandwidth,
                iops,
                ..weir_core::Max::NONE
            };
            own_max(
                &Contract::DEFAULT
                    .with_min(min)
                    .with_min_iops(min_iops)
                    .with_max(max),
            )
        };
        let said = |key: &'static str, text: &str| Some((key, text.to_owned()));
        let requests = "its max permits 1000 requests/s only up to 2KiB each";
        assert_eq!(of(0, 1000, 2_500_000, 0), said("min_iops", requests));
        assert_eq!(of(0, 1000, 4_096_000, 0), None);
        let bytes = "its max permits 10MB/s only in requests of at least 98KiB";
        assert_eq!(of(10_000_000, 0, 0, 100), said("min", bytes));
        assert_eq!(of(409_600, 0, 0, 100), None);
        assert_eq!(of(10_000_000, 0, 20_000_000, 0), None);
    }

    /// What the drive itself does says which lengths come to a promise, and those just below do not.
    #[test]
    fn a_modelled_drive_is_asked_how_long_requests_must_be() {
        let disk = profile::find("hitachi-hts72755").unwrap().drive;
        for op in [Op::Read, Op::Write] {
            let requests = disk.at_random(op, SMALL as u32).unwrap();
            let kind = Kind {
                name: "requests",
                op,
                requests,
                rate: 100_000_000,
            };
            let mut lengths = Vec::new();
            for (bytes, iops) in [
                (2_000_000, 0),
                (2_000_000, requests / 4),
                (2_000_000, requests / 2),
                (5_000_000, 0),
                (5_000_000, requests / 3),
            ] {
                let promised = Promised::rates(bytes, iops);
                let length = kept_from_on(&disk, promised, kind).unwrap();
                let left = (requests - iops) as f64 / requests as f64;
                let comes_to = |length: u64| {
                    disk.at_random(op, length as u32).unwrap() as f64 * length as f64 * left
                };
                assert_eq!(length % SMALL, 0);
                assert!(
                    comes_to(length) >= bytes as f64,
                    "{op:?} {promised:?} {length}"
                );
                let least = kept_from(promised, kind).unwrap();
                // It grows by a sixteenth at a time.
                let before = length - (length / 17).next_multiple_of(SMALL);
                assert!(
                    length == least || comes_to(before - SMALL) < bytes as f64,
                    "{op:?} {promised:?} {length}"
                );
                lengths.push(length);
            }
            assert!(lengths[..3].is_sorted_by(|a, b| a < b), "{lengths:?}");
            assert!(lengths[3..].is_sorted_by(|a, b| a < b), "{lengths:?}");
        }
    }

    #[test]
    fn what_is_promised_beside_leaves_less_time() {
        let kind = Kind {
            name: "requests",
            op: Op::Read,
            requests: 100,
            rate: 409_600_000,
        };
        let of = |bytes, iops| Promised::rates(bytes, iops);
        // A request takes 9.99 ms and 10 us for each 4 KiB, in what the bytes at their own rate leave of a second.
        assert_eq!(kept_from(of(400_000, 0), kind), Some(SMALL));
        assert_eq!(kept_from(of(41_000_000, 0), kind), Some(112 * SMALL));
        assert_eq!(kept_from(of(41_000_000, 50), kind), Some(251 * SMALL));
        assert_eq!(kept_from(of(41_000_000, 90), kind), None);
        assert_eq!(kept_from(of(409_600_000, 0), kind), None);
        assert_eq!(kept_to(of(0, 60), kind), 667 * SMALL);
        assert_eq!(kept_to(of(41_000_000, 60), kind), 500 * SMALL);
        assert_eq!(kept_to(of(0, 200), kind), SMALL);
    }
}
