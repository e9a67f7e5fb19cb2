//! Operations that the server itself calls for a caller, in work that runs already. The caller was
//! authorized before the work began (`api/operations.rs`); typed operations authorize again.

use cleveragents_application::find_operation;
use cleveragents_domain::Code;
use cleveragents_domain::identity::{Caller, Permission};
use cleveragents_process::Cancel;
use serde_json::Value;

use crate::app::App;
use crate::program::{Call, Failure};

/// Calls an operation, typed or a command, and returns its data. Blocks until it is done.
pub(crate) fn call(
    app: &App,
    caller: &Caller,
    name: &str,
    parameters: &Value,
    cancel: &Cancel,
) -> Result<Value, Failure> {
    if let Ok(entry) = find_operation(name) {
        let context = app.application.for_caller(caller.clone());
        let prepared = entry.prepare(context, parameters.clone());
        let done = prepared.and_then(|run| run(cancel));
        return done.map_err(|error| Failure::of(&error));
    }
    let mut commands = app.program.operations().iter();
    let operation = commands.find(|operation| operation.name == name);
    let operation = operation.ok_or_else(|| {
        let message = format!("there is no operation `{name}`");
        Failure::new(Code::UnknownOperation, message)
    })?;
    let done = app.program.run(&Call {
        caller,
        operation,
        parameters,
        visible: caller.reach(operation.scope, Permission::Read),
        cancel,
    })?;
    Ok(done.data)
}
