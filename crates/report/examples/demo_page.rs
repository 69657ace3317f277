//! Writes the demo's page with invented figures to the given file, and prints its table: for work on their looks.

#[path = "../tests/common/sample.rs"]
mod sample;

fn main() -> std::io::Result<()> {
    let report = sample::report(15, 12);
    print!(
        "{}",
        weir_report::demo_table(&report, weir_report::terminal_width().unwrap_or(80), false)
    );
    match std::env::args().nth(1) {
        Some(path) => std::fs::write(path, weir_report::demo_page(&report)),
        None => Ok(()),
    }
}
