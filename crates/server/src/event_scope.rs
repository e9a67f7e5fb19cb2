//! The namespace of an event, which determines the callers that may see it: from the cache, or else from the database
//! without blocking the runtime.

use std::sync::Arc;

use cleveragents_application::{EventScope, StoreError};
use cleveragents_domain::Event;

/// The namespace of an event; `None` when the event belongs to no namespace.
pub(crate) async fn namespace(
    scope: &EventScope,
    event: &Arc<Event>,
) -> Result<Option<Arc<str>>, StoreError> {
    if let Some(namespace) = scope.cached(event) {
        return Ok(namespace);
    }
    let (scope, event) = (scope.clone(), Arc::clone(event));
    crate::blocking(move || scope.namespace(&event)).await
}
