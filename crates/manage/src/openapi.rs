//! The `OpenAPI` document: made from the types that the server answers with, and from what stands above each route.

use utoipa::OpenApi;

use crate::route::{ask, change, events};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Weir",
        description = "How a running server stands, and changes of it. Over the Unix socket of [manage] for processes that it lets in; \
                       over loopback with the token, as Authorization: Bearer TOKEN.",
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
        ask::config,
        events::events,
        ask::metrics,
        ask::healthy,
        ask::ready,
    ),
    components(schemas(weir_api::Event, weir_api::Second, weir_api::ShortSecond))
)]
struct Document;

/// The document, as JSON.
pub(crate) fn document() -> String {
    Document::openapi().to_pretty_json().unwrap_or_default()
}
