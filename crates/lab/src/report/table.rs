//! Tables for terminals and (through [`crate::report::html`]) for pages.

use crate::report::html::Tone;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, TableStyle,
    Width,
};

/// A table: columns with their layout, and rows of text.
#[derive(Debug, Clone, Default)]
pub struct ReportTable {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<TableRow>,
    /// True if the first column is the name of a group of rows. It is empty in all rows of the
    /// group except the first. On a page it is a row of its own.
    pub(crate) grouped: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct TableRow {
    pub(crate) cells: Vec<String>,
    /// The quality of the cells, shown by colour and shape on a page. Cells without a tone are
    /// plain.
    pub(crate) tones: Vec<Tone>,
    /// True if the row is emphasised, where the medium can do that.
    pub(crate) strong: bool,
}

/// The layout of a column.
#[derive(Debug, Clone)]
pub struct Column {
    pub(crate) title: String,
    pub(crate) right: bool,
    /// The order in which columns are left out on a narrow terminal: those with a larger number
    /// first, and those with 0 never.
    pub(crate) drop: u32,
}

impl Column {
    /// Creates a column of text, aligned left, that is always shown.
    pub fn text(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            right: false,
            drop: 0,
        }
    }

    /// Creates a column of numbers, aligned right, that is always shown. A line break in a title is
    /// kept: the unit is below it.
    pub fn number(title: &str) -> Self {
        Self {
            right: true,
            ..Self::text(title)
        }
    }

    /// Returns the same column, which is left out if the table does not fit. Columns with the
    /// largest `order` are left out first, and the rightmost of equal ones.
    pub fn dropped(self, order: u32) -> Self {
        Self {
            drop: order,
            ..self
        }
    }
}

impl ReportTable {
    /// Creates a table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns the same table, in which the first column is the name of a group of rows if
    /// `grouped` is true. It is empty in all rows of the group except the first.
    pub(crate) fn grouped(self, grouped: bool) -> Self {
        Self { grouped, ..self }
    }

    /// Adds a row. Missing cells are empty, and surplus cells are not shown.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.push(cells, false);
    }

    /// Adds a row that is emphasised on a page. On a terminal it looks like any other.
    pub fn strong_row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.push(cells, true);
    }

    /// Adds a row whose cells have a quality, which is shown on a page.
    pub fn toned_row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        let (cells, tones): (Vec<String>, Vec<Tone>) = cells.into_iter().unzip();
        self.push(cells, false);
        if let Some(row) = self.rows.last_mut() {
            row.tones = tones;
        }
    }

    /// Returns the table as lines of at most `width` columns, in plain characters without colour.
    ///
    /// If the table does not fit, columns are left out in the order that they state, and then the
    /// cells are wrapped.
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
        let whole = self.words(&shown, width);
        for (at, i) in shown.iter().enumerate() {
            let column = table.column_mut(at).expect("the header made every column");
            // Together with the space between columns, this padding makes a gap of two.
            column.set_padding((u16::from(at > 0), 0));
            if self.columns[*i].right {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if let Some(words) = &whole {
                let least = words[at] + usize::from(at > 0);
                let least = u16::try_from(least).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
        let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
        lines.collect()
    }

    fn push<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>, strong: bool) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        // Every row has a cell for each column, so that columns can be indexed.
        cells.resize(self.columns.len(), String::new());
        self.rows.push(TableRow {
            cells,
            tones: Vec::new(),
            strong,
        });
    }

    /// Returns the columns that are shown within `width`, in their order.
    fn fitting(&self, width: usize) -> Vec<usize> {
        let mut shown = self.filled();
        while shown.iter().map(|i| self.width(*i) + GAP).sum::<usize>() > width.saturating_add(GAP)
        {
            let next = shown.iter().enumerate();
            // Of equal columns, `max_by_key` returns the last one, which is the rightmost.
            let next = next.max_by_key(|(_, i)| self.columns[**i].drop);
            match next {
                Some((at, i)) if self.columns[*i].drop > 0 => _ = shown.remove(at),
                // All remaining columns must stay, so that their cells are wrapped instead.
                _ => break,
            }
        }
        shown
    }

    /// Returns the columns with contents, in their order. A column that may be left out is left out
    /// if all its cells are empty.
    pub(crate) fn filled(&self) -> Vec<usize> {
        let says = |i: usize| self.rows.iter().any(|row| !row.cells[i].is_empty());
        let stays = |i: &usize| self.columns[*i].drop == 0 || self.rows.is_empty() || says(*i);
        (0..self.columns.len()).filter(stays).collect()
    }

    /// Returns the length of each column's longest word if lines of `width` have space for them, so
    /// that no word is cut.
    fn words(&self, shown: &[usize], width: usize) -> Option<Vec<usize>> {
        let longest = |i: &usize| {
            let cells = self.rows.iter().map(|row| &row.cells[*i]);
            let words = cells.chain([&self.columns[*i].title]);
            let words = words.flat_map(|cell| cell.split([' ', '\n']).map(|w| w.chars().count()));
            words.max().unwrap_or(0)
        };
        let words: Vec<usize> = shown.iter().map(longest).collect();
        let all = words.iter().map(|w| w + GAP).sum::<usize>();
        (all <= width.saturating_add(GAP)).then_some(words)
    }

    /// Returns the width of a column's widest cell.
    fn width(&self, i: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row.cells[i]);
        let widths = cells
            .chain([&self.columns[i].title])
            .flat_map(|c| c.split('\n').map(|line| line.chars().count()));
        widths.max().unwrap_or(0)
    }
}

