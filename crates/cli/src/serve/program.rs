//! [`Commands`]: what this program lends a server. Each call runs as its caller, in a context of its own; the
//! database, models and configuration are those of the process.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use clap::Parser as _;
use cleveragents_domain::identity::{Caller, Namespaces, Permission, Scope};
use cleveragents_domain::{Code, PlanId};
use cleveragents_process::Cancel;
use cleveragents_server::{
    Call, Done, Failure, Line, Operation, Program, Screen, Tell, Told, Touches,
};
use cleveragents_store::EngineCache;
use serde_json::{Value, json};

use super::operations::{self, Given, Offered};
use super::settle::{self, failure};
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
    /// The file on the caller's machine that a document is for.
    output: Option<&'a Path>,
    /// Whether a file that is there is replaced.
    is_replaced: bool,
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
                output: None,
                is_replaced: false,
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
        if let Some(served) = &mut context.served {
            served.output = asked.output.map(Path::to_owned);
            served.is_replaced = asked.is_replaced;
        }
        if let Some(screen) = &asked.screen {
            context.live = Live::Away(Arc::clone(screen));
        }
        if !asked.caller.is_local() {
            let home = asked.caller.home(offered.row.scope);
            let home = asked.namespace.map(str::to_owned).or(home);
            let touched = settle::settle(&context, offered, &mut given, home.as_deref())?;
            settle::check(&context, asked.caller, offered, &given, &touched)?;
        }
        let file = file_of_text(offered, &mut given)?;
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
        let path = file.as_ref().map(|file| file.path().display().to_string());
        match outcome {
            Ok(Some(report)) => Ok(report),
            Ok(None) => Err(CommandError::internal(
                "the command wrote a document of its own",
            )),
            // Where a text was kept meanwhile is nobody's business.
            Err(error) => Err(match path {
                Some(path) => error.without(&format!("`{path}`: ")).without(&path),
                None => error,
            }),
        }
    }
}

/// The text of a file as one, which only this process can read and which goes with it.
fn file_of_text(
    offered: &Offered,
    given: &mut Given,
) -> Result<Option<tempfile::NamedTempFile>, CommandError> {
    use std::io::Write as _;
    let parts = offered.row.parts.iter();
    let Some(parameter) = parts
        .filter(|part| part.is_file())
        .map(|part| part.parameter())
        .next()
    else {
        return Ok(None);
    };
    let Some(text) = given.of(parameter).first().cloned() else {
        return Ok(None);
    };
    let failed = |error: std::io::Error| {
        CommandError::new(Code::FileAccess, "the text cannot be kept").caused_by(&error)
    };
    let mut file = tempfile::NamedTempFile::with_suffix(".yaml").map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    given.set(parameter, vec![file.path().display().to_string()]);
    Ok(Some(file))
}

impl Program for Commands {
    fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// What names say by themselves. Names without a namespace are checked when the call is run, as is all of this
    /// again: then the caller is known.
    fn touches(&self, operation: &Operation, parameters: &Value) -> Result<Touches, Failure> {
        let offered = self.offered(operation)?;
        if offered.row.is_everywhere {
            return Ok(Touches::Everywhere);
        }
        let mut given = offered.read(parameters)?;
        let nobody = Caller::with_token("", Vec::new(), BTreeSet::new());
        let context = self.context(&nobody, Namespaces::All, Format::Json, &Cancel::new());
        let mut touched =
            settle::settle(&context, offered, &mut given, None).map_err(|error| failure(&error))?;
        touched.retain(|touch| {
            let is_its_own =
                touch.permission == operation.permission && touch.scope == operation.scope;
            is_its_own && !touch.is_common()
        });
        let mut namespaces: Vec<String> =
            touched.into_iter().map(|touch| touch.namespace).collect();
        namespaces.sort();
        namespaces.dedup();
        Ok(if namespaces.is_empty() {
            Touches::Visible
        } else {
            Touches::Namespaces(namespaces)
        })
    }

    fn missing(&self, operation: &Operation, parameters: &Value) -> Option<Failure> {
        let offered = self.offered(operation).ok()?;
        let mut given = offered.read(parameters).ok()?;
        let nobody = Caller::with_token("", Vec::new(), BTreeSet::new());
        let context = self.context(&nobody, Namespaces::All, Format::Json, &Cancel::new());
        let touched = settle::settle(&context, offered, &mut given, None).ok()?;
        let absent = touched.into_iter().find_map(|touch| touch.absent);
        absent.map(|absent| failure(&absent))
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
                output: None,
                is_replaced: false,
                screen: None,
                cancel: call.cancel,
            })
            .map_err(|error| failure(&error))?;
        // A command that prints a document and nothing else has no other data.
        let data = match report.document_text() {
            Some(text) => json!({"document": text}),
            None => report.data.to_tree(),
        };
        Ok(Done {
            data,
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
            output: line.output,
            is_replaced: line.is_replaced,
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
