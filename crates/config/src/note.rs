//! Notes on promises that admission accepts but that are kept only for some sizes of requests,
//! which only clients determine.

use crate::admission::scratch_layer;
use crate::measured::rounded;
use crate::plan::{plan, written_edits};
use crate::problem::Problem;
use crate::server::{Server, ServerDrive};
use crate::storage::Storage;
use crate::text::{join, path};
use crate::units::{ByteSize, BytesPerSecond};
use weir_core::{Capacity, Contract, Instant, Op, PromiseSums, elevator};
use weir_model::drive::DriveConfig;

/// The size of requests in bytes that a drive's requests per second refer to.
const SMALL: u64 = 4096;

/// Returns the notes on a server's promises.
///
/// For a drive whose requests per second are known, a note states the size of random requests for
/// which its promises are kept: the minimum size for promises in bytes, and the maximum size for
/// promises in requests. It concerns the drive as a whole, with the sum of all promises, if all
/// clients send similar requests and use the drive's whole queue depth.
///
/// Further notes concern contracts whose max permits their min only for some requests, and drives
/// with remote volumes that are not declared as remote.
pub fn notes(server: &Server) -> Vec<Problem> {
    let near = server
        .drives
        .iter()
        .filter_map(|drive| treated_as_local(server, drive));
    // Other policies keep no promise, about which `warnings` warns.
    let drives = server.drives.iter().filter(|d| d.policy.keeps_min());
    let own = within_max(server);
    let of = |drive: &ServerDrive| {
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

/// Returns a note on a drive with remote volumes that is treated as local.
fn treated_as_local(server: &Server, drive: &ServerDrive) -> Option<Problem> {
    let mut volumes = server.volumes_of(&drive.name);
    let volume = volumes.find(|v| matches!(v.storage, Storage::Nbd(_)))?;
    let at = path("drive", &drive.name);
    let help = match drive.policy.elevator {
        _ if drive.policy.is_remote() => return None,
        elevator::Config::Contract(_) => {
            "set how much the drive can have in flight, for example contract = { remote = \"30ms\" }, about twice the time of a request there"
        }
        // If the file states the queue depth, the user has already chosen one.
        _ if server.places.keys.contains_key(&join(&at, "tags")) => return None,
        _ => {
            "set how many requests the drive can have in flight, for example tags = 256, and how long they can be, for example max_transfer = \"1280KiB\""
        }
    };
    let volume = path("volume", &volume.name);
    let what = format!("is treated as a local drive, but {volume} is on another server");
    Some(server.places.problem(&at, what, Some(help.to_owned())))
}

/// Returns notes on contracts whose max permits their min only for some requests.
fn within_max(server: &Server) -> impl Iterator<Item = Problem> {
    server.contracted().filter_map(|owner| {
        let drive = server.drive(owner.drive)?;
        let (key, what) = max_conflict(owner.contract).filter(|_| drive.policy.keeps_min())?;
        let help = "set min and max both in bytes or both in requests".to_owned();
        Some(server.problem(&join(&owner.path, key), what, Some(help)))
    })
}

/// Returns the key of a min, and a note if the max permits that min only for some sizes of
/// requests. It occurs if one is in bytes and the other in requests. There is no note if the min is
/// possible with requests of 4 KiB.
fn max_conflict(contract: &Contract) -> Option<(&'static str, String)> {
    let (bytes, iops) = (contract.max.bytes_ceiling(), contract.max.iops_ceiling());
    let (min, requests) = (contract.min, contract.min_iops);
    if requests > 0 && bytes > 0 && bytes / requests < SMALL {
        // Requests are multiples of a sector.
        let length = ByteSize(bytes / requests / 512 * 512);
        let what = format!("its max permits {requests} requests/s only up to {length} each");
        Some(("min_iops", what))
    } else if min > 0 && iops > 0 && min.div_ceil(iops) > SMALL {
        let length = ByteSize(min.div_ceil(iops).next_multiple_of(512));
        let what = format!(
            "its max permits {} only in requests of at least {length}",
            BytesPerSecond(min)
        );
        Some(("min", what))
    } else {
        None
    }
}

/// A kind of requests with the drive's capacity for it.
#[derive(Clone, Copy)]
struct RequestKind {
    /// The name of the requests in messages.
    name: &'static str,
    op: Op,
    /// The number of random requests of 4 KiB per second.
    requests: u64,
    /// The number of sequential bytes per second.
    rate: u64,
}

/// Returns the minimum size of requests that keeps the promises in bytes. The result is in bytes
/// and rounded up to 4 KiB. The part of a request beyond 4 KiB counts at the sequential rate.
/// `None` if no size suffices.
fn minimum_request_size(promised: PromiseSums, kind: RequestKind) -> Option<u64> {
    let [bytes, beside, requests, rate] =
        [promised.bytes, promised.iops, kind.requests, kind.rate].map(|n| n as f64);
    // A request of s bytes takes 1 / requests + (s - SMALL) / rate seconds, in the part of each
    // second that the promised requests leave.
    let left = 1.0 - beside / requests - bytes / rate;
    let small = SMALL as f64;
    let length = bytes * (1.0 / requests - small / rate) / left;
    (left > 0.0 && length.is_finite()).then(|| {
        let blocks = (length / small).ceil().max(1.0);
        (blocks as u64).saturating_mul(SMALL)
    })
}

/// Returns the result of [`minimum_request_size`] for a modelled drive. The model is run for each
/// size, because longer writes leave less space in its write cache for reordering.
fn minimum_request_size_on(
    model: &DriveConfig,
    promised: PromiseSums,
    kind: RequestKind,
) -> Option<u64> {
    let mut length = minimum_request_size(promised, kind)?;
    let left = 1.0 - promised.iops as f64 / kind.requests as f64;
    // A longer request reaches the drive in adjacent commands.
    while length < model.shape().max_transfer.into() {
        let rate = model.random_rate(kind.op, length as u32).ok()?;
        if rate as f64 * length as f64 * left >= promised.bytes as f64 {
            break;
        }
        length += (length / 16).next_multiple_of(SMALL);
    }
    Some(length)
}

/// Returns the maximum size of random requests that still lets the drive complete `promised.iops`
/// per second, with the cost model of [`minimum_request_size`].
fn maximum_request_size(promised: PromiseSums, kind: RequestKind) -> u64 {
    let [bytes, count, requests, rate] =
        [promised.bytes, promised.iops, kind.requests, kind.rate].map(|n| n as f64);
    let each = (1.0 - bytes / rate) / count - 1.0 / requests;
    let blocks = (each * rate / SMALL as f64).floor().max(0.0);
    (blocks as u64).saturating_add(1).saturating_mul(SMALL)
}

/// Returns reads and writes as far as their requests per second are known, or one kind if both are
/// equal.
fn kinds(capacity: Capacity) -> Vec<RequestKind> {
    let of = |name, op, own: u64, rate| {
        // The figure for one direction is more precise than that for requests of any kind.
        let requests = if own > 0 { own } else { capacity.iops };
        (requests > 0).then_some(RequestKind {
            name,
            op,
            requests,
            rate,
        })
    };
    let reads = of("reads", Op::Read, capacity.read_iops, capacity.read);
    let writes = of("writes", Op::Write, capacity.write_iops, capacity.write);
    match (reads, writes) {
        // A single line suffices if both directions are equal.
        (Some(r), Some(w)) if (r.requests, r.rate) == (w.requests, w.rate) => vec![RequestKind {
            name: "requests",
            ..w
        }],
        (reads, writes) => reads.into_iter().chain(writes).collect(),
    }
}

/// Returns a note if small random requests do not reach the sum of the promises in bytes.
fn in_bytes(promised: PromiseSums, drive: &ServerDrive) -> Option<(String, &'static str)> {
    let parts: Vec<String> = kinds(drive.capacity?)
        .into_iter()
        .filter_map(|kind| {
            let name = kind.name;
            let length = match &drive.model {
                Some(model) => minimum_request_size_on(model, promised, kind),
                None => minimum_request_size(promised, kind),
            };
            // If requests of 4 KiB suffice, there is nothing to note.
            let length = length.filter(|l| *l > SMALL)?;
            let left = kind.requests.saturating_sub(promised.iops);
            let left = left.saturating_mul(SMALL);
            Some(format!(
                "\n  {name} of at least {}; those of 4KiB get {}",
                ByteSize(length),
                BytesPerSecond(rounded(left))
            ))
        })
        .collect();
    let help = "set min_iops for a client that sends small random requests";
    let all = BytesPerSecond(promised.bytes);
    (promised.bytes > 0 && !parts.is_empty()).then(|| {
        let what = format!(
            "for random requests, the {all} promised in bytes are guaranteed only for{}",
            parts.concat()
        );
        (what, help)
    })
}

/// Returns a note if the drive completes fewer long random requests than the sum of the promises in
/// requests. A request longer than `max_transfer` reaches the drive in parts, so it does not
/// matter.
fn in_requests(promised: PromiseSums, drive: &ServerDrive) -> Option<(String, &'static str)> {
    let parts: Vec<String> = kinds(drive.capacity?)
        .into_iter()
        .filter(|_| promised.iops > 0)
        .map(|kind| (kind.name, maximum_request_size(promised, kind)))
        .filter(|part| part.1 < drive.max_transfer.into())
        .map(|(name, length)| format!("\n  {name} of up to {}", ByteSize(length)))
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

/// Returns the sum of a drive's contracts as they are written, whatever its policy makes of them.
pub fn promised(server: &Server, drive: &ServerDrive) -> Option<PromiseSums> {
    let plan = plan(server, &drive.name)?;
    let mut layer = scratch_layer(&plan.config).ok()?;
    let edits = written_edits(server, &plan);
    layer.change(Instant::ZERO, &edits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    #[test]
    fn requests_are_noted_only_if_requests_are_promised() {
        let text = "listen.nbd = [\"127.0.0.1:0\"]\n[drive.d]\ncapacity = { read = \"100MB/s\", write = \"100MB/s\", iops = 1000 }";
        let server = crate::parse("", text).unwrap();
        let of = |bytes, iops| {
            let promised = PromiseSums::rates(bytes, iops);
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
            max_conflict(
                &Contract::DEFAULT
                    .with_min(min)
                    .with_min_iops(min_iops)
                    .with_max(max),
            )
        };
        let said = |key: &'static str, text: &str| Some((key, text.to_owned()));
        // 2.5 MB/s are 2,500 bytes per request, or four sectors. 4.096 MB/s are 4 KiB per request,
        // which causes no note.
        let requests = "its max permits 1000 requests/s only up to 2KiB each";
        assert_eq!(of(0, 1000, 2_500_000, 0), said("min_iops", requests));
        assert_eq!(of(0, 1000, 4_096_000, 0), None);
        // 10 MB / 100 are 100,000 bytes, which are rounded up to 196 sectors. 409,600 / 100 are 4
        // KiB, which causes no note.
        let bytes = "its max permits 10MB/s only in requests of at least 98KiB";
        assert_eq!(of(10_000_000, 0, 0, 100), said("min", bytes));
        assert_eq!(of(409_600, 0, 0, 100), None);
        assert_eq!(of(10_000_000, 0, 20_000_000, 0), None);
    }

    /// The drive's own throughput at the returned sizes suffices for a promise, and at sizes just
    /// below it does not.
    #[test]
    fn a_modelled_drive_is_asked_how_long_requests_must_be() {
        let disk = profile::find("hitachi-hts72755").unwrap().drive;
        for op in [Op::Read, Op::Write] {
            let requests = disk.random_rate(op, SMALL as u32).unwrap();
            let kind = RequestKind {
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
                let promised = PromiseSums::rates(bytes, iops);
                let length = minimum_request_size_on(&disk, promised, kind).unwrap();
                let left = (requests - iops) as f64 / requests as f64;
                let comes_to = |length: u64| {
                    disk.random_rate(op, length as u32).unwrap() as f64 * length as f64 * left
                };
                assert_eq!(length % SMALL, 0);
                assert!(
                    comes_to(length) >= bytes as f64,
                    "{op:?} {promised:?} {length}"
                );
                let least = minimum_request_size(promised, kind).unwrap();
                // The search increases the size by a sixteenth at a time.
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
    fn other_promises_raise_the_minimum_request_size() {
        let kind = RequestKind {
            name: "requests",
            op: Op::Read,
            requests: 100,
            rate: 409_600_000,
        };
        let of = |bytes, iops| PromiseSums::rates(bytes, iops);
        // A request takes 9.99 ms and 10 us for each 4 KiB. For 41 MB/s, the bytes themselves take
        // 0.1 of a second. In the other 0.9, the 9.99 ms are possible 90 times, and 41 MB / 90 are
        // 112 times 4 KiB.
        assert_eq!(minimum_request_size(of(400_000, 0), kind), Some(SMALL));
        assert_eq!(
            minimum_request_size(of(41_000_000, 0), kind),
            Some(112 * SMALL)
        );
        assert_eq!(
            minimum_request_size(of(41_000_000, 50), kind),
            Some(251 * SMALL)
        );
        assert_eq!(minimum_request_size(of(41_000_000, 90), kind), None);
        assert_eq!(minimum_request_size(of(409_600_000, 0), kind), None);
        // Of 1/60 s per request, 10 ms are for the first 4 KiB, and the other 6.67 ms for 666 more.
        assert_eq!(maximum_request_size(of(0, 60), kind), 667 * SMALL);
        assert_eq!(maximum_request_size(of(41_000_000, 60), kind), 500 * SMALL);
        assert_eq!(maximum_request_size(of(0, 200), kind), SMALL);
    }
}
