//! Self-contained HTML pages, which need and request no other file.

use std::fmt::Write;

use crate::report::ReportTable;
use crate::report::svg::{self, Chart, Ink};

mod card;

pub use card::{Card, Gauge, Tone};

/// An HTML page. All text is escaped. Only Weir's own plots are inserted unchanged.
#[derive(Debug, Clone, Default)]
pub struct HtmlPage {
    /// The title and first heading of the page.
    pub title: String,
    /// The main message, in a sentence.
    pub lead: String,
    /// The introduction, by paragraph. Empty paragraphs are left out.
    pub intro: Vec<String>,
    /// The sections. Those without contents are left out.
    pub sections: Vec<PageSection>,
    /// The command that wrote the page, for the last line.
    pub command: String,
}

/// A section of a page.
#[derive(Debug, Clone, Default)]
pub struct PageSection {
    /// The heading of the section. An empty one is left out.
    pub heading: String,
    /// The contents of the section.
    pub blocks: Vec<PageBlock>,
}

/// A part of a section.
#[derive(Debug, Clone)]
pub enum PageBlock {
    /// A paragraph of text.
    Text(String),
    /// A heading below that of the section, with the colour of the same policy in plots.
    Heading(String, Option<Ink>),
    /// Several cards side by side.
    Cards(Vec<Card>),
    /// Plots side by side, with a caption below them. Without plots it is left out.
    Plots(Vec<Chart>, String),
    /// A table with a head.
    Table(ReportTable),
    /// A list of terms with explanations.
    Terms(Vec<(String, String)>),
    /// Details that are shown on demand: a summary line, and the blocks that it reveals.
    Details(String, Vec<Self>),
    /// Details that are shown at first and can be hidden: a summary line, and the blocks.
    OpenDetails(String, Vec<Self>),
}

macro_rules! put {
    ($out:expr, $($text:tt)*) => {
        write!($out, $($text)*).expect("memory takes every byte")
    };
}

impl HtmlPage {
    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{PAGE_STYLE}{}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n",
            svg::STYLE
        );
        if !self.lead.is_empty() {
            put!(out, "<p class=\"lead\">{}</p>\n", escape(&self.lead));
        }
        for paragraph in self.intro.iter().filter(|text| !text.is_empty()) {
            put!(out, "<p>{}</p>\n", escape(paragraph));
        }
        out.push_str("</header>\n<main>\n");
        // A section of empty plots would be a heading without contents.
        let is_empty = |b: &PageBlock| matches!(b, PageBlock::Plots(plots, _) if plots.is_empty());
        let is_shown = |s: &&PageSection| !s.blocks.iter().all(is_empty);
        for section in self.sections.iter().filter(is_shown) {
            // Cards have a background of their own.
            let is_bare = section
                .blocks
                .iter()
                .all(|b| matches!(b, PageBlock::Cards(_)));
            let class = if is_bare { " class=\"bare\"" } else { "" };
            put!(out, "<section{class}>\n");
            if !section.heading.is_empty() {
                put!(out, "<h2>{}</h2>\n", escape(&section.heading));
            }
            write_blocks(&mut out, &section.blocks);
            out.push_str("</section>\n");
        }
        let command = escape(&self.command);
        put!(
            out,
            "</main>\n<footer><p>Written by `{command}`. This page needs no network and no other file.</p></footer>\n\
             <script>\n{PAGE_SCRIPT}</script>\n</body>\n</html>\n"
        );
        out
    }
}

impl PageSection {
    /// Creates a section under a heading.
    pub fn new(heading: impl Into<String>, blocks: Vec<PageBlock>) -> Self {
        let heading = heading.into();
        Self { heading, blocks }
    }

    /// Creates the section that explains how to read a page, by paragraph.
    pub(crate) fn reading(notes: &[String]) -> Self {
        let notes = notes.iter().cloned().map(PageBlock::Text);
        Self::new("How to read this", notes.collect())
    }
}

/// Escapes text for HTML and XML, in elements and in attributes. Characters that XML forbids become
/// a question mark.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            // XML 1.0 forbids most control characters and the other two, even as references.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

