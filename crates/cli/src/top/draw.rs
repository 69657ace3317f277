//! Draws the screen. It depends on nothing but the state.

use super::drives::draw_drives;
use super::figure::{count, duration, percent, rate, requests};
use super::look::{NAME_MIN, ScreenStyle, WIDE, clipped, counted, draw_sparkline};
use super::row::{RowKind, TopRow};
use super::state::TopState;
use super::table::draw_table;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

/// The largest number of drives that are shown on a tall and on a short screen. The others are
/// counted.
const DRIVES: [usize; 2] = [4, 2];
/// The smallest number of lines of a tall screen.
const HIGH: u16 = 30;

const KEYS: &str = "\
up, down, j, k  choose a row       left, right  sort by another column
page up, down   by a screen        r            reverse the order
home, end       first, last        /            filter: by name, drive, tenant,
tab             tenants, volumes                what limits, as own-max
q               end                escape       no filter

PART, SHARE  of the drive's bytes in the last second, and its part by share
LIMIT        mean time of a request held by its own max or its tenant's,
ELEV, DRIVE  in the elevator behind others, and in the drive
LIMITED BY   what kept it from more in the last second
SHORT        seconds in which the promise was not kept; !: the last one";

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut TopState, look: ScreenStyle) {
    let all = state.status().drives.len();
    let shown = all.min(DRIVES[usize::from(frame.area().height < HIGH)]);
    // Each drive has two lines, and another line counts the drives that are not shown.
    let more = usize::from(all > shown);
    let heights = [
        Constraint::Length(1),
        Constraint::Length((2 * shown + more) as u16),
        Constraint::Min(2),
        Constraint::Length(2),
        Constraint::Length(1),
    ];
    let [head, drives, table, detail, foot] = Layout::vertical(heights).areas(frame.area());
    // The heading of the table takes one line.
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

/// Draws the first line: the state of the server, or the reason why it does not reply.
fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &TopState, look: ScreenStyle) {
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
        parts.push("A SHARD DOES NOT RESPOND".to_owned());
    }
    if status.unsaved {
        parts.push("changes in memory only".to_owned());
    }
    if let Some(short) = state.last_short() {
        let cause = with_neighbour(&short.cause, short.neighbour.as_deref());
        parts.push(format!("last short: {} ({cause})", short.of));
    }
    let style = Style::new().add_modifier(Modifier::BOLD);
    let text = clipped(&parts.join("  "), area.width);
    frame.render_widget(Line::styled(text, style), area);
}

/// Draws the contract of the selected row, and details of it.
fn draw_detail(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &TopState,
    row: &TopRow<'_>,
    look: ScreenStyle,
) {
    let [first, second] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let terms = format!(": {}", terms(row));
    let left = area.width.saturating_sub(terms.chars().count() as u16);
    let text = clipped(row.name, left.max(NAME_MIN)) + &terms;
    let text = clipped(&text, first.width);
    frame.render_widget(
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD)),
        first,
    );
    let more = more(row);
    let width = area.width.min(more.chars().count() as u16 + 2);
    let [words, plot] =
        Layout::horizontal([Constraint::Length(width), Constraint::Min(0)]).areas(second);
    frame.render_widget(Line::raw(clipped(&more, words.width)), words);
    // Wide screens have a sparkline in each row instead.
    if area.width < WIDE {
        draw_sparkline(frame, plot, &state.history(row), None, look);
    }
}

/// Returns a contract in words.
fn terms(row: &TopRow<'_>) -> String {
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
    let mut parts = vec![match (min, row.volume.and_then(|volume| volume.now.part)) {
        (None, _) => "no min".to_owned(),
        (Some(min), None) => format!("min {min}"),
        (Some(min), Some(part)) => format!("min {min} of which {:.1} % here", 100.0 * part),
    }];
    parts.push(format!("share {}", contract.share));
    parts.extend(max.map(|max| format!("max {max}")));
    parts.push(contract.class.clone());
    parts.push(format!("drive {}", row.drive));
    parts.extend(row.tenant.map(|tenant| format!("tenant {tenant}")));
    parts.join(", ")
}

/// Returns the details of a row: short seconds by cause, the limiting cause, and waiting requests.
fn more(row: &TopRow<'_>) -> String {
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
        match (now.limited_by.as_deref(), now.neighbour.as_deref()) {
            (Some("client-idle"), _) => {
                let idle = percent(now.idle);
                parts.push(format!("its client had nothing outstanding for {idle}"));
            }
            (Some(cause), Some(name)) => {
                parts.push(format!("limited by {}", with_neighbour(cause, Some(name))));
            }
            _ => {}
        }
        if now.sync_failed {
            parts.push("A FLUSH HAS FAILED: restart the server".to_owned());
        }
        parts.extend(volume.block_device.clone());
        parts.push(counted(now.connections as usize, "client"));
        if now.queue > 0 {
            parts.push(format!("oldest {} ms", now.oldest_ms));
        }
    }
    format!("  {}", parts.join("; "))
}

/// Returns a cause with the name of the neighbour, if there is one.
fn with_neighbour(cause: &str, neighbour: Option<&str>) -> String {
    neighbour.map_or_else(|| cause.to_owned(), |name| format!("{cause} {name}"))
}

/// Draws the last line: the order, the filter and the most important keys.
fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &TopState, look: ScreenStyle) {
    let (filter, typing) = state.filter();
    let mut spans = Vec::new();
    if typing {
        spans.push(Span::raw(format!(
            "filter: {filter}_  (enter keeps it, escape ends it)"
        )));
    } else {
        let other = match state.kind() {
            RowKind::Volumes => "tenants",
            RowKind::Tenants => "volumes",
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

/// Draws the explanation of all keys and columns over the middle of the screen.
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
