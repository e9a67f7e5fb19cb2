//! The log: sets up the single `tracing` subscriber, from options and configuration.
//!
//! Without `-v`, `CLEVERAGENTS_LOG`, a log file or a server there is no subscriber, and nothing is formatted. Commands
//! log to standard error if they have a filter, and to the log file if there is one. A server always logs to standard
//! error.

mod file;
mod layer;
mod redaction;
mod traces;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cleveragents_domain::Code;
use cleveragents_telemetry::{TraceLayer, is_exported};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, filter};

use crate::config::{Key, keys};
use crate::context::Context;
use crate::output::{CommandError, console};

use file::LogFile;
use layer::{LogFormat, LogLayer};
use redaction::LogRedactor;
use traces::Traces;

/// The filter of `-v`: for operators.
pub(crate) const VERBOSE: &str = "warn,cleveragents=info";

/// The filter of `-vv`: for maintainers.
pub(crate) const VERY_VERBOSE: &str = "warn,cleveragents=debug";

/// The default filter of a server: failed requests and the server's own events. Successful requests, which may be tens
/// of thousands per second, need `-v`.
const SERVER_FILTER: &str = "warn,cleveragents_server=info,cleveragents_server::access=warn";

/// The default filter of a log file.
const FILE_FILTER: &str = VERBOSE;

/// Parses a filter in the syntax of `EnvFilter`, such as `info,cleveragents_store=debug`. `None` when it is malformed.
pub(crate) fn parse_filter(text: &str) -> Option<EnvFilter> {
    let text = Some(text).filter(|text| !text.trim().is_empty())?;
    EnvFilter::builder().parse(text).ok()
}

/// Kind of process that logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoggingProcess {
    Command,
    Server,
}

/// The log of the process. Dropping it prints the lines held back during a prompt and sends the last traces.
pub(crate) struct Logging {
    _traces: Option<Traces>,
}

impl Drop for Logging {
    fn drop(&mut self) {
        console::release_all();
    }
}

/// Starts the log, if any is configured.
pub(crate) fn start(
    context: &Context,
    process: LoggingProcess,
) -> Result<Option<Logging>, CommandError> {
    let is_server = process == LoggingProcess::Server;
    let text = |key: &'static Key| {
        let value = context.configuration.resolve_key(key)?.value;
        Ok::<_, CommandError>(value.and_then(|value| value.as_text().map(str::to_owned)))
    };
    let configured_filter = text(&keys::LOG_FILTER)?;
    let mut path = text(&keys::LOG_FILE)?;
    let mut collector = None;
    if is_server {
        path = text(&keys::SERVE_LOG_FILE)?.or(path);
        collector = text(&keys::TELEMETRY_OTLP_ENDPOINT)?;
    } else if configured_filter.is_none() && path.is_none() {
        return Ok(None);
    }
    let prints = is_server || configured_filter.is_some();
    let directives = configured_filter.unwrap_or_else(|| match process {
        LoggingProcess::Server => SERVER_FILTER.to_owned(),
        LoggingProcess::Command => FILE_FILTER.to_owned(),
    });
    let filter = parse_filter(&directives)
        .ok_or_else(|| CommandError::internal("the filter of the log is malformed"))?;
    let format = match text(&keys::LOG_FORMAT)?.as_deref() {
        Some("json") => LogFormat::Json,
        _ => LogFormat::Text,
    };
    let path = path.map(PathBuf::from);
    if path.as_deref().and_then(Path::parent) == Some(context.home.path()) {
        // The home folder may not exist yet when the first command logs.
        context.home.create()?;
    }
    let file = path.as_deref().map(open).transpose()?;
    let log = LogLayer {
        format,
        redactor: LogRedactor::for_context(context),
        prints,
        file: file.map(Mutex::new),
    };
    let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> =
        vec![log.with_filter(filter).boxed()];
    let traces = match collector {
        None => None,
        Some(endpoint) => {
            let (traces, sink) = Traces::start(context, &endpoint)?;
            let layer = TraceLayer::new(sink);
            layers.push(layer.with_filter(filter::filter_fn(is_exported)).boxed());
            Some(traces)
        }
    };
    if prints {
        console::expect_log();
    }
    let subscriber = tracing_subscriber::registry().with(layers);
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| CommandError::internal("the log is already set up").caused_by(&error))?;
    Ok(Some(Logging { _traces: traces }))
}

fn open(path: &Path) -> Result<LogFile, CommandError> {
    LogFile::open(path).map_err(|error| {
        CommandError::new(
            Code::FileAccess,
            format!("the log file `{}` cannot be written", path.display()),
        )
        .caused_by(&error)
        .with_hint("choose another one with --log-file")
    })
}
