//! What of a drive is promised, and what is left to be promised.

use crate::note::promised;
use crate::server::{Drive, Server};
use weir_core::{Capacity, PROMISABLE, Promised};

/// What of a drive is promised, and what is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// What it can do.
    pub capacity: Capacity,
    /// What its contracts add up to.
    pub promised: Promised,
    /// Bytes a second that one further promise may have, if it is one in bytes.
    pub left_bytes: u64,
    /// Requests a second that one further promise may have, if it is one in requests; zero where it is not known how many the drive does.
    pub left_requests: u64,
}

/// What of a drive of the server is promised and left; `None` if its capacity is not known. A further promise of what is left is admitted,
/// one of more than a millionth of the drive's capacity beyond it is not (`weir_core`'s admission counts in these).
pub fn budget(server: &Server, drive: &Drive) -> Option<Budget> {
    let capacity = drive.capacity?;
    let promised = promised(server, drive)?;
    let free = PROMISABLE.saturating_sub(promised.millionths);
    let of = |part: u64, amount: u64| {
        let amount = u128::from(part) * u128::from(amount) / 1_000_000;
        u64::try_from(amount).unwrap_or(u64::MAX)
    };
    let bytes = capacity.bytes();
    // Beside the promises in bytes, those in requests.
    let taken = (u128::from(promised.bytes) * 1_000_000).div_ceil(u128::from(bytes.max(1)));
    let rest = PROMISABLE.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
    let most = of(rest, capacity.requests()).min(of(rest, bytes) / 512);
    Some(Budget {
        capacity,
        promised,
        left_bytes: of(free, bytes),
        left_requests: most.saturating_sub(promised.iops),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(read: u64, write: u64, iops: u64, promises: &[String]) -> Result<Server, String> {
        let volume = |(n, promise): (usize, &String)| {
            format!("[volume.v{n}]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\n{promise}\n")
        };
        let volumes: String = promises.iter().enumerate().map(volume).collect();
        let text = format!(
            "listen.nbd = [\"127.0.0.1:0\"]\n[drive.d]\ncapacity = {{ read = \"{read}B/s\", write = \"{write}B/s\", iops = {iops} }}\n{volumes}"
        );
        crate::parse("", &text).map_err(|problems| format!("{problems:?}"))
    }

    proptest! {
        #[test]
        fn what_is_left_is_admitted_and_no_more(
            read in 1_000_000u64..5_000_000_000,
            write in 1_000_000u64..5_000_000_000,
            iops in 100u64..1_000_000,
            parts in prop::collection::vec((any::<bool>(), 1u64..300_000), 0..4),
        ) {
            let bytes = read.min(write);
            let promise = |&(in_bytes, part): &(bool, u64)| if in_bytes {
                format!("min = \"{}B/s\"", (bytes / 1_000_000 * part).max(1))
            } else {
                format!("min_iops = {}", (iops * part / 1_000_000).max(1))
            };
            let promises: Vec<String> = parts.iter().map(promise).collect();
            let Ok(before) = server(read, write, iops, &promises) else { return Ok(()) };
            let budget = budget(&before, &before.drives[0]).expect("its capacity is stated");
            let with = |more: String| {
                let mut all = promises.clone();
                all.push(more);
                server(read, write, iops, &all)
            };
            let (left, requests) = (budget.left_bytes, budget.left_requests);
            if left > 0 {
                let asked = with(format!("min = \"{left}B/s\""));
            prop_assert!(asked.is_ok());
            }
            if requests > 0 {
                let asked = with(format!("min_iops = {requests}"));
            prop_assert!(asked.is_ok());
            }
            // Two parts are rounded up before they are added.
            let beyond = left + 3 + bytes / 250_000;
            let asked = with(format!("min = \"{beyond}B/s\""));
            prop_assert!(asked.is_err());
            let beyond = requests + 3 + iops.max(bytes / 512) / 250_000;
            let asked = with(format!("min_iops = {beyond}"));
            prop_assert!(asked.is_err());
        }
    }
}
