//! The `OpenAPI` document. A test generates it from the types of the interface and the annotations
//! of the routes, and writes it if `WEIR_BLESS=1` is set. The generator is therefore not part of
//! the program.

/// The document in JSON format.
pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

#[cfg(all(test, feature = "openapi"))]
mod tests {
    use utoipa::OpenApi;

    use crate::route::{ask, change, events};

    #[derive(OpenApi)]
    #[openapi(
        info(
            title = "Weir",
            description = "State and changes of a running server. The interface is available over the Unix socket of [manage] to authorised \
                           processes, and over a loopback address with the access token in the header: Authorization: Bearer TOKEN.",
            license(name = "Apache-2.0 OR MIT"),
            contact(),
        ),
        paths(
            ask::status,
            ask::list,
            ask::show,
            ask::explain,
            change::add,
            change::set,
            change::remove,
            change::change,
            change::changes,
            change::undo,
            change::reload,
            change::upgrade,
            ask::config,
            events::events,
            ask::history,
            ask::short,
            ask::metrics,
            ask::healthy,
            ask::ready,
        ),
        components(schemas(
            crate::api::Event,
            crate::api::Outcome,
            crate::api::Second,
            crate::api::ShortSecond
        ))
    )]
    struct Document;

    #[test]
    fn the_document_matches_the_types() {
        let made = Document::openapi().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("WEIR_BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/openapi.json");
            std::fs::write(path, &made).unwrap();
        } else {
            assert!(made == super::DOCUMENT, "WEIR_BLESS=1 writes it anew");
        }
    }
}
