//! The `OpenAPI` document: made from the types that the server answers with.

/// The document, as JSON.
pub(crate) fn document() -> String {
    String::new()
}
