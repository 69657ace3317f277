//! Tunables of elevators by the core's tables: their names, and the text of their values.

use crate::units::{ByteSize, Time};
use weir_core::Span;
use weir_core::elevator::{self, ElevatorKind};
use weir_core::tunable::{Tunable, TunableUnit, Tuned};

/// Returns the tunables of an elevator, or an empty list if it has none.
pub(crate) fn of(kind: &ElevatorKind) -> &'static [Tunable] {
    (kind.default)().tuned().map_or(&[], Tuned::tunables)
}

/// Iterates over the elevators that have tunables.
pub(crate) fn tables() -> impl Iterator<Item = (&'static ElevatorKind, &'static [Tunable])> {
    let all = elevator::KINDS.iter().map(|kind| (kind, of(kind)));
    all.filter(|(_, tunables)| !tunables.is_empty())
}

/// Returns these keys and the names of the elevators' tables of tunables, for a table that can have
/// both.
pub(crate) fn and_tables(mut keys: Vec<&'static str>) -> Vec<&'static str> {
    keys.extend(tables().map(|(kind, _)| kind.name));
    keys
}

/// Returns the name of an elevator's table of tunables in messages.
pub(crate) fn called(kind: &ElevatorKind) -> String {
    format!("{} = {{ ... }}", kind.name)
}

/// Returns the names of these tunables.
pub(crate) fn names(tunables: &[Tunable]) -> Vec<&'static str> {
    tunables.iter().map(|t| t.name).collect()
}

/// Returns the value of a tunable in TOML: `"8ms"`, `"16MiB"`, `3`, `true`, `"linux"`.
pub(crate) fn toml(tunable: &Tunable, value: u64) -> String {
    match (tunable.unit, tunable.unit.bytes()) {
        (_, Some(bytes)) => format!("\"{}\"", ByteSize(value.saturating_mul(bytes))),
        (TunableUnit::Time, _) => format!("\"{}\"", Time(Span::from_nanos(value))),
        (TunableUnit::Flag, _) => (value > 0).to_string(),
        (TunableUnit::Word(words), _) => {
            let word = usize::try_from(value).ok().and_then(|at| words.get(at));
            format!("\"{}\"", word.unwrap_or(&""))
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_with_units_and_words() {
        let text = |name: &str, value| {
            let mut all = tables().flat_map(|(_, tunables)| tunables);
            toml(all.find(|t| t.name == name).unwrap(), value)
        };
        assert_eq!(text("slice_idle", 8_000_000), "\"8ms\"");
        assert_eq!(text("back_seek_max", 16 << 10), "\"16MiB\"");
        assert_eq!(text("max_budget", 8192), "\"4MiB\"");
        assert_eq!(text("back_seek_penalty", 2), "2");
        assert_eq!(text("low_latency", 1), "true");
        assert_eq!(text("charge", 1), "\"service\"");
        assert_eq!(text("excess", 0), "\"time\"");
    }
}
