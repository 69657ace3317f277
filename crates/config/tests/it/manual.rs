//! Checks that `docs/configuration.md` and `docs/scenarios.md` agree with the parser's tables.

use crate::common::held;

use weir_config::manual;

#[test]
fn the_pages_match_the_tables() {
    held::check("../../docs/configuration.md", &manual::page());
    held::check("../../docs/scenarios.md", &manual::scenarios());
}
