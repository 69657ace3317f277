//! Reports: tables for terminals, SVG plots, and self-contained HTML files. All of them are
//! functions from values to strings.
//!
//! - [`ReportTable`]: columns and rows, as text that fits a terminal or as HTML
//! - [`svg`]: plots, each of a frame with axes and marks: lines, areas, bars, stacked parts
//! - [`html`]: a page of text, cards, plots and tables that needs no other file
//! - [`demo`]: the demo's table and page
//! - [`compare`]: a comparison's tables and page
//! - [`plan`]: the report of the number of drives that clients need
//! - [`policy`]: the colours of policies
//! - [`weir_measure::number`]: numbers as text, with a fixed number of digits
//!
//! JSON Lines, the output for programs, are written by [`weir_measure::write_records`].

mod alike;
pub mod compare;
pub mod demo;
pub mod html;
pub mod plan;
pub mod policy;
mod split;
pub mod svg;
mod table;

pub use alike::alike;
pub use compare::{
    CompareReport, ComparedCell, ComparedClient, ComparedDrive, ComparedFigure, ComparedOverTime,
    ComparedRow, PAGE_BYTES, SuiteReport, compare_page, compare_table, suite_page, suite_scores,
};
pub use demo::{DemoReport, PolicyResult, demo_page, demo_table};
pub use plan::{PlanReport, PlanRow, plan_page, plan_table};
pub use table::{Column, NO_TERMINAL, ReportTable, capital, named, terminal_width, wrap};
