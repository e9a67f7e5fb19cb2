//! Operations of the program, called by whatever protocol: found by name, permitted by what they would touch, run
//! in turn with all else that takes long.

use std::sync::Arc;

use cleveragents_domain::Code;
use cleveragents_domain::identity::{Caller, Permission};
use cleveragents_process::Cancel;
use serde_json::Value;

use crate::app::App;
use crate::gate::Permit;
use crate::problem::Problem;
use crate::program::{Call, Done, Failure, Operation, Touches};

/// The operation of a name.
pub(crate) fn named<'a>(app: &'a App, name: &str) -> Result<&'a Operation, Problem> {
    app.program
        .operations()
        .iter()
        .find(|operation| operation.name == name)
        .ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            Problem::new(
                Code::UnknownOperation,
                format!("there is no operation `{shown}`"),
            )
        })
}

/// Checks that a caller may call an operation with parameters.
pub(crate) async fn permitted(
    app: &Arc<App>,
    permit: &Permit,
    operation: &Operation,
    parameters: &Value,
) -> Result<(), Problem> {
    let (program, wanted) = (Arc::clone(&app.program), operation.clone());
    let given = parameters.clone();
    let touches = crate::blocking(move || program.touches(&wanted, &given)).await?;
    let (scope, permission) = (operation.scope, operation.permission);
    match touches {
        Touches::Everywhere => permit.everywhere(app, scope, permission).await,
        Touches::Visible if permit.caller().reach(scope, permission).is_empty() => {
            permit.with(app, scope, permission, "*").await
        }
        Touches::Visible => Ok(()),
        Touches::Namespaces(names) => {
            for name in names {
                let checked = permit.with(app, scope, permission, &name).await;
                if checked.is_err() && !permit.caller().may(scope, Permission::Read, &name) {
                    // What the caller cannot look at does not exist for it.
                    return Err(Problem::new(
                        Code::ResourceNotFound,
                        "what the parameters name does not exist",
                    ));
                }
                checked?;
            }
            Ok(())
        }
    }
}

/// Calls an operation as a caller, who was permitted to. Takes long.
pub(crate) fn call(
    app: &App,
    caller: &Caller,
    operation: &Operation,
    parameters: &Value,
    cancel: &Cancel,
) -> Result<Done, Failure> {
    app.program.run(&Call {
        caller,
        operation,
        parameters,
        visible: caller.reach(operation.scope, Permission::Read),
        cancel,
    })
}
