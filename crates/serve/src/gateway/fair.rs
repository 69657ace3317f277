//! The division of a shared minimum among its servers, by demand.

use crate::gateway::table::{MinimumPart, ONE};

/// The minimal part of a server, even without demand, unless there are more than 64 servers. The
/// server can start to promise with it while the others reduce their parts.
const FLOOR: MinimumPart = ONE / 64;

/// Returns the part of the minimum for the server at index `place`. If all demands fit, this is its
/// demand. Otherwise, the minimum is divided max-min fairly: a server gets its demand or at least
/// an equal part of the remainder that less demanding servers leave. All parts together are at most
/// [`ONE`], whatever the demands.
pub fn fair(demands: &[MinimumPart], place: usize) -> MinimumPart {
    let servers = MinimumPart::try_from(demands.len()).unwrap_or(ONE).max(1);
    // With more than 64 servers, floors of 1/64 would exceed the whole.
    let floor = FLOOR.min(ONE / servers);
    let wanted = |demand: MinimumPart| demand.clamp(floor, ONE);
    let mut sorted: Vec<MinimumPart> = demands.iter().map(|&d| wanted(d)).collect();
    sorted.sort_unstable();
    let (mut left, mut servers) = (ONE, servers);
    // In ascending order, each demand that is at most an equal part of the rest is met in full. The
    // first that is larger determines the level of all remaining servers.
    for demand in sorted {
        let level = left / servers;
        if demand > level {
            return wanted(demands[place]).min(level);
        }
        left -= demand;
        servers = (servers - 1).max(1);
    }
    wanted(demands[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(demands: &[MinimumPart]) -> Vec<MinimumPart> {
        (0..demands.len()).map(|at| fair(demands, at)).collect()
    }

    #[test]
    fn demands_that_fit_are_met_and_others_are_cut_to_a_level() {
        assert_eq!(all(&[ONE]), [ONE]);
        // The floor of the server without demand is taken from the server that wants everything.
        assert_eq!(all(&[ONE, 0]), [ONE - FLOOR, FLOOR]);
        assert_eq!(all(&[ONE / 4, ONE / 4]), [ONE / 4, ONE / 4]);
        assert_eq!(all(&[ONE, ONE, ONE / 2]), [ONE / 3; 3]);
        // 7/8 remain for two servers: 65536 × 7 / 16 = 28672.
        assert_eq!(all(&[ONE / 8, ONE, ONE]), [8192, 28672, 28672]);
        assert_eq!(all(&[9 * ONE, 0]), [ONE - FLOOR, FLOOR]);
    }

    #[test]
    fn parts_of_any_number_of_servers_add_up_to_at_most_the_whole() {
        for servers in [1, 2, 3, 63, 64, 65, 1000, 70_000] {
            for demand in [0, 1, FLOOR, ONE / 3, ONE, MinimumPart::MAX] {
                let part = u64::from(fair(&vec![demand; servers], servers - 1));
                assert!(
                    part * servers as u64 <= u64::from(ONE),
                    "{servers} {demand}"
                );
            }
        }
    }
}
