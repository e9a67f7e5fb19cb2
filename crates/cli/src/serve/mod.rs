//! `serve`: runs this program as a server with the operations of the application. Protocols,
//! authentication and limits are in the `server` crate.

mod setup;

use std::io::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_application::{Application, TokenService};
use cleveragents_domain::Code;
use cleveragents_server::Options;
use cleveragents_store::Engine;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::Notify;

use crate::arguments::{Serve, TurnOptions};
use crate::commands::worker_starter;
use crate::context::Context;
use crate::output::{CommandError, Panel, Printer, Report, Timing};

const COMMAND: &str = "serve";

/// Number of threads for database access, in addition to those that run turns and plans.
const DATABASE_THREADS: usize = 64;

/// Time until an idle thread ends.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Number of threads for requests and responses: half of the cores. The other half stores data and
/// runs agents; fewer I/O threads also contend less.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    (cores / 2).max(1)
}

/// Runs the server until a signal stops it.
pub(crate) fn run(context: &Context, arguments: &Serve) -> Result<Report, CommandError> {
    let options = setup::options(context, arguments)?;
    let engine = context.engine()?;
    if !options.insecure_local {
        require_token(&engine)?;
    }
    if let Some(actor) = &options.actor {
        require_actor(context, actor)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .max_blocking_threads(options.max_running + DATABASE_THREADS)
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .thread_name("agents-serve")
        .enable_all()
        .build()
        .map_err(|error| {
            CommandError::internal("the runtime cannot be created").caused_by(&error)
        })?;
    let announcement = Announcement::new(context.printer, &options);
    let stop = stop_on_signals()?;
    let application = Application::new(engine, context.operation_settings())
        .starting_workers(worker_starter(context)?);
    let served = runtime.block_on(cleveragents_server::serve(
        application,
        options,
        |address| announcement.print(address),
        async move { stop.notified().await },
    ));
    // Remaining work was cancelled, and its grace period is over.
    runtime.shutdown_background();
    served?;
    Ok(Report::written(COMMAND, 0))
}

/// Refuses to start a server without a valid token, because no client could call it.
fn require_token(engine: &Arc<Engine>) -> Result<(), CommandError> {
    if TokenService::new(Arc::clone(engine)).has_valid()? {
        return Ok(());
    }
    Err(CommandError::new(
        Code::Unauthenticated,
        "there is no valid token, so no client can call the server",
    )
    .with_hint(
        "create one: `agents token create NAME --grant NAMESPACE=ROLE`; or accept programs on this machine without a token: \
         `agents serve --insecure-local`",
    ))
}

/// Refuses to start a server whose actor does not exist or has no key.
fn require_actor(context: &Context, actor: &str) -> Result<(), CommandError> {
    if actor == cleveragents_server::ECHO {
        return Ok(());
    }
    let mut conversation = context.conversation(&TurnOptions::default())?;
    Ok(conversation.use_actor(actor).map(drop)?)
}

/// The first SIGTERM, Ctrl-C or SIGHUP stops the server after running work has finished. Another
/// SIGTERM or Ctrl-C stops it at once; another SIGHUP does not, because a closing terminal may send
/// several.
fn stop_on_signals() -> Result<Arc<Notify>, CommandError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| {
        CommandError::internal("signal handlers cannot be installed").caused_by(&error)
    })?;
    let stop = Arc::new(Notify::new());
    let notified = Arc::clone(&stop);
    std::thread::spawn(move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            if is_stopping && signal == SIGHUP {
                continue;
            }
            if is_stopping {
                // All acknowledged data is already stored.
                signal_hook::low_level::exit(1);
            }
            is_stopping = true;
            notified.notify_one();
        }
    });
    Ok(stop)
}

/// Message printed when the server accepts connections.
struct Announcement {
    printer: Printer,
    scheme: &'static str,
    public_url: Option<String>,
    insecure_local: bool,
    is_exposed: bool,
}

impl Announcement {
    fn new(printer: Printer, options: &Options) -> Self {
        Self {
            printer,
            scheme: if options.tls.is_some() {
                "https"
            } else {
                "http"
            },
            public_url: options.public_url.clone(),
            insecure_local: options.insecure_local,
            is_exposed: options.tls.is_none() && !options.address.ip().is_loopback(),
        }
    }

    fn print(&self, address: SocketAddr) {
        let url = cleveragents_server::advertised(self.scheme, address);
        if self.is_exposed {
            // In machine formats, programs read standard output, so the warning goes to standard error.
            let _sent = std::io::stderr().write_all(
                format!(
                    "warning: the server listens on {address} without TLS: others on the network can read tokens \
                     and responses; use --tls-cert and --tls-key, or listen on 127.0.0.1 behind a TLS proxy\n"
                )
                .as_bytes(),
            );
        }
        let pid = std::process::id();
        // Standard error may be closed.
        let mut out = std::io::stdout().lock();
        if !self.printer.format().is_human() {
            let line =
                json!({"url": url, "address": address, "public_url": self.public_url, "pid": pid});
            let _sent = writeln!(out, "{line}").and_then(|()| out.flush());
            return;
        }
        let authentication = if self.insecure_local {
            "none on this machine, a token elsewhere"
        } else {
            "a token"
        };
        let report = Report::new(COMMAND)
            .panel(
                Panel::new("Server")
                    .row("Listening on", url)
                    .row("Public URL", self.public_url.clone())
                    .row("Process", u64::from(pid))
                    .row("Authentication", authentication),
            )
            .info("Ctrl-C stops the server after running work has finished");
        let _sent = self
            .printer
            .report(&report, Timing::start(), &mut out, &mut std::io::stderr());
    }
}
