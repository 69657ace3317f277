//! The memory that the process may use. The arenas are checked against it at the start, because
//! buffers that do not fit would get the process killed under load without an error message.

use std::fs;
use std::path::{Path, PathBuf};

use weir_config::Limits;
use weir_config::units::ByteSize;

/// A generous allowance for memory other than the arenas, in bytes: tables of drives, stacks and
/// the program.
const BESIDE: u64 = 24 << 20;
/// The size of an arena is a multiple of this number of bytes.
const PAGE: u64 = 4096;
/// The directory where cgroup file systems are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// The number of bytes that the process may use, and a phrase for messages that tells the source of
/// the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryLimit {
    bytes: u64,
    by: &'static str,
}

/// Returns the memory that the cgroups of this process permit (cgroups(7), version 2 or 1), or the
/// memory of the machine if that is less.
pub(crate) fn permitted_memory() -> MemoryLimit {
    let memory = rustix::system::sysinfo();
    let machine = MemoryLimit {
        bytes: (memory.totalram as u64).saturating_mul(memory.mem_unit.into()),
        by: "the machine has",
    };
    let membership = fs::read_to_string("/proc/self/cgroup").ok();
    let limit = membership.and_then(|m| limit(Path::new(GROUPS), &m));
    let group = limit.filter(|bytes| *bytes < machine.bytes);
    group.map_or(machine, |bytes| MemoryLimit {
        bytes,
        by: "the control group permits",
    })
}

/// The error that the buffers do not fit into memory, with the sizes that would fit. Sizes are in
/// bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "not enough memory: {by} {}, but limits.arena = \"{}\" for each of {shards} shards and {} for the rest take {}; {}",
    ByteSize(*.permitted), ByteSize(.limits.arena), ByteSize(BESIDE), ByteSize(*.taken), self.remedy()
)]
pub(crate) struct Shortage {
    limits: Limits,
    shards: u64,
    permitted: u64,
    /// The sum of all arenas and [`BESIDE`].
    taken: u64,
    /// The amount that is left for each arena, and the minimum that an arena needs.
    rest: u64,
    least: u64,
    by: &'static str,
}

impl Shortage {
    fn remedy(&self) -> String {
        let rest = ByteSize(self.rest);
        if self.rest >= self.least {
            return format!("set limits.arena = \"{rest}\" or less");
        }
        format!(
            "with limits.request_size = \"{}\" and limits.connections = {} an arena needs at least {}; give the process more memory, \
             or reduce both and set limits.arena = \"{rest}\"",
            ByteSize(self.limits.request_size.into()),
            self.limits.connections,
            ByteSize(self.least),
        )
    }
}

/// Returns the size of each shard's arena if the process may use `permitted` bytes. This is
/// the configured limit if it fits. If the limit is a default (not `written` in the configuration),
/// it is reduced as far as necessary, but not below the minimum that the other limits require.
///
/// # Errors
/// Returns the [`Shortage`] if the arenas do not fit.
pub(crate) fn arena(
    limits: &Limits,
    written: bool,
    shards: u64,
    permitted: MemoryLimit,
) -> Result<u64, Shortage> {
    let MemoryLimit {
        bytes: permitted,
        by,
    } = permitted;
    // Saturating, because the configured size can be any 64-bit number.
    let taken = limits.arena.saturating_mul(shards).saturating_add(BESIDE);
    if taken <= permitted {
        return Ok(limits.arena);
    }
    let rest = permitted.saturating_sub(BESIDE) / shards / PAGE * PAGE;
    let least = limits.arena_min().max(2 * u64::from(limits.request_size));
    if !written && rest >= least {
        return Ok(rest);
    }
    Err(Shortage {
        limits: *limits,
        shards,
        permitted,
        taken,
        rest,
        least,
        by,
    })
}

/// Returns the smallest limit of the cgroups that `membership` (the content of `/proc/self/cgroup`)
/// names, and of their ancestors.
fn limit(root: &Path, membership: &str) -> Option<u64> {
    let groups = membership.lines().filter_map(|line| {
        // A line is `ID:CONTROLLERS:PATH`. Version 2 has an empty list of controllers, and version
        // 1 has a hierarchy per set of controllers (cgroups(7)).
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        match controllers {
            "" => Some((root.to_owned(), path, "memory.max")),
            all if all.split(',').any(|c| c == "memory") => {
                Some((root.join("memory"), path, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    let limits = groups.flat_map(|(top, path, file)| {
        let group = top.join(path);
        let around: Vec<PathBuf> = group.ancestors().map(Path::to_owned).collect();
        let within = around.into_iter().take_while(move |g| g.starts_with(&top));
        within.filter_map(move |group| {
            // A group without a limit has "max", which does not parse and is skipped.
            fs::read_to_string(group.join(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        })
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_smallest_limit_of_all_ancestors_applies() {
        let root = std::env::temp_dir().join(format!("weir-groups-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("a/memory.max", "67108864\n");
        put("a/b/memory.max", "max\n");
        put("memory/c/memory.limit_in_bytes", "1000\n");
        assert_eq!(limit(&root, "0::/a/b\n"), Some(64 * MIB));
        assert_eq!(limit(&root, "0::/\n"), None);
        assert_eq!(
            limit(&root, "4:cpu:/x\n3:hugetlb,memory:/c/d\n"),
            Some(1000)
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_default_arena_shrinks_and_a_configured_one_is_refused() {
        let limits = Limits::default();
        let sized = |written, shards, mib: u64| {
            let (bytes, by) = (mib * MIB, "the control group permits");
            arena(&limits, written, shards, MemoryLimit { bytes, by })
        };
        // 2 × 128 MiB and 24 MiB for the rest are exactly 280 MiB. With 200 MiB, (200 - 24) / 2 =
        // 88 MiB are left for each of the two arenas.
        assert_eq!(sized(true, 2, 280), Ok(128 * MIB));
        assert_eq!(sized(false, 2, 200), Ok(88 * MIB));
        let refused = sized(true, 2, 200).unwrap_err().to_string();
        for sum in [
            "200MiB",
            "128MiB",
            "2 shards",
            "280MiB",
            "\"88MiB\" or less",
        ] {
            assert!(refused.contains(sum), "{sum}: {refused}");
        }
        // 64 - 24 = 40 MiB are less than the 64 MiB that an arena needs, so that even a default is
        // refused.
        let refused = sized(false, 1, 64).unwrap_err().to_string();
        for sum in ["64MiB", "at least 64MiB", "limits.arena = \"40MiB\""] {
            assert!(refused.contains(sum), "{sum}: {refused}");
        }
    }

    #[test]
    fn an_arena_larger_than_the_memory_is_refused() {
        let permitted = permitted_memory();
        let limits = Limits {
            arena: permitted.bytes,
            ..Limits::default()
        };
        let refused = arena(&limits, true, 1, permitted).unwrap_err().to_string();
        assert!(refused.contains(permitted.by), "{refused}");
    }
}
