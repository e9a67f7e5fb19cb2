//! From arguments to exit code: parse, resolve the format, dispatch, print.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write, stderr, stdout};
use std::sync::Arc;
use std::time::Instant;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use cleveragents_domain::Code;
use cleveragents_store::EngineCache;

use crate::arguments::{Arguments, Command, FolderChat, Invocation, OutputFormat, Session};
use crate::commands;
use crate::config::{Configuration, Environment, Flags, Home, keys};
use crate::context::Context;
use crate::logging::{self, LoggingProcess};
use crate::output::{
    CommandError, Format, Pager, Printer, Report, StandardStreams, Timing, choose, wrap_help,
};
use crate::remote::{CommandMachine, Connection};

/// Runs the program and returns its exit code.
pub fn run(arguments: &[OsString]) -> u8 {
    let timing = Timing::start();
    let environment = Environment::of_process();
    if crate::completion::respond(arguments, &environment) {
        return 0;
    }
    let surface = StandardStreams::detect(&environment);
    let parsed = match Invocation::parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => return report_parse_error(&error, arguments, &environment, &surface, timing),
    };
    if is_bare(&parsed.command) && !(std::io::stdin().is_terminal() && surface.stdout_is_terminal) {
        // Without a terminal there is no way to enter a message: print the help, but fail.
        let _printed = write!(stderr(), "{}", Arguments::command().render_help());
        return Code::Usage.kind().exit_code();
    }
    let command = commands::name(&parsed.command);
    // Until the configuration is read, errors use the format that `--format` or `CLEVERAGENTS_FORMAT` sets.
    let early_format = choose(
        parsed.global.report_format(),
        environment.text(keys::FORMAT.variable).as_deref(),
        None,
        &surface,
    );
    let mut printer = Printer::new(
        early_format.unwrap_or_else(|_| Format::automatic(&surface)),
        &surface,
    );
    let pager = Pager::detect(&environment, &surface);
    let outcome = execute(parsed, environment, &surface, &mut printer);
    if let (true, Some(pager), Ok(Some(report))) = (printer.uses_pager(), pager, &outcome)
        && Pager::is_for(report.command)
    {
        return finish_paged(&printer, &pager, report, timing);
    }
    finish(&printer, command, outcome, timing)
}

/// True if the command line starts a new conversation without a first message.
fn is_bare(command: &Command) -> bool {
    match command {
        Command::Chat(chat) => {
            chat.session.is_none() && chat.folder.as_ref().is_some_and(FolderChat::is_bare)
        }
        _ => false,
    }
}

fn execute(
    parsed: Invocation,
    environment: Environment,
    surface: &StandardStreams,
    printer: &mut Printer,
) -> Result<Option<Report>, CommandError> {
    if parsed.global.asks_for_markdown()
        && !matches!(parsed.command, Command::Session(Session::Export(_)))
    {
        return Err(
            CommandError::usage("the format `markdown` is only for `session export`")
                .with_hint("use one of rich, color, table, plain, json, yaml"),
        );
    }
    let home = Home::find(&environment)?;
    // Hides the database, keys and configuration in the home folder from sandboxed commands.
    cleveragents_process::hide(home.path());
    if let Command::Config(config) = &parsed.command {
        commands::config::require_profile(config, || {
            context_without_flags(&environment, &home, *printer)
        })?;
    }
    if let Command::Config(config) = &parsed.command
        && let Some(report) = commands::config::change(config, &environment, &home)?
    {
        // `config set` and `config unset` must work with an invalid configuration, so that they can fix it: its format
        // counts only if it can be read.
        let configured = Configuration::load(&environment, &home, Flags::none())
            .and_then(|configuration| configuration.settings())
            .ok()
            .and_then(|settings| settings.format());
        let variable = environment.text(keys::FORMAT.variable);
        let format = choose(
            parsed.global.report_format(),
            variable.as_deref(),
            configured.map(Format::as_str),
            surface,
        );
        *printer = Printer::new(format?, surface);
        return Ok(Some(record_change(report, &environment, &home, *printer)));
    }
    let flags = flags(&parsed)?;
    let loaded = Configuration::load(&environment, &home, flags).and_then(|configuration| {
        let settings = configuration.settings()?;
        Ok((configuration, settings))
    });
    let (configuration, settings) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            return match &parsed.command {
                // Diagnostics must work with any broken configuration.
                Command::Diagnostics(_) => Ok(Some(commands::diagnostics::without_configuration(
                    &home, error,
                ))),
                _ => Err(error.into()),
            };
        }
    };
    let format = choose(
        parsed.global.report_format(),
        None,
        settings.format().map(Format::as_str),
        surface,
    )?;
    let uses_pager = settings.uses_pager() && !parsed.global.no_pager;
    *printer = Printer::new(format, surface).with_pager(uses_pager);
    if let Command::Session(Session::Append(append)) = &parsed.command
        && append.jsonl.is_some()
    {
        *printer = printer.for_stream();
    }
    if let Command::Chat(chat) = &parsed.command
        && let Some(folder) = &chat.folder
        && folder.print == Some(OutputFormat::Json)
    {
        *printer = Printer::new(Format::Json, surface);
    } else if matches!(parsed.command, Command::Chat(_)) && format == Format::Json {
        *printer = printer.for_stream();
    }
    let is_markdown = parsed.global.asks_for_markdown();
    let engines = EngineCache::new(Context::store_options(&settings, *printer));
    let mut context = Context {
        environment,
        home,
        configuration,
        settings,
        printer: *printer,
        engines: Arc::new(engines),
        connection: None,
    };
    run_logged(&mut context, parsed, is_markdown)
}

