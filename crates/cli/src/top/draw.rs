//! The screen, from the state alone.

use super::figure::{count, duration, percent, rate, requests};
use super::row::{Column, Kind, Row};
use super::state::State;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{
    Block, Cell, Clear, Paragraph, RenderDirection, Sparkline, Table, TableState,
};
use weir_api::{Budget, Drive};

/// Fewest columns at which rows have a sparkline, and its width.
const WIDE: u16 = 110;
const SPARKLINE: u16 = 24;
/// Fewest columns that a name has.
pub(super) const NAME_MIN: u16 = 10;
/// Most drives that are shown, on a high screen and on a low one; the others are counted.
const DRIVES: [usize; 2] = [4, 2];
/// Fewest lines of a high screen.
const HIGH: u16 = 30;

const KEYS: &str = "\
up, down, j, k  choose a row       left, right  sort by another column
page up, down   by a screen        r            reverse the order
home, end       first, last        /            filter: by name, drive, tenant,
tab             tenants, volumes                limit, others, drive, nothing
q               end                escape       no filter

PART, SHARE  of the drive's bytes in the last second, and its part by share
LIMIT        mean time of a request held by its own max or its tenant's,
ELEV, DRIVE  in the elevator behind others, and in the drive
BY           where most of that time is spent
SHORT        seconds in which the promise was not kept; !: the last one";

/// How it may look. Nothing is said by colour alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) colour: bool,
}

impl Look {
    fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, look: Look) {
    let all = state.status().drives.len();
    let shown = all.min(DRIVES[usize::from(frame.area().height < HIGH)]);
    let more = usize::from(all > shown);
    let heights = [
        Constraint::Length(1),
        Constraint::Length((2 * shown + more) as u16),
        Constraint::Min(2),
        Constraint::Length(2),
        Constraint::Length(1),
    ];
    let [head, drives, table, detail, foot] = Layout::vertical(heights).areas(frame.area());
    state.set_page(usize::from(table.height).saturating_sub(1));
    draw_head(frame, head, state, look);
    draw_drives(frame, drives, state, shown, look);
    let rows = state.rows();
    let place = state.place(&rows);
    draw_table(frame, table, state, (&rows, place), look);
    if let Some(row) = rows.get(place) {
        draw_detail(frame, detail, state, row, look);
    }
    draw_foot(frame, foot, state, look);
    if state.is_helping() {
        draw_help(frame);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    let status = state.status();
    if let Some(why) = state.lost() {
        let said = format!("NOT CONNECTED, trying again: {why}");
        frame.render_widget(Line::styled(said, look.bad()), area);
        return;
    }
    let mut parts = vec![
        format!("weir {}", status.version),
        format!("up {}", duration(status.uptime_seconds)),
    ];
    parts.push(counted(status.volumes.len(), "volume"));
    if !status.tenants.is_empty() {
        parts.push(counted(status.tenants.len(), "tenant"));
    }
    if !status.ready {
        parts.push("A SHARD DOES NOT ANSWER".to_owned());
    }
    if status.unsaved {
        parts.push("changes in memory only".to_owned());
    }
    if let Some(short) = state.last_short() {
        parts.push(format!("last short: {} ({})", short.of, short.reason));
    }
    let style = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(parts.join("  "), style), area);
}

fn counted(number: usize, word: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {word}{s}")
}

fn draw_drives(frame: &mut Frame<'_>, area: Rect, state: &State, shown: usize, look: Look) {
    let drives = &state.status().drives;
    let mut top = area;
    for drive in drives.iter().take(shown) {
        let [now, budget, rest] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
        ])
        .areas(top);
        top = rest;
        let text = drive_text(drive);
        let left = area.width.saturating_sub(text.len() as u16 + 2);
        let text_width = area.width - left.min(area.width);
        let [words, plot] =
            Layout::horizontal([Constraint::Length(text_width), Constraint::Min(0)]).areas(now);
        frame.render_widget(Line::raw(text), words);
        draw_sparkline(frame, plot, &state.busy(&drive.name), Some(1000), look);
        frame.render_widget(Line::raw(budget_text(drive.budget.as_ref())), budget);
    }
    if drives.len() > shown {
        let more = format!("and {} more", counted(drives.len() - shown, "drive"));
        frame.render_widget(Line::raw(more), top);
    }
}