fn write_blocks(out: &mut String, blocks: &[PageBlock]) {
    for block in blocks {
        match block {
            PageBlock::Text(text) => put!(out, "<p>{}</p>\n", escape(text)),
            PageBlock::Heading(text, ink) => {
                let swatch = ink.map_or_else(String::new, |i| {
                    format!("<i class=\"plot swatch {}\"></i>", i.class())
                });
                put!(out, "<h3>{swatch}{}</h3>\n", escape(text));
            }
            PageBlock::Cards(cards) => {
                let cards: String = cards.iter().map(Card::html).collect();
                put!(out, "<div class=\"cards\">\n{cards}</div>\n");
            }
            PageBlock::Plots(plots, caption) => write_plots(out, plots, caption),
            PageBlock::Table(table) => write_table(out, table),
            PageBlock::Terms(terms) => write_terms(out, terms),
            PageBlock::Details(summary, blocks) => write_details(out, "", summary, blocks),
            PageBlock::OpenDetails(summary, blocks) => write_details(out, " open", summary, blocks),
        }
    }
}

fn write_details(out: &mut String, open: &str, summary: &str, blocks: &[PageBlock]) {
    put!(
        out,
        "<details{open}>\n<summary>{}</summary>\n",
        escape(summary)
    );
    write_blocks(out, blocks);
    out.push_str("</details>\n");
}

fn write_plots(out: &mut String, plots: &[Chart], caption: &str) {
    // Four plots in a row would be too small, and a single one below three looks incomplete.
    let (class, size) = match plots.len() {
        0 => return,
        1 | 2 | 4 => ("plots wide", (520.0, 280.0)),
        _ => ("plots", (340.0, 280.0)),
    };
    let plots: String = plots.iter().map(|plot| plot.html(size)).collect();
    put!(out, "<figure>\n<div class=\"{class}\">\n{plots}</div>\n");
    if !caption.is_empty() {
        put!(out, "<figcaption>{}</figcaption>\n", escape(caption));
    }
    out.push_str("</figure>\n");
}

fn write_terms(out: &mut String, terms: &[(String, String)]) {
    out.push_str("<dl>\n");
    for (term, text) in terms {
        put!(out, "<dt>{}</dt><dd>{}</dd>\n", escape(term), escape(text));
    }
    out.push_str("</dl>\n");
}

fn write_table(out: &mut String, table: &ReportTable) {
    // The page is not bounded by a terminal, so that only empty columns are left out.
    let mut shown = table.filled();
    if table.grouped {
        shown.retain(|i| *i > 0);
    }
    let class = |i: &usize| {
        if table.columns[*i].right {
            " class=\"n\""
        } else {
            ""
        }
    };
    // Verdicts are read row by row. On a phone each row is a list, in which every cell shows the
    // title of its column.
    let is_stacked = table.rows.iter().any(|row| !row.tones.is_empty());
    let stack = if is_stacked { " class=\"stack\"" } else { "" };
    put!(out, "<div class=\"scroll\"><table{stack}>\n<thead><tr>");
    for i in &shown {
        let title = escape(table.columns[*i].title.trim());
        put!(out, "<th{}>{title}</th>", class(i));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        if table.grouped && !row.cells[0].is_empty() {
            let (columns, name) = (shown.len(), escape(&row.cells[0]));
            put!(
                out,
                "<tr class=\"group\"><td colspan=\"{columns}\">{name}</td></tr>\n"
            );
        }
        let strong = if row.strong { " class=\"strong\"" } else { "" };
        put!(out, "<tr{strong}>");
        for i in &shown {
            let cell = escape(&row.cells[*i]);
            let of = if is_stacked && !cell.is_empty() {
                let title = table.columns[*i].title.split_whitespace();
                format!(
                    " data-of=\"{}\"",
                    escape(&title.collect::<Vec<_>>().join(" "))
                )
            } else {
                String::new()
            };
            match row.tones.get(*i).copied().unwrap_or_default() {
                Tone::Plain => put!(out, "<td{}{of}>{cell}</td>", class(i)),
                Tone::Good => put!(out, "<td class=\"good\"{of}>\u{2713} {cell}</td>"),
                Tone::Bad => put!(out, "<td class=\"bad\"{of}>\u{2717} {cell}</td>"),
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

const PAGE_STYLE: &str = include_str!("page.css");
const PAGE_SCRIPT: &str = include_str!("page.js");
