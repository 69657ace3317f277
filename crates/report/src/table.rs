//! Tables for terminals (and, through [`crate::html`], for pages).

use comfy_table::{CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, TableStyle};

/// A table: columns that say how they are shown, and rows of text.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    /// Stressed where the medium can.
    pub(crate) strong: bool,
}

/// How a column is shown.
#[derive(Debug, Clone)]
pub struct Column {
    pub(crate) title: String,
    pub(crate) right: bool,
    /// Columns with a larger number go first where the terminal is narrow; those with 0 stay.
    pub(crate) drop: u32,
}

impl Column {
    /// A column of text, aligned left, that always stays.
    pub fn text(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            right: false,
            drop: 0,
        }
    }

    /// A column of numbers, aligned right, that always stays.
    pub fn number(title: &str) -> Self {
        Self {
            right: true,
            ..Self::text(title)
        }
    }

    /// The same column, left out where the table does not fit: those with the largest `order` first, the rightmost
    /// among equals.
    pub fn dropped(self, order: u32) -> Self {
        Self {
            drop: order,
            ..self
        }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Cells that are missing are empty; those beyond the last column are not shown.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.push(cells, false);
    }

    /// Adds a row that is stressed on a page; on a terminal it looks like any other.
    pub fn strong_row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.push(cells, true);
    }

    /// The table as text of lines at most `width` columns wide, in plain characters without colour.
    ///
    /// Where it does not fit, columns are left out in the order they state, and then what is left is wrapped.
    pub fn text(&self, width: usize) -> String {
        let shown = self.fitting(width);
        let mut table = comfy_table::Table::new();
        let between = ContentLineStyle::none().junction(' ');
        let style = TableStyle::new()
            .header_lines(between)
            .header_separator(LineStyle::none().fill('-').junction(' '))
            .content_lines(between);
        table
            .load_style(style)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(width).unwrap_or(u16::MAX))
            .set_header(shown.iter().map(|i| &self.columns[*i].title));
        for row in &self.rows {
            table.add_row(shown.iter().map(|i| &row.cells[*i]));
        }
        for (at, i) in shown.iter().enumerate() {
            let column = table.column_mut(at).expect("the header made every column");
            // With the space between columns this makes the gap.
            column.set_padding((u16::from(at > 0), 0));
            if self.columns[*i].right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
        lines.collect()
    }

    fn push<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>, strong: bool) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(Row { cells, strong });
    }

    /// Which columns are shown within `width`, in their order.
    fn fitting(&self, width: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        while shown.iter().map(|i| self.width(*i) + GAP).sum::<usize>() > width + GAP {
            let next = shown.iter().enumerate();
            let next = next.max_by_key(|(_, i)| self.columns[**i].drop);
            match next {
                Some((at, i)) if self.columns[*i].drop > 0 => _ = shown.remove(at),
                _ => break,
            }
        }
        shown
    }

    /// The width of a column's widest cell.
    fn width(&self, i: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row.cells[i]);
        let widths = cells
            .chain([&self.columns[i].title])
            .map(|c| c.chars().count());
        widths.max().unwrap_or(0)
    }
}

/// `text` in lines of at most `width` where its words permit, each ended.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let (mut out, mut used) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            out.push('\n');
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out.push('\n');
    out
}

/// The width of the terminal: the environment's `COLUMNS` where that is a sensible number, otherwise 80.
pub fn terminal_width() -> usize {
    width_of(std::env::var("COLUMNS").ok().as_deref())
}

fn width_of(columns: Option<&str>) -> usize {
    let columns = columns.and_then(|c| c.trim().parse().ok());
    columns.filter(|c| (20..=1000).contains(c)).unwrap_or(80)
}

/// Spaces between two columns.
const GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_senseless_terminal_is_80_columns_wide() {
        let widths = [
            None,
            Some("120"),
            Some(" 40 "),
            Some("0"),
            Some("-1"),
            Some("many"),
            Some("99999999"),
        ];
        assert_eq!(widths.map(width_of), [80, 120, 40, 80, 80, 80, 80]);
    }
}