/// The width for output that no terminal bounds. No column is left out and no name is cut. Running
/// text has 80 columns.
pub const NO_TERMINAL: usize = usize::MAX;

/// Breaks `text` into lines of at most `width`, if its words permit. Each line ends with a line
/// break.
pub fn wrap(text: &str, width: usize) -> String {
    // A paragraph in one line would be unreadable in a file.
    let width = if width == NO_TERMINAL { 80 } else { width };
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

/// Returns a client in running text: `the random reader`, or only the name if it contains a digit,
/// as in `share-1`.
pub fn named(client: &str) -> String {
    if client.contains(|c: char| c.is_ascii_digit()) {
        client.to_owned()
    } else {
        format!("the {client}")
    }
}

/// Returns the text with a capital letter at the beginning.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns the width of the terminal from the environment variable `COLUMNS`, if that is a number
/// from 20 to 1000.
pub fn terminal_width() -> Option<usize> {
    width_of(std::env::var("COLUMNS").ok().as_deref())
}

fn width_of(columns: Option<&str>) -> Option<usize> {
    let columns = columns.and_then(|c| c.trim().parse().ok());
    // Other values are mistakes of the environment.
    columns.filter(|c| (20..=1000).contains(c))
}

/// The number of spaces between two columns.
const GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_width_is_ignored() {
        let widths = [
            None,
            Some("120"),
            Some(" 40 "),
            Some("0"),
            Some("-1"),
            Some("many"),
            Some("99999999"),
        ];
        let sensible = [None, Some(120), Some(40), None, None, None, None];
        assert_eq!(widths.map(width_of), sensible);
    }

    #[test]
    fn cells_are_wrapped_between_words_while_the_words_fit() {
        let mut table = ReportTable::new([Column::text("drive"), Column::text("what it is")]);
        table.row([
            "plextor-px-256m5s",
            "a flash drive of 2012 with a controller",
        ]);
        // The longest words of both columns and the gap need less than 34 columns.
        let text = table.text(34);
        for word in "plextor-px-256m5s a flash drive of 2012 with controller".split(' ') {
            assert!(text.split_whitespace().any(|w| w == word), "{text}");
        }
    }

    #[test]
    fn output_without_a_terminal_has_whole_tables_and_texts_of_80_columns() {
        let name = "a-name-of-a-drive-that-is-longer-than-any-terminal".repeat(3);
        let mut table = ReportTable::new([Column::text("name"), Column::text("about").dropped(1)]);
        table.row([name.as_str(), "what it is"]);
        let text = table.text(NO_TERMINAL);
        assert!(text.contains(&format!("{name}  what it is\n")), "{text}");
        let text = "word ".repeat(100);
        let lines = wrap(&text, NO_TERMINAL);
        assert!(lines.lines().all(|line| line.len() <= 80), "{lines}");
    }
}
