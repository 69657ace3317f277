//! The files that processes read and write through the page cache.

use super::cache::{Cache, Fetch};
use super::read_ahead::PAGE;
use crate::ClientSpec;

/// All files with their page caches. Processes whose regions of a space overlap have the same file
/// open.
#[derive(Debug)]
pub(crate) struct Files {
    all: Vec<CachedFile>,
    /// The index of the file that each client has open, if it does buffered I/O.
    opened: Vec<Option<usize>>,
}

#[derive(Debug)]
struct CachedFile {
    /// The offset of the file in its space.
    base: u64,
    cache: Cache,
    /// The clients that have the file open.
    clients: Vec<u32>,
}

impl Files {
    /// The files of all clients of a scenario.
    pub(crate) fn new(clients: &[ClientSpec]) -> Self {
        let buffered = (0..).zip(clients).filter(|c| c.1.buffered.is_some());
        let mut regions: Vec<_> = buffered
            .map(|(client, spec)| {
                let (start, length) = (spec.region.start, spec.region.length);
                (spec.space, start, start.saturating_add(length), client)
            })
            .collect();
        regions.sort_unstable();
        let mut files = Self {
            all: Vec::new(),
            opened: vec![None; clients.len()],
        };
        let mut rest = &regions[..];
        while let Some(&(space, base, mut end, _)) = rest.first() {
            // Regions are sorted by their start, so that a file ends at the first region that
            // begins after all earlier ones. Regions of the same start belong together even if the
            // first is empty.
            let overlaps = |r: &&(_, u64, u64, u32)| {
                let overlaps = r.0 == space && (r.1 == base || r.1 < end);
                end = if overlaps { end.max(r.2) } else { end };
                overlaps
            };
            let count = rest.iter().take_while(overlaps).count();
            let (its, others) = rest.split_at(count);
            for region in its {
                files.opened[region.3 as usize] = Some(files.all.len());
            }
            files.all.push(CachedFile {
                base,
                cache: Cache::new((end - base) / PAGE),
                clients: its.iter().map(|r| r.3).collect(),
            });
            rest = others;
        }
        files
    }

    /// The offset of the file that a client has open.
    pub(crate) fn base(&self, client: u32) -> Option<u64> {
        Some(self.all[self.opened[client as usize]?].base)
    }

    /// The page cache of the file that a client has open.
    pub(crate) fn cache(&mut self, client: u32) -> Option<&mut Cache> {
        Some(&mut self.all[self.opened[client as usize]?].cache)
    }

    /// Completes a command of a process. If the command fetched pages, returns the clients that may
    /// have waited for them.
    pub(crate) fn complete_fetch(&mut self, fetch: Fetch, well: bool) -> &[u32] {
        let Some(file) = self.opened[fetch.client as usize] else {
            return &[];
        };
        let file = &mut self.all[file];
        if file.cache.complete_fetch(fetch, well) {
            &file.clients
        } else {
            &[]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffered, Scenario};
    use weir_core::{Contract, Span};
    use weir_model::load::{Program, Region};

    #[test]
    fn processes_with_overlapping_regions_share_a_file() {
        let drive =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        let mut scenario = Scenario::new("files", drive, Span::from_secs(1));
        let regions = [(80, 20), (10, 10), (0, 10), (5, 5), (90, 30), (40, 8)];
        for (i, (start, pages)) in regions.into_iter().enumerate() {
            let name = format!("c{i}");
            let program = Program::random_reads(4096, 1);
            let spec = scenario.add_client_with_group(&name, Contract::DEFAULT, 1 << 20, program);
            spec.space = weir_core::SpaceId(0);
            spec.buffered = (i != 5).then(Buffered::default);
            spec.region = Region::new(start * PAGE, pages * PAGE);
        }
        let mut files = Files::new(&scenario.clients);
        let base = |client| files.base(client).map(|base| base / PAGE);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(base),
            [Some(80), Some(10), Some(0), Some(0), Some(80), None]
        );
        let fetch = Fetch {
            client: 4,
            number: 3,
        };
        let cache = files.cache(0).unwrap();
        assert_eq!(cache.pages(), 40);
        cache.fetch(fetch, 0, 5);
        assert_eq!(files.complete_fetch(fetch, true), [0, 4]);
        assert!(files.complete_fetch(fetch, true).is_empty());
        assert!(files.cache(5).is_none());
    }
}
