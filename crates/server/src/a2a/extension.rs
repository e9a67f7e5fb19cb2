//! The methods `_cleveragents/*`: the operations of the program over JSON-RPC. What is advertised and what is
//! dispatched are the same table, [`crate::Program::operations`].

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::fault::Fault;
use crate::api::operations;
use crate::app::App;
use crate::gate::Permit;

/// What names the extension.
pub(crate) const URI: &str = "urn:cleveragents:extensions:v1";

/// What its methods begin with.
pub(crate) const PREFIX: &str = "_cleveragents/";

/// Calls an operation.
pub(super) async fn call(
    app: &Arc<App>,
    permit: &Permit,
    name: &str,
    params: Map<String, Value>,
) -> Result<Value, Fault> {
    let done = operations::perform(app, permit, name, params).await?;
    Ok(json!({"data": done.data, "exitCode": done.exit_code}))
}

/// The extension as the card tells of it: the methods that the caller may use somewhere.
pub(super) fn advertised(app: &App, permit: &Permit) -> Value {
    let caller = permit.caller();
    let methods: Vec<Value> = app
        .program
        .operations()
        .iter()
        .filter(|operation| {
            !caller
                .reach(operation.scope, operation.permission)
                .is_empty()
        })
        .map(|operation| {
            json!({
                "method": format!("{PREFIX}{}", operation.name), "summary": operation.summary,
                "parameters": operation.parameters,
            })
        })
        .collect();
    json!({
        "uri": URI,
        "description": "The operations of CleverAgents as methods of JSON-RPC",
        "params": {"version": app.program.version(), "methods": methods},
    })
}
