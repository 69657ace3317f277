//! Reads the tables on standard output.

/// A table: its title, its head, and the cells of its rows.
#[derive(Debug)]
pub(crate) struct PrintedTable {
    pub(crate) title: String,
    pub(crate) head: String,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Returns all tables in a text, in their order. The line of dashes below a head shows the width of
/// the columns.
pub(crate) fn tables(text: &str) -> Vec<PrintedTable> {
    let lines: Vec<&str> = text.lines().collect();
    let is_ruler =
        |line: &str| line.starts_with('-') && line.chars().all(|c| matches!(c, '-' | ' '));
    let rulers = (0..lines.len()).filter(|at| is_ruler(lines[*at]));
    let table = |at: usize| {
        let begin = lines[..at].iter().rposition(|line| line.is_empty());
        let begin = begin.map_or(0, |empty| empty + 1);
        let title = lines[begin].strip_suffix(':');
        let rows = lines[at + 1..].iter().take_while(|line| !line.is_empty());
        let mut all: Vec<Vec<String>> = Vec::new();
        for row in rows.map(|line| cells(line, lines[at])) {
            // A row without a first cell continues the last cell of the previous row, which is too
            // wide for its column.
            match all.last_mut().and_then(|row| row.last_mut()) {
                Some(last) if row[0].is_empty() => last.extend([" ", &row[row.len() - 1]]),
                _ => all.push(row),
            }
        }
        PrintedTable {
            title: title.unwrap_or_default().to_owned(),
            head: lines[begin..at].join(" "),
            rows: all,
        }
    };
    rulers.map(table).collect()
}

/// Returns the cells of a line, whose columns are as wide as the dashes of the ruler.
fn cells(line: &str, ruler: &str) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    let (mut cells, mut begin) = (Vec::new(), 0);
    for dashes in ruler.split(' ') {
        let end = (begin + dashes.len()).min(letters.len());
        let cell: String = letters[begin.min(end)..end].iter().collect();
        // The rows for the kinds of a client are indented below its name.
        let indented = cells.is_empty() && cell.starts_with("  ") && !cell.trim().is_empty();
        let indent = if indented { "  " } else { "" };
        cells.push(indent.to_owned() + cell.trim());
        begin += dashes.len() + 1;
    }
    cells
}

/// Returns the value that a cell shows, and half of the unit of its last digit: `12.3`, `4.40 ms`
/// (in microseconds), `12%`. `None` for a dash.
///
/// # Panics
/// Panics if the cell shows anything else.
pub(crate) fn value(cell: &str) -> Option<(f64, f64)> {
    if cell == "-" {
        return None;
    }
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let number = number.trim_end_matches('%');
    let scale = match unit {
        "" | "us" | "IOPS" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => panic!("a unit: {cell}"),
    };
    let value: f64 = number
        .parse()
        .unwrap_or_else(|_| panic!("a number: {cell}"));
    let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
    Some((value * scale, 0.5 * scale / 10f64.powf(digits as f64)))
}

/// Returns true if a cell shows this value, which is known except for the part `unknown`.
pub(crate) fn shows(cell: &str, wanted: Option<f64>, unknown: f64) -> bool {
    match (value(cell), wanted) {
        (None, None) => true,
        (Some((shown, half)), Some(wanted)) => {
            // A cell is rounded to its last digit. The small factor absorbs floating-point errors.
            (shown - wanted).abs() <= half * 1.000_001 + unknown + 1e-9
        }
        _ => false,
    }
}
