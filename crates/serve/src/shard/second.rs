//! The end of a second on a shard: the use of its processor is reported to the promises and to the
//! journal.

use weir_core::{GroupId, Instant, Span};
use weir_measure::SECOND_NS;
use weir_measure::promise::ServerTime;

use super::Shard;
use super::drive::ShardDrive;
use super::schedule::{DriveTerms, ProcessorCost, ProcessorTerms};

/// The current second of the shard.
#[derive(Debug)]
pub(super) struct ShardSecond {
    ends: Instant,
    /// The kernel's count of the time without a processor at the beginning of the second, in
    /// nanoseconds.
    stalled: u64,
}

/// The estimated processor cost of a drive's volumes in one second.
#[derive(Debug)]
struct VolumeCosts {
    /// The costs by the number of the space.
    volumes: Vec<ProcessorCost>,
    /// The two groups with the largest costs, the largest first.
    largest: [(ProcessorCost, Option<GroupId>); 2],
}

impl ShardSecond {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            ends: next(now),
            stalled: 0,
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.ends
    }
}

/// Returns the end of the second that contains `now`.
fn next(now: Instant) -> Instant {
    let second = now.as_nanos() / SECOND_NS + 1;
    Instant::from_nanos(second * SECOND_NS)
}

impl Shard {
    /// Ends the current second. The drives judge their promises after this, when they end the
    /// second on their part.
    pub(super) fn end_second(&mut self) {
        self.count_untaken();
        let stalled = self.waited.total().unwrap_or(self.second.stalled);
        let stalled_ns = stalled.saturating_sub(self.second.stalled);
        (self.second.stalled, self.second.ends) = (stalled, next(self.now));
        let costs: Vec<VolumeCosts> = (0..self.drives.len()).map(|at| self.costs(at)).collect();
        let all: ProcessorCost = costs.iter().flat_map(|drive| &drive.volumes).sum();
        // The costs are estimates and can add up to more than a second, but the thread had no more
        // than that.
        let all_ns = self.turns.time(all).min(SECOND_NS);
        let time = |cost: ProcessorCost| {
            let ns = u128::from(all_ns) * u128::from(cost) / u128::from(all.max(1));
            u64::try_from(ns).unwrap_or(all_ns)
        };
        for (drive, costs) in self.drives.iter_mut().zip(&costs) {
            let server = |own: ProcessorCost| ServerTime {
                others_ns: time(all.saturating_sub(own)),
                stalled_ns,
            };
            drive.note_processor(costs, server, time);
        }
    }

    /// Counts the waiting time of requests that arrived in this second and were not taken.
    fn count_untaken(&mut self) {
        let ends = self.second.ends;
        for slot in self.clients.slots() {
            let client = &self.clients[slot].client;
            // A client that does not read its answers, or that has used up its overhead, delays
            // itself.
            let is_own_fault = client.held || self.schedule.is_throttled(client.flow);
            let Some(arrived) = client.arrived.filter(|_| client.is_open() && !is_own_fault) else {
                continue;
            };
            // A nanosecond before the end, so that the wait belongs to the second that ends.
            let last = ends.saturating_sub(Span::from_nanos(1));
            self.drives[client.drive].note_untaken(last, client.space, arrived.earliest);
        }
    }

    /// Returns the costs of a drive's volumes since the last second, and resets them.
    fn costs(&mut self, at: usize) -> VolumeCosts {
        let mut largest = [(0, None); 2];
        let volumes = self.drives[at].volumes.iter().zip(0..);
        let volumes = volumes.map(|(volume, space)| {
            let cost = self.schedule.take_spent((at, space));
            let entry = (cost, volume.as_ref().map(|volume| volume.group));
            if cost > largest[0].0 {
                largest = [entry, largest[0]];
            } else if cost > largest[1].0 {
                largest[1] = entry;
            }
            cost
        });
        VolumeCosts {
            volumes: volumes.collect(),
            largest,
        }
    }

    /// Updates the schedule with mins and weights that have changed.
    pub(super) fn schedule_terms(&mut self) {
        for (number, drive) in self.drives.iter_mut().enumerate() {
            let new_mins = std::mem::take(&mut drive.new_mins);
            if std::mem::take(&mut drive.has_new_terms) {
                self.schedule.set_terms(number, drive.processor_terms());
                continue;
            }
            for space in new_mins {
                let volume = drive.volumes[space as usize].as_ref();
                let min = volume.and_then(|volume| volume.tally.promise.rate());
                self.schedule.set_min((number, space), min);
            }
        }
    }
}

impl ShardDrive {
    /// Passes the processor time of a second to the promises of volumes and tenants.
    fn note_processor(
        &mut self,
        costs: &VolumeCosts,
        server: impl Fn(ProcessorCost) -> ServerTime,
        time: impl Fn(ProcessorCost) -> u64,
    ) {
        let mut tenants = vec![0; self.tenants.len()];
        for (volume, cost) in self.volumes.iter_mut().zip(&costs.volumes) {
            let Some(volume) = volume else { continue };
            volume.tally.processor_ns += time(*cost);
            volume.tally.promise.server(server(*cost));
            volume.busiest = costs
                .largest
                .iter()
                .find_map(|of| of.1.filter(|g| *g != volume.group));
            if let Some(sum) = volume.member.and_then(|at| tenants.get_mut(at)) {
                *sum += cost;
            }
        }
        for (tenant, cost) in self.tenants.iter_mut().zip(tenants) {
            tenant.promise.server(server(cost));
        }
    }

    /// Returns the terms by which the processor is shared: weights from the shares of tenants and
    /// volumes, and the mins that are in force here.
    fn processor_terms(&self) -> DriveTerms {
        let tenants: Vec<_> = self
            .tenants
            .iter()
            .map(|tenant| tenant.promise.rate())
            .collect();
        let shares = |at| {
            let volumes = self.volumes.iter().flatten();
            let members = volumes.filter(move |volume| volume.member == Some(at));
            members
                .map(|volume| u64::from(volume.terms.contract.share))
                .sum::<u64>()
        };
        let sums: Vec<u64> = (0..tenants.len()).map(shares).collect();
        let volumes = self.volumes.iter().map(|volume| {
            // A tenant's share is divided among its volumes in proportion to their shares.
            let volume = volume.as_ref()?;
            let share = u64::from(volume.terms.contract.share) * WEIGHT;
            let of = volume.terms.tenant.as_ref().zip(volume.member);
            let weight = of.map_or(share, |(tenant, at)| {
                share * u64::from(tenant.contract.share) / sums[at].max(1)
            });
            Some(ProcessorTerms {
                weight,
                min: volume.tally.promise.rate(),
                tenant: volume.member.filter(|at| tenants[*at].is_some()),
            })
        });
        DriveTerms {
            volumes: volumes.collect(),
            tenants,
        }
    }
}

/// The weight of a share of 1. It is larger than 1 because a volume can get a fraction of its
/// tenant's share.
const WEIGHT: u64 = 64;
