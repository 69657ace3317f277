//! Draws the table of rows: the part around the selected row that fits on the screen.

use super::look::{NAME_MIN, ScreenStyle, WIDE, clipped, draw_sparkline};
use super::row::{TopColumn, TopRow};
use super::state::TopState;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Table, TableState};

/// The width of a row's sparkline, in columns.
const SPARKLINE: u16 = 24;
/// Draws the table. `place` is the index of the selected row.
pub(super) fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &TopState,
    (rows, place): (&[TopRow<'_>], usize),
    look: ScreenStyle,
) {
    let wide = area.width >= WIDE;
    let columns = TopColumn::shown(area.width);
    let mut widths: Vec<Constraint> = columns
        .iter()
        .map(|column| match column.look().1 {
            0 => Constraint::Min(NAME_MIN),
            width => Constraint::Length(width),
        })
        .collect();
    if wide {
        widths.push(Constraint::Length(SPARKLINE));
    }
    let (sort, _) = state.sort();
    let head = columns.iter().map(|column| {
        let (title, _) = column.look();
        let style = if *column == sort {
            Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
        } else {
            Style::new()
        };
        aligned(*column, title.to_owned()).style(style)
    });
    let head = ratatui::widgets::Row::new(head).style(look.coloured(Color::Cyan));
    let height = usize::from(area.height).saturating_sub(1);
    // Only rows that fit are formatted, because there can be thousands. The selected row is in the
    // middle, except near the ends.
    let first = place
        .saturating_sub(height / 2)
        .min(rows.len().saturating_sub(height));
    let shown = rows.iter().skip(first).take(height);
    let name_width = name_width(area.width, &columns, wide);
    let table = Table::new(
        shown
            .clone()
            .map(|row| table_row(row, &columns, name_width, look)),
        widths.clone(),
    )
    .header(head)
    .column_spacing(1)
    .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut chosen = TableState::new().with_selected((!rows.is_empty()).then_some(place - first));
    frame.render_stateful_widget(table, area, &mut chosen);
    if wide {
        let x = area.right().saturating_sub(SPARKLINE);
        for (row, y) in shown.zip(area.y + 1..area.bottom()) {
            let plot = Rect::new(x, y, SPARKLINE, 1);
            draw_sparkline(frame, plot, &state.history(row), None, look);
        }
    }
    if rows.is_empty() {
        let below = Rect::new(area.x, area.y + 1, area.width, 1).intersection(area);
        frame.render_widget(Line::raw("nothing to show"), below);
    }
}

/// Returns the number of columns that remain for names.
fn name_width(all: u16, columns: &[TopColumn], wide: bool) -> u16 {
    let others = columns.iter().map(|column| column.look().1).sum::<u16>();
    // A space is between any two columns.
    let gaps = columns.len() as u16 - 1;
    let sparkline = if wide { SPARKLINE + 1 } else { 0 };
    all.saturating_sub(others + gaps + sparkline).max(NAME_MIN)
}

fn table_row(
    row: &TopRow<'_>,
    columns: &[TopColumn],
    name_width: u16,
    look: ScreenStyle,
) -> ratatui::widgets::Row<'static> {
    let cells = columns.iter().map(|&column| {
        let text = row.cell(column);
        let text = match column {
            TopColumn::Name => clipped(&text, name_width),
            _ => text,
        };
        let cell = aligned(column, text);
        let is_short =
            row.short_now.is_some() && matches!(column, TopColumn::Short | TopColumn::Got);
        if is_short || column == TopColumn::By && row.has_failed() {
            cell.style(look.bad())
        } else {
            cell
        }
    });
    ratatui::widgets::Row::new(cells)
}

fn aligned(column: TopColumn, text: String) -> Cell<'static> {
    let alignment = if column.is_text() {
        Alignment::Left
    } else {
        Alignment::Right
    };
    Cell::new(Text::from(text).alignment(alignment))
}
