//! Formats results as lines of a configuration.

use std::fmt::Write;
use weir_config::units::BytesPerSecond;
use weir_lab::calibrate::{Calibration, CapacityFigure, MeasuredCapacity, floor_to_three};

/// Returns the lines for `[drive.NAME]`: capacity, tags and rotation. The capacity is a comment if
/// parts of it were not measured.
pub(crate) fn drive(known: &Calibration) -> String {
    let capacity = MeasuredCapacity::of(known);
    let mut lines = capacity_line(&capacity);
    if let Some(tags) = capacity.tags {
        let _ = writeln!(lines, "tags = {tags}");
    }
    if known.is_rotating() {
        lines += "rotational = true\n";
    } else if known.target.rotational {
        lines += "# The kernel states true, and no rotating disk reads as fast as was measured.\nrotational = false\n";
    }
    lines
}

/// Returns the line for the key `capacity`, as a comment if a rate is missing.
fn capacity_line(capacity: &MeasuredCapacity) -> String {
    let rate = |figure: Option<CapacityFigure>| {
        let figure = figure
            // Figures are rounded down to three digits, so that no more is promised than was
            // measured.
            .map(|f| floor_to_three(f.least))
            .filter(|rate| *rate > 0);
        figure.map_or_else(|| "...".to_owned(), |rate| BytesPerSecond(rate).to_string())
    };
    let mut parts = vec![
        format!("read = \"{}\"", rate(capacity.read)),
        format!("write = \"{}\"", rate(capacity.write)),
    ];
    let requests = [
        ("iops", capacity.iops()),
        ("read_iops", capacity.read_iops.map(|f| f.least)),
        ("write_iops", capacity.write_iops.map(|f| f.least)),
    ];
    for (key, figure) in requests {
        if let Some(count) = figure.map(floor_to_three).filter(|count| *count > 0) {
            parts.push(format!("{key} = {count}"));
        }
    }
    let line = format!("capacity = {{ {} }}\n", parts.join(", "));
    if is_whole(capacity) {
        return line;
    }
    format!(
        "# Not all of it was measured (writes are with --write): state what is missing.\n# {line}"
    )
}

/// Returns true if promises can be compared with this capacity, because both directions are known.
pub(crate) fn is_whole(capacity: &MeasuredCapacity) -> bool {
    let known =
        |figure: Option<CapacityFigure>| figure.is_some_and(|f| floor_to_three(f.least) > 0);
    known(capacity.read) && known(capacity.write)
}
