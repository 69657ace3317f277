//! Tunables of elevators, by the core's tables: what they are called, what they can be, how they are printed.

use crate::units::{Size, Time};
use weir_core::Span;
use weir_core::elevator::{self, Kind};
use weir_core::tunable::{Tunable, Tuned, Unit};

/// The tunables of an elevator; none if it has none.
pub(crate) fn of(kind: &Kind) -> &'static [Tunable] {
    (kind.default)().tuned().map_or(&[], Tuned::tunables)
}

/// The elevators that have tunables, with them.
pub(crate) fn tables() -> impl Iterator<Item = (&'static Kind, &'static [Tunable])> {
    let all = elevator::KINDS.iter().map(|kind| (kind, of(kind)));
    all.filter(|(_, tunables)| !tunables.is_empty())
}

/// These keys and the names of the tables of elevators' tunables, which a table may have beside them.
pub(crate) fn and_tables(mut keys: Vec<&'static str>) -> Vec<&'static str> {
    keys.extend(tables().map(|(kind, _)| kind.name));
    keys
}

/// How texts speak of the table of an elevator's tunables.
pub(crate) fn called(kind: &Kind) -> String {
    format!("{} = {{ ... }}", kind.name)
}

/// The names of tunables.
pub(crate) fn names(tunables: &[Tunable]) -> Vec<&'static str> {
    tunables.iter().map(|t| t.name).collect()
}

/// A value of a tunable, as TOML: `"8ms"`, `"16MiB"`, `3`, `true`, `"linux"`.
pub(crate) fn toml(tunable: &Tunable, value: u64) -> String {
    match (tunable.unit, tunable.unit.bytes()) {
        (_, Some(bytes)) => format!("\"{}\"", Size(value.saturating_mul(bytes))),
        (Unit::Time, _) => format!("\"{}\"", Time(Span::from_nanos(value))),
        (Unit::Flag, _) => (value > 0).to_string(),
        (Unit::Word(words), _) => {
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
    fn values_are_as_people_write_them() {
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
