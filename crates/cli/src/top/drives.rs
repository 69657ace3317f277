//! Draws two lines for each drive: its load, and its promised and remaining capacity.

use super::figure::{percent, rate, requests};
use super::look::{ScreenStyle, clipped, counted, draw_sparkline};
use super::state::TopState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use weir_manage::api::{Budget, Drive};

/// Draws the first `shown` drives, and the number of the others.
pub(super) fn draw_drives(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &TopState,
    shown: usize,
    look: ScreenStyle,
) {
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
        frame.render_widget(Line::raw(clipped(&text, words.width)), words);
        // The load is in thousandths, so a full bar is 100 %.
        draw_sparkline(frame, plot, &state.busy(&drive.name), Some(1000), look);
        let budget_text = budget_text(drive.budget.as_ref());
        frame.render_widget(Line::raw(clipped(&budget_text, budget.width)), budget);
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

/// Returns the promised and the remaining capacity of a drive.
pub(super) fn budget_text(budget: Option<&Budget>) -> String {
    let Some(budget) = budget else {
        return "  its capacity is unknown, so that nothing can be promised".to_owned();
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
