//! Renderers: terminal tables, SVG plots, one self-contained HTML file. From values to strings, nothing else.
//!
//! JSON Lines, the form for machines, are `weir_measure::write_records`.

pub mod demo;

pub use demo::{BestFigure, DemoReport, PolicyResult, demo_page, demo_table, demo_table_all};
