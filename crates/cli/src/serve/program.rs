//! [`Commands`]: what this program lends a server. Each call runs as its caller, in a context of its own; the
//! database, models and configuration are those of the process.

use std::sync::Arc;

use cleveragents_domain::identity::{Caller, Namespaces, Permission, Scope};
use cleveragents_domain::{Code, PlanId};
use cleveragents_process::Cancel;
use cleveragents_server::{Call, Done, Failure, Operation, Program, Tell, Told, Touches};
use cleveragents_store::EngineCache;
use serde_json::Value;

use crate::commands;
use crate::config::{Configuration, Environment, Home, Settings};
use crate::context::{Context, Served};
use crate::output::{CommandError, Format, Printer, Surface};

/// What this program lends a server.
pub(crate) struct Commands {
    environment: Environment,
    home: Home,
    configuration: Configuration,
    settings: Settings,
    engines: Arc<EngineCache>,
    operations: Vec<Operation>,
}

impl Commands {
    /// The commands, with the configuration of the process that serves.
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            environment: context.environment.clone(),
            home: context.home.clone(),
            configuration: context.configuration.clone(),
            settings: context.settings.clone(),
            engines: Arc::clone(&context.engines),
            operations: Vec::new(),
        }
    }

    /// What a command works with that a caller asked for.
    pub(super) fn context(
        &self,
        caller: &Caller,
        visible: Namespaces,
        format: Format,
        cancel: &Cancel,
    ) -> Context {
        // Nothing is drawn here, and nobody looks on.
        let surface = Surface {
            stdout_is_terminal: false,
            stderr_is_terminal: false,
            is_dumb: true,
            shows_unicode: true,
            forbids_colour: true,
            width: usize::from(u16::MAX),
        };
        Context {
            environment: self.environment.clone(),
            home: self.home.clone(),
            configuration: self.configuration.clone(),
            settings: self.settings.clone(),
            printer: Printer::new(format, &surface),
            engines: Arc::clone(&self.engines),
            served: Some(Served {
                caller: caller.clone(),
                visible,
                cancel: cancel.clone(),
            }),
        }
    }
}

/// A failure of a command, as protocols tell it.
pub(super) fn failure(error: &CommandError) -> Failure {
    let failure = Failure::new(error.code(), error.to_string()).with_details(error.details());
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

impl Program for Commands {
    fn operations(&self) -> &[Operation] {
        &self.operations
    }

    fn touches(&self, operation: &Operation, _parameters: &Value) -> Result<Touches, Failure> {
        Err(unknown(&operation.name))
    }

    fn run(&self, call: &Call<'_>) -> Result<Done, Failure> {
        Err(unknown(&call.operation.name))
    }

    fn tell(&self, tell: &Tell<'_>) -> Result<Told, Failure> {
        super::tell::answer(self, tell).map_err(|error| failure(&error))
    }

    fn drive(&self, caller: &Caller, plan: PlanId, cancel: &Cancel) -> Result<Value, Failure> {
        let visible = caller.reach(Scope::Plans, Permission::Read);
        let context = self.context(caller, visible, Format::Json, cancel);
        let report = commands::drive_plan(&context, plan).map_err(|error| failure(&error))?;
        match &report.failure {
            Some(error) => Err(failure(error)),
            None => Ok(report.data.to_tree()),
        }
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

fn unknown(name: &str) -> Failure {
    Failure::new(
        Code::UnknownOperation,
        format!("there is no operation `{name}`"),
    )
}
