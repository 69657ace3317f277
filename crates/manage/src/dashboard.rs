//! The dashboard: one page with its files, from this server alone.

use axum::extract::Path;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::error::Refused;

/// The page runs the files that are here and nothing else, makes no HTML of texts, and speaks with this server alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
/// Files by their names, with their kinds.
const FILES: [(&str, &str, &str); 8] = [
    ("change.js", SCRIPT, include_str!("dashboard/change.js")),
    ("drives.js", SCRIPT, include_str!("dashboard/drives.js")),
    ("main.js", SCRIPT, include_str!("dashboard/main.js")),
    ("plot.js", SCRIPT, include_str!("dashboard/plot.js")),
    ("rows.js", SCRIPT, include_str!("dashboard/rows.js")),
    ("server.js", SCRIPT, include_str!("dashboard/server.js")),
    ("words.js", SCRIPT, include_str!("dashboard/words.js")),
    (
        "style.css",
        "text/css; charset=utf-8",
        include_str!("dashboard/style.css"),
    ),
];

/// Whether a path is of the dashboard: it has no secrets, so it needs none.
pub(crate) fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with("/dashboard/")
}

/// The page.
pub(crate) async fn page() -> Response {
    answer(
        "text/html; charset=utf-8",
        include_str!("dashboard/index.html"),
    )
}

/// A file of it.
pub(crate) async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|file| file.0 == name) {
        Some((_, kind, text)) => answer(kind, text),
        None => Refused::not_found(&format!("{name:?} in the dashboard")).into_response(),
    }
}

fn answer(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    ];
    (headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::FILES;
    use weir_measure::promise::Cause;

    #[test]
    fn causes_have_the_words_of_all_other_outputs() {
        let (.., text) = FILES.iter().find(|file| file.0 == "words.js").unwrap();
        for cause in Cause::ALL {
            let line = format!("  \"{}\": \"{}\",\n", cause.name(), cause.words());
            assert!(text.contains(&line), "{line}");
        }
    }
}
