//! Operations of the program that the server itself calls for somebody, in work that runs already. Whoever asked was
//! permitted to before the work began (`api/operations.rs`).

use cleveragents_application::find_operation;
use cleveragents_domain::Code;
use cleveragents_domain::identity::{Caller, Permission};
use cleveragents_process::Cancel;
use serde_json::Value;

use crate::app::App;
use crate::program::{Call, Failure, Operation};

/// The operation of a name.
pub(crate) fn named<'a>(app: &'a App, name: &str) -> Option<&'a Operation> {
    let mut all = app.program.operations().iter();
    all.find(|operation| operation.name == name)
}

/// Calls an operation as somebody, and gives its data. Takes long.
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
        let prepared = prepared.map_err(|error| Failure::of(&error))?;
        return prepared(cancel).map_err(|error| Failure::of(&error));
    }
    let operation = named(app, name).ok_or_else(|| {
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