/// Starts the log and runs a command.
fn run_logged(
    context: &mut Context,
    parsed: Invocation,
    is_markdown: bool,
) -> Result<Option<Report>, CommandError> {
    let logs = match parsed.command {
        Command::Serve(_) => LoggingProcess::Server,
        _ => LoggingProcess::Command,
    };
    // The log ends before the report is printed, so that no log line follows the report.
    let _logging = logging::start(context, logs)?;
    let (command, started_at) = (commands::name(&parsed.command), Instant::now());
    tracing::debug!(command, version = env!("CARGO_PKG_VERSION"), home = %context.home.path().display(), "command started");
    let outcome = dispatch(context, parsed, is_markdown);
    let duration_ms = u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    match &outcome {
        Ok(_) => tracing::info!(command, duration_ms, "command finished"),
        Err(error) => tracing::info!(
            command,
            code = error.code().as_str(),
            duration_ms,
            "command failed"
        ),
    }
    outcome
}

/// Configuration keys that the command line sets.
fn flags(parsed: &Invocation) -> Result<Flags, crate::config::Error> {
    let flags = Flags::none()
        .with(
            &keys::FORMAT,
            "--format",
            parsed.global.report_format().map(Format::as_str),
        )?
        .with(
            &keys::DATABASE_URL,
            "--database-url",
            parsed.global.database_url.as_deref(),
        )?;
    let is_server = matches!(parsed.command, Command::Serve(_));
    let log_file = if is_server {
        &keys::SERVE_LOG_FILE
    } else {
        &keys::LOG_FILE
    };
    let flags = flags
        .with(&keys::LOG_FILTER, "-v", parsed.global.log_filter())?
        .with(log_file, "--log-file", parsed.global.log_file.as_deref())?
        .with(
            &keys::LOG_FORMAT,
            "--log-format",
            parsed.global.log_format.as_deref(),
        )?;
    match &parsed.command {
        Command::Serve(serve) => serve.flags(flags),
        _ => Ok(flags),
    }
}

/// Runs a command on this machine, or on the connected server.
fn dispatch(
    context: &mut Context,
    parsed: Invocation,
    is_markdown: bool,
) -> Result<Option<Report>, CommandError> {
    if parsed.global.local {
        return commands::run(context, parsed.command, is_markdown);
    }
    context.connection = Connection::configured(context)?;
    match crate::remote::place_of(context, commands::name(&parsed.command))? {
        CommandMachine::Server => commands::run(context, parsed.command, is_markdown),
        CommandMachine::Here(note) => {
            context.connection = None;
            let report = commands::run(context, parsed.command, is_markdown)?;
            Ok(match note {
                Some(note) => report.map(|report| report.info(note)),
                None => report,
            })
        }
    }
}

/// Records a configuration change in the audit log. If that fails, the change stays in effect and the report warns.
fn record_change(
    report: Report,
    environment: &Environment,
    home: &Home,
    printer: Printer,
) -> Report {
    let Some(context) = context_without_flags(environment, home, printer) else {
        return report;
    };
    match commands::config::note(&context, &report) {
        Ok(()) => report,
        Err(error) => report.warn(format!("The change is not in the audit log: {error}")),
    }
}

/// Context that ignores command-line flags; `None` if the configuration cannot be read.
pub(crate) fn context_without_flags(
    environment: &Environment,
    home: &Home,
    printer: Printer,
) -> Option<Context> {
    let configuration = Configuration::load(environment, home, Flags::none()).ok()?;
    let settings = configuration.settings().ok()?;
    let engines = EngineCache::new(Context::store_options(&settings, printer));
    Some(Context {
        environment: environment.clone(),
        home: home.clone(),
        configuration,
        settings,
        printer,
        engines: Arc::new(engines),
        connection: None,
    })
}

