//! The namespace of an event, which decides which callers see it: from memory where it is known, otherwise from the
//! database without keeping the runtime waiting.

use std::sync::Arc;

use cleveragents_application::{EventScope, StoreError};
use cleveragents_domain::Event;

/// The namespace of an event; `None` when it belongs to none.
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