fn drive_text(drive: &Drive) -> String {
    let now = &drive.now;
    format!(
        "drive {}  {} busy  {}  {}  {} waiting, {} in the drive",
        drive.name,
        percent(now.busy),
        rate(now.bytes_per_second),
        requests(now.requests_per_second),
        now.queue.saturating_sub(now.in_flight),
        now.in_flight
    )
}

/// What of a drive is promised and what is left.
pub(super) fn budget_text(budget: Option<&Budget>) -> String {
    let Some(budget) = budget else {
        return "  its capacity is not known: nothing can be promised".to_owned();
    };
    let mut promised = vec![rate(budget.promised_bytes_per_second)];
    if budget.promised_requests_per_second > 0 {
        promised.push(requests(budget.promised_requests_per_second));
    }
    let mut left = vec![rate(budget.left_bytes_per_second)];
    if budget.requests_per_second > 0 {
        left.push(requests(budget.left_requests_per_second));
    }
    format!(
        "  promised {}, {} of its time; left {}",
        promised.join(" and "),
        percent(budget.promised_millionths as f64 / 1e6),
        left.join(" or ")
    )
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &State,
    (rows, place): (&[Row<'_>], usize),
    look: Look,
) {
    let wide = area.width >= WIDE;
    let mut widths: Vec<Constraint> = Column::ALL
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
    let head = Column::ALL.iter().map(|column| {
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
    // Around the chosen row, and only what fits: there may be thousands.
    let first = place
        .saturating_sub(height / 2)
        .min(rows.len().saturating_sub(height));
    let shown = rows.iter().skip(first).take(height);
    let name_width = name_width(area.width, wide);
    let table = Table::new(
        shown.clone().map(|row| table_row(row, name_width, look)),
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

/// Columns that are left for names.
fn name_width(all: u16, wide: bool) -> u16 {
    let others = Column::ALL
        .iter()
        .map(|column| column.look().1)
        .sum::<u16>();
    // A space between any two.
    let gaps = Column::ALL.len() as u16 - 1;
    let sparkline = if wide { SPARKLINE + 1 } else { 0 };
    all.saturating_sub(others + gaps + sparkline).max(NAME_MIN)
}

/// A name that fits, with a mark where it was cut.
pub(super) fn clipped(name: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(name).width() <= width {
        return name.to_owned();
    }
    let mut clipped = String::new();
    for c in name.chars() {
        clipped.push(c);
        if Span::raw(clipped.as_str()).width() >= width {
            clipped.pop();
            break;
        }
    }
    clipped + "…"
}

fn table_row(row: &Row<'_>, name_width: u16, look: Look) -> ratatui::widgets::Row<'static> {
    let cells = Column::ALL.map(|column| {
        let text = row.cell(column);
        let text = match column {
            Column::Name => clipped(&text, name_width),
            _ => text,
        };
        let cell = aligned(column, text);
        let is_short = row.short_now.is_some() && matches!(column, Column::Short | Column::Got);
        if is_short || column == Column::By && row.has_failed() {
            cell.style(look.bad())
        } else {
            cell
        }
    });
    ratatui::widgets::Row::new(cells)
}

fn aligned(column: Column, text: String) -> Cell<'static> {
    let alignment = if column.is_text() {
        Alignment::Left
    } else {
        Alignment::Right
    };
    Cell::new(Text::from(text).alignment(alignment))
}

/// The last seconds that fit, the last one at the right.
fn draw_sparkline(
    frame: &mut Frame<'_>,
    area: Rect,
    values: &[u64],
    most: Option<u64>,
    look: Look,
) {
    let values = values.iter().rev().take(usize::from(area.width));
    let mut sparkline = Sparkline::default()
        .data(values.copied())
        .direction(RenderDirection::RightToLeft)
        .style(look.coloured(Color::Blue));
    if let Some(most) = most {
        sparkline = sparkline.max(most);
    }
    frame.render_widget(sparkline, area);
}

/// The contract of the chosen row, and more of it.
fn draw_detail(frame: &mut Frame<'_>, area: Rect, state: &State, row: &Row<'_>, look: Look) {
    let [first, second] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let terms = format!(": {}", terms(row));
    let left = area.width.saturating_sub(terms.chars().count() as u16);
    let text = clipped(row.name, left.max(NAME_MIN)) + &terms;
    frame.render_widget(
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD)),
        first,
    );
    let more = more(row);
    let width = area.width.min(more.chars().count() as u16 + 2);
    let [words, plot] =
        Layout::horizontal([Constraint::Length(width), Constraint::Min(0)]).areas(second);
    frame.render_widget(Line::raw(more), words);
    if area.width < WIDE {
        draw_sparkline(frame, plot, &state.history(row), None, look);
    }
}

/// A contract in words.
fn terms(row: &Row<'_>) -> String {
    let contract = row.contract;
    let both = |bytes: u64, per_second: u64| {
        let bytes = (bytes > 0).then(|| rate(bytes));
        let per_second = (per_second > 0).then(|| requests(per_second));
        let parts: Vec<String> = bytes.into_iter().chain(per_second).collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    };
    let min = both(
        contract.min_bytes_per_second,
        contract.min_requests_per_second,
    );
    let max = both(
        contract.max_bytes_per_second,
        contract.max_requests_per_second,
    );
    let mut parts = vec![min.map_or_else(|| "no min".to_owned(), |min| format!("min {min}"))];
    parts.push(format!("share {}", contract.share));
    parts.extend(max.map(|max| format!("max {max}")));
    parts.push(contract.class.clone());
    parts.push(format!("drive {}", row.drive));
    parts.extend(row.tenant.map(|tenant| format!("tenant {tenant}")));
    parts.join(", ")
}

/// Short seconds by cause, and what waits.
fn more(row: &Row<'_>) -> String {
    let mut parts = Vec::new();
    if let Some(seconds) = row.seconds() {
        let short = seconds.short.iter().map(|(why, n)| format!("{n} {why}"));
        let short: Vec<String> = short.collect();
        if !short.is_empty() {
            parts.push(format!("short: {}", short.join(", ")));
        }
        if seconds.promised > 0 {
            parts.push(format!("kept {} s", count(seconds.kept)));
        }
    }
    if let Some(volume) = row.volume {
        let now = &volume.now;
        if now.sync_failed {
            parts.push("A FLUSH HAS FAILED: restart the server".to_owned());
        }
        parts.push(counted(now.connections as usize, "client"));
        if now.queue > 0 {
            parts.push(format!("oldest {} ms", now.oldest_ms));
        }
    }
    format!("  {}", parts.join("; "))
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    let (filter, typing) = state.filter();
    let mut spans = Vec::new();
    if typing {
        spans.push(Span::raw(format!(
            "filter: {filter}_  (enter keeps it, escape ends it)"
        )));
    } else {
        let other = match state.kind() {
            Kind::Volumes => "tenants",
            Kind::Tenants => "volumes",
        };
        let (sort, reverse) = state.sort();
        let order = if reverse { ", reversed" } else { "" };
        spans.push(Span::raw(format!("sorted by {}{order}", sort.look().0)));
        if !filter.is_empty() {
            spans.push(Span::styled(
                format!("  filter: {filter}"),
                look.coloured(Color::Yellow),
            ));
        }
        spans.push(Span::raw(format!(
            "  [q]uit [/]filter [<-][->]sort [r]everse [tab]{other} [?]help"
        )));
    }
    frame.render_widget(Line::from(spans), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let height = KEYS.lines().count() as u16 + 2;
    let width = KEYS
        .lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0) as u16
        + 2;
    let (width, height) = (width.min(area.width), height.min(area.height));
    let at = Rect::new(
        (area.width - width) / 2,
        (area.height - height) / 2,
        width,
        height,
    );
    frame.render_widget(Clear, at);
    frame.render_widget(Paragraph::new(KEYS).block(Block::bordered()), at);
}
