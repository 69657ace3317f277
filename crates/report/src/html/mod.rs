//! A self-contained page: it needs and requests no other file.

use std::fmt::Write;

use crate::Table;
use crate::svg::{self, Ink};

mod card;

pub use card::{Card, Gauge, Tone};

/// A page. All text is escaped; only our own plots are inserted unchanged.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Its title and first heading.
    pub title: String,
    /// The main message, in a sentence.
    pub lead: String,
    /// The introduction, by paragraph.
    pub intro: Vec<String>,
    /// Its sections.
    pub sections: Vec<Section>,
    /// The last line, such as how to reproduce the page.
    pub footer: String,
}

/// A section of a page.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Its heading; none if empty.
    pub heading: String,
    /// Its contents.
    pub blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Debug, Clone)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A heading below that of the section, with the colour of the same thing in plots.
    Heading(String, Option<Ink>),
    /// Cards side by side.
    Cards(Vec<Card>),
    /// Plots side by side, as the `html` of each kind in [`crate::svg`] makes them, with a caption below them.
    Plots(Vec<String>, String),
    /// A table.
    Table(Table),
    /// A list of terms with explanations.
    Terms(Vec<(String, String)>),
    /// Details shown on demand: a line, and what it reveals.
    Details(String, Vec<Self>),
}

impl Page {
    /// The page as HTML.
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
            put(
                &mut out,
                format_args!("<p class=\"lead\">{}</p>\n", escape(&self.lead)),
            );
        }
        for paragraph in &self.intro {
            put(&mut out, format_args!("<p>{}</p>\n", escape(paragraph)));
        }
        out.push_str("</header>\n<main>\n");
        for section in &self.sections {
            out.push_str("<section>\n");
            if !section.heading.is_empty() {
                put(
                    &mut out,
                    format_args!("<h2>{}</h2>\n", escape(&section.heading)),
                );
            }
            for block in &section.blocks {
                write_block(&mut out, block);
            }
            out.push_str("</section>\n");
        }
        out.push_str("</main>\n");
        if !self.footer.is_empty() {
            put(
                &mut out,
                format_args!("<footer><p>{}</p></footer>\n", escape(&self.footer)),
            );
        }
        put(
            &mut out,
            format_args!("<script>\n{PAGE_SCRIPT}</script>\n</body>\n</html>\n"),
        );
        out
    }
}

/// Escapes text for HTML and XML, in elements and in attributes. Characters that XML forbids become a question mark.
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
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

fn write_block(out: &mut String, block: &Block) {
    match block {
        Block::Text(text) => put(out, format_args!("<p>{}</p>\n", escape(text))),
        Block::Heading(text, ink) => {
            let swatch = ink.map_or_else(String::new, |i| {
                format!("<i class=\"plot swatch {}\"></i>", i.class())
            });
            put(out, format_args!("<h3>{swatch}{}</h3>\n", escape(text)));
        }
        Block::Cards(cards) => {
            out.push_str("<div class=\"cards\">\n");
            for card in cards {
                out.push_str(&card.html());
            }
            out.push_str("</div>\n");
        }
        Block::Plots(plots, caption) => {
            // Four in a row would be too small, and a single one below three looks incomplete.
            let class = match plots.len() {
                1 | 2 | 4 => "plots wide",
                _ => "plots",
            };
            put(
                out,
                format_args!(
                    "<figure>\n<div class=\"{class}\">\n{}</div>\n",
                    plots.concat()
                ),
            );
            if !caption.is_empty() {
                put(
                    out,
                    format_args!("<figcaption>{}</figcaption>\n", escape(caption)),
                );
            }
            out.push_str("</figure>\n");
        }
        Block::Table(table) => write_table(out, table),
        Block::Terms(terms) => {
            out.push_str("<dl>\n");
            for (term, text) in terms {
                put(
                    out,
                    format_args!("<dt>{}</dt><dd>{}</dd>\n", escape(term), escape(text)),
                );
            }
            out.push_str("</dl>\n");
        }
        Block::Details(summary, blocks) => {
            put(
                out,
                format_args!("<details>\n<summary>{}</summary>\n", escape(summary)),
            );
            for block in blocks {
                write_block(out, block);
            }
            out.push_str("</details>\n");
        }
    }
}

fn write_table(out: &mut String, table: &Table) {
    let class = |i: usize| {
        if table.columns[i].right {
            " class=\"n\""
        } else {
            ""
        }
    };
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    let shown = table.filled();
    for &i in &shown {
        let column = &table.columns[i];
        put(
            out,
            format_args!("<th{}>{}</th>", class(i), escape(&column.title)),
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str(if row.strong {
            "<tr class=\"strong\">"
        } else {
            "<tr>"
        });
        for &i in &shown {
            let cell = escape(&row.cells[i]);
            match row.tones.get(i).copied().unwrap_or_default() {
                Tone::Plain => put(out, format_args!("<td{}>{cell}</td>", class(i))),
                Tone::Good => put(out, format_args!("<td class=\"good\">\u{2713} {cell}</td>")),
                Tone::Bad => put(out, format_args!("<td class=\"bad\">\u{2717} {cell}</td>")),
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory takes every byte");
}

const PAGE_STYLE: &str = include_str!("page.css");
const PAGE_SCRIPT: &str = include_str!("page.js");
