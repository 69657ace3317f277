//! The dashboard, a page with its scripts, and the manual that it links to. All files come from
//! this server.

use std::path::PathBuf;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower_http::services::ServeDir;
use tower_http::set_header::SetResponseHeader;
use weir_config::Manage;

use crate::error::RequestRefusal;

/// The directory in which the package installs the manual.
const INSTALLED: &str = "/usr/share/doc/weir/html";

/// The content security policy of the dashboard. It permits only the scripts of this server, no
/// HTML made from text, and connections to this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The content security policy of the manual, whose pages contain inline scripts and styles. Other
/// files are loaded from this server only.
const MANUAL_POLICY: &str = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
/// The files of the dashboard: name, content type and content.
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

/// Returns true if a path belongs to the dashboard or the manual. They contain no secrets and
/// therefore need no token.
pub(crate) fn is_page(path: &str) -> bool {
    let begins = |folder| path.starts_with(folder);
    path == "/" || begins("/dashboard/") || path == "/manual" || begins("/manual/")
}

/// Checks that the configured directory contains a manual.
///
/// # Errors
/// Returns the problem and its remedy.
pub(crate) fn check(manage: &Manage) -> Result<(), String> {
    let lacking = manage
        .manual
        .iter()
        .find(|path| !path.join("index.html").is_file());
    lacking.map_or(Ok(()), |path| {
        let path = path.display();
        Err(format!(
            "manage.manual: {path} contains no index.html; run `packaging/book {path}` in Weir's sources, or remove the key"
        ))
    })
}

/// Returns the routes of the dashboard, and of the manual if there is one.
pub(crate) fn router<S: Clone + Send + Sync + 'static>(manage: &Manage) -> Router<S> {
    let router = Router::new().route("/dashboard/{file}", get(file));
    let Some(manual) = manual(manage) else {
        // Without the class, the page hides its links to the manual.
        return router.route("/", get(async || page("")));
    };
    let policy = HeaderValue::from_static(MANUAL_POLICY);
    let files = ServeDir::new(manual);
    let files = SetResponseHeader::overriding(files, CONTENT_SECURITY_POLICY, policy);
    router
        .route("/", get(async || page(" class=\"with-manual\"")))
        .nest_service("/manual", files)
}

/// Returns the directory of the manual: the configured one, or that of the package if it exists.
fn manual(manage: &Manage) -> Option<PathBuf> {
    let installed =
        || Some(PathBuf::from(INSTALLED)).filter(|path| path.join("index.html").is_file());
    manage.manual.clone().or_else(installed)
}

/// Returns the page. The style sheet hides the links to the manual unless the body has the class
/// `with-manual`.
fn page(class: &str) -> Response {
    let text = include_str!("dashboard/index.html").replace("<body>", &format!("<body{class}>"));
    answer("text/html; charset=utf-8", text)
}

/// Returns a file of the dashboard.
async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|file| file.0 == name) {
        Some((_, kind, text)) => answer(kind, *text),
        None => RequestRefusal::not_found(&format!("{name:?} in the dashboard")).into_response(),
    }
}

fn answer(kind: &'static str, text: impl Into<Body>) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    ];
    (headers, text.into()).into_response()
}

#[cfg(test)]
mod tests {
    use super::{FILES, check};
    use weir_config::Manage;
    use weir_measure::promise::Cause;

    #[test]
    fn a_directory_without_a_manual_is_refused() {
        assert_eq!(check(&Manage::default()), Ok(()));
        let manual = Some("/nowhere".into());
        let refused = check(&Manage {
            manual,
            ..Manage::default()
        });
        assert!(refused.is_err_and(|why| why.contains("/nowhere contains no index.html")));
    }

    #[test]
    fn causes_have_the_words_of_all_other_outputs() {
        let (.., text) = FILES.iter().find(|file| file.0 == "words.js").unwrap();
        for cause in Cause::ALL {
            let line = format!("  \"{}\": \"{}\",\n", cause.name(), cause.words());
            assert!(text.contains(&line), "{line}");
        }
    }
}