fn finish(
    printer: &Printer,
    command: &str,
    outcome: Result<Option<Report>, CommandError>,
    timing: Timing,
) -> u8 {
    let (mut out, mut err) = (stdout().lock(), stderr().lock());
    let (written, code) = match outcome {
        Ok(None) => (flushed(&mut out), 0),
        Ok(Some(report)) => (
            printer.report(&report, timing, &mut out, &mut err),
            report.exit_code(),
        ),
        Err(error) => (
            printer.error(command, &error, timing, &mut out, &mut err),
            error.exit_code(),
        ),
    };
    match written {
        Ok(()) => code,
        Err(error) => {
            // A command whose result cannot be printed fails.
            let _sent = writeln!(
                err,
                "error[{}]: the result cannot be written: {error}",
                Code::FileAccess.as_str()
            );
            code.max(1)
        }
    }
}

/// Prints a report through the pager, and its warnings and errors below it.
fn finish_paged(printer: &Printer, pager: &Pager, report: &Report, timing: Timing) -> u8 {
    let (mut text, mut problems) = (Vec::new(), Vec::new());
    let _into_memory = printer.report(report, timing, &mut text, &mut problems);
    let shown = pager.show(&text, &mut stdout().lock());
    let _closed = stderr().lock().write_all(&problems);
    match shown {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let code = Code::FileAccess.as_str();
            let _sent = writeln!(
                stderr(),
                "error[{code}]: the result cannot be written: {error}"
            );
            report.exit_code().max(1)
        }
        _ => report.exit_code(),
    }
}

/// Flushes output that a command wrote directly, without a report. A closed pipe is not an error.
fn flushed(out: &mut impl Write) -> std::io::Result<()> {
    match out.flush() {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints help and version unchanged, and other parse errors in the requested format.
fn report_parse_error(
    error: &clap::Error,
    arguments: &[OsString],
    environment: &Environment,
    surface: &StandardStreams,
    timing: Timing,
) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp if surface.stdout_is_terminal => {
            let help = error.render();
            let help = if surface.is_dumb || surface.forbids_colour {
                help.to_string()
            } else {
                help.ansi().to_string()
            };
            let _printed = stdout()
                .lock()
                .write_all(wrap_help(&help, surface.width).as_bytes());
            return 0;
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is not a failure.
            let _printed = error.print();
            return 0;
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _printed = error.print();
            return Code::Usage.kind().exit_code();
        }
        _ => {}
    }
    let flag = requested_format(arguments);
    let format = choose(
        flag,
        environment.text(keys::FORMAT.variable).as_deref(),
        None,
        surface,
    )
    .unwrap_or_else(|_| Format::automatic(surface));
    finish(
        &Printer::new(format, surface),
        "agents",
        Err(usage_error(error)),
        timing,
    )
}

/// Converts a parse error of clap.
pub(crate) fn usage_error(error: &clap::Error) -> CommandError {
    let code = match error.kind() {
        ErrorKind::InvalidUtf8 => Code::InvalidUtf8,
        _ => Code::Usage,
    };
    let text = error.to_string();
    let message = text.lines().next().unwrap_or("the command line is invalid");
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let listed = text
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(str::trim);
    let message = std::iter::once(message)
        .chain(listed)
        .collect::<Vec<_>>()
        .join(" ");
    // The tip to pass an unknown option as a value is rarely what the user needs.
    let tip = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("tip: "))
        .filter(|tip| !tip.contains("as a value"))
        .map(str::to_owned);
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let usage = usage.map(|usage| match error.kind() {
        ErrorKind::UnknownArgument => format!("`{} --help` lists its options", command_of(usage)),
        _ => format!("usage: {usage}"),
    });
    let hint = (code == Code::InvalidUtf8)
        .then(|| "pass the text as UTF-8, or through standard input with `-`".to_owned())
        .or(tip)
        .or(usage)
        .unwrap_or_else(|| "run `agents --help`".to_owned());
    CommandError::new(code, message).with_hint(hint)
}

/// The command of a usage line, without options and arguments.
fn command_of(usage: &str) -> String {
    let words = usage.split_whitespace();
    let names = words.take_while(|word| !word.starts_with(['[', '<', '-']));
    names.collect::<Vec<_>>().join(" ")
}

/// Requested format of a command line that cannot be parsed.
fn requested_format(arguments: &[OsString]) -> Option<Format> {
    let texts: Vec<&str> = arguments
        .iter()
        .filter_map(|argument| argument.to_str())
        .collect();
    texts.iter().enumerate().find_map(|(index, text)| {
        let value = match *text {
            "--format" | "-f" => texts.get(index + 1).copied(),
            other => other
                .strip_prefix("--format=")
                .or_else(|| other.strip_prefix("-f")),
        };
        value?.trim_start_matches('=').parse().ok()
    })
}
