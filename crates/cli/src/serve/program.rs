//! [`Commands`]: what this program lends a server. Each call runs as its caller, in a context of its own; the
//! database, models and configuration are those of the process.

use std::sync::Arc;

use clap::Parser as _;
use cleveragents_domain::identity::{Caller, Namespaces, Permission, Scope};
use cleveragents_domain::{Code, PlanId};
use cleveragents_process::Cancel;
use cleveragents_server::{Call, Done, Failure, Line, Operation, Program, Screen, Tell, Told};
use cleveragents_store::EngineCache;
use serde_json::{Value, json};

use super::authorize::{authorize_command, failure};
use super::operations::{self, Offered};
use crate::app::usage_error;
use crate::arguments::Arguments;
use crate::commands;
use crate::config::{Configuration, Environment, Home, Settings};
use crate::context::{Context, Served};
use crate::output::{
    CommandError, Format, Live, Printer, Report, Surface, UnknownFormat, WireError, WireReport,
};

/// The option of commands that tell what happens while it happens.
pub(crate) const STREAM: &str = "stream";

/// What this program lends a server.
pub(crate) struct Commands {
    environment: Environment,
    home: Home,
    configuration: Configuration,
    settings: Settings,
    engines: Arc<EngineCache>,
    operations: Vec<Operation>,
    offered: Vec<Offered>,
}

/// Something to be run for a caller.
struct Asked<'a> {
    caller: &'a Caller,
    visible: Namespaces,
    operation: &'a Operation,
    parameters: &'a Value,
    /// The namespace of names without one; the caller's home when not given.
    namespace: Option<&'a str>,
    format: Format,
    /// The terminal of the caller, if it wants to see what happens while it happens.
    screen: Option<Arc<dyn Screen>>,
    cancel: &'a Cancel,
}

impl Commands {
    /// The commands, with the configuration of the process that serves.
    pub(crate) fn new(context: &Context) -> Self {
        let offered = operations::all();
        Self {
            operations: offered.iter().map(|one| one.operation.clone()).collect(),
            offered,
            environment: context.environment.clone(),
            home: context.home.clone(),
            configuration: context.configuration.clone(),
            settings: context.settings.clone(),
            engines: Arc::clone(&context.engines),
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
            live: Live::Nowhere,
            connection: None,
        }
    }

    fn offered(&self, operation: &Operation) -> Result<&Offered, Failure> {
        let mut all = self.offered.iter();
        all.find(|offered| offered.row.name == operation.name)
            .ok_or_else(|| unknown(&operation.name))
    }

    /// Runs a command for a caller: what it names is made whole and checked, and then run as it was checked.
    fn carry_out(&self, asked: &Asked<'_>) -> Result<Report, CommandError> {
        let offered = self.offered(asked.operation)?;
        let mut given = offered.read(asked.parameters)?;
        let mut context = self.context(
            asked.caller,
            asked.visible.clone(),
            asked.format,
            asked.cancel,
        );
        if let Some(screen) = &asked.screen {
            context.live = Live::Away(Arc::clone(screen));
        }
        authorize_command(&context, asked.caller, offered, &mut given, asked.namespace)?;
        let mut line = offered.line(&given)?;
        // Behind the words of the command: what follows `--` is no option any more.
        if asked.screen.is_some() && offered.row.without.contains(&STREAM) {
            let words = offered.row.command.split(' ').count();
            line.insert(1 + words, format!("--{STREAM}"));
        }
        let parsed = Arguments::try_parse_from(line)
            .and_then(Arguments::gather)
            .map_err(|error| usage_error(&error))?;
        let outcome = commands::run(&context, parsed.command, false);
        outcome?.ok_or_else(|| CommandError::internal("the command wrote a document of its own"))
    }
}

impl Program for Commands {
    fn operations(&self) -> &[Operation] {
        &self.operations
    }

    fn authorize(
        &self,
        caller: &Caller,
        operation: &Operation,
        parameters: &Value,
    ) -> Result<(), Failure> {
        let offered = self.offered(operation)?;
        let mut given = offered.read(parameters)?;
        let visible = caller.reach(operation.scope, Permission::Read);
        let context = self.context(caller, visible, Format::Json, &Cancel::new());
        authorize_command(&context, caller, offered, &mut given, None)
            .map_err(|error| failure(&error))
    }

    fn run(&self, call: &Call<'_>) -> Result<Done, Failure> {
        let report = self
            .carry_out(&Asked {
                caller: call.caller,
                visible: call.visible.clone(),
                operation: call.operation,
                parameters: call.parameters,
                namespace: None,
                format: Format::Json,
                screen: None,
                cancel: call.cancel,
            })
            .map_err(|error| failure(&error))?;
        Ok(Done {
            data: report.data.to_tree(),
            report: json!(WireReport::from(&report)),
            exit_code: report.exit_code(),
        })
    }

    fn run_line(&self, line: &Line<'_>) -> Result<Value, Failure> {
        let format = line.format.parse().map_err(|error: UnknownFormat| {
            Failure::new(Code::MalformedRequest, error.to_string())
        })?;
        let done = self.carry_out(&Asked {
            caller: line.caller,
            visible: line.visible.clone(),
            operation: line.operation,
            parameters: line.parameters,
            namespace: line.namespace,
            format,
            screen: line.screen.clone(),
            cancel: line.cancel,
        });
        Ok(match done {
            Ok(report) => json!({"report": WireReport::from(&report)}),
            Err(error) => json!({"error": WireError::from(&error)}),
        })
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
