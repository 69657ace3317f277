//! `docs/configuration.md` and `docs/scenarios.md` are what the parser's tables say; `WEIR_BLESS=1` writes them anew.

use std::fs;
use std::path::Path;
use weir_config::manual;

#[test]
fn the_pages_are_what_the_tables_say() {
    for (name, page) in [
        ("configuration.md", manual::page()),
        ("scenarios.md", manual::scenarios()),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(name);
        if std::env::var_os("WEIR_BLESS").is_some() {
            fs::write(&path, &page).expect("writable");
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let differs = committed.lines().zip(page.lines()).find(|(c, p)| c != p);
        assert!(
            committed == page,
            "docs/{name} is not what crates/config/src/key says; the first line that differs: {differs:#?}\n\
             WEIR_BLESS=1 cargo test -p weir-config --test manual writes it anew"
        );
    }
}
