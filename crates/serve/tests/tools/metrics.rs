//! The metrics of a server, for tests that check them.

use std::collections::BTreeMap;

use weir_serve::{Detail, LiveServer};

/// Returns the text of the metrics.
pub(crate) fn text(server: &LiveServer, detail: Detail) -> String {
    let config = server.config();
    let rooms = config.drives.iter().map(|drive| {
        let room = weir_config::room(config, drive).unwrap_or_default();
        (drive.name.clone(), room)
    });
    let rooms: BTreeMap<_, _> = rooms.collect();
    let text = server.watch().metrics(&rooms, detail);
    text.expect("every shard answers")
}

/// A snapshot of the metrics.
#[derive(Debug)]
pub(crate) struct MetricsSnapshot(String);

impl MetricsSnapshot {
    pub(crate) fn of(server: &LiveServer) -> Self {
        Self(text(server, Detail::Full))
    }

    /// Returns the sum of the samples with this name and all these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let lines = self.0.lines().filter_map(|line| line.strip_prefix(name));
        // Another metric can have this name as the beginning of its own.
        let lines = lines.filter(|rest| rest.starts_with(['{', ' ']));
        let matching = lines.filter(|rest| {
            labels
                .iter()
                .all(|(label, value)| rest.contains(&format!("{label}=\"{value}\"")))
        });
        let values: Vec<f64> = matching
            .map(|rest| rest.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect();
        assert!(!values.is_empty(), "no {name} {labels:?} in\n{}", self.0);
        values.iter().sum()
    }
}
