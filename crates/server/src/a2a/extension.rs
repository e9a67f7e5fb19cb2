//! The methods `_cleveragents/*`: operations of the application, called over JSON-RPC.

use std::sync::Arc;

use cleveragents_a2a::AgentExtension;
use serde_json::{Map, Value, json};

use super::error::RequestError;
use crate::api::operations::{self, OperationCall};
use crate::app::App;
use crate::authorize::Permit;

pub(crate) const URI: &str = "urn:cleveragents:extensions:v1";

/// Prefix of the methods of the extension.
pub(crate) const PREFIX: &str = "_cleveragents/";

/// Calls an operation.
pub(super) async fn call(
    app: &Arc<App>,
    permit: &Permit,
    name: &str,
    params: Map<String, Value>,
) -> Result<Value, RequestError> {
    let outcome = OperationCall::named(name).run(app, permit, params).await?;
    Ok(json!({"data": outcome.data}))
}

/// The extension on the public card.
pub(super) fn advertised() -> AgentExtension {
    AgentExtension {
        uri: URI.to_owned(),
        description: "The operations of CleverAgents as methods of JSON-RPC".to_owned(),
        ..AgentExtension::default()
    }
}

/// The extension on the card of a caller, with the methods that the caller may use in at least one namespace.
pub(super) fn advertised_to(permit: &Permit) -> AgentExtension {
    let caller = permit.caller();
    let methods: Vec<Value> = operations::documents(caller)
        .map(|operation| {
            json!({
                "method": format!("{PREFIX}{}", operation.name), "summary": operation.summary,
                "parameters": operation.parameters,
            })
        })
        .collect();
    AgentExtension {
        params: Some(json!({"version": crate::VERSION, "methods": methods})),
        ..advertised()
    }
}
