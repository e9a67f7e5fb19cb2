//! `serve`: this program as a server. What commands there are, and what turns and plans run with, is lent to the
//! server as a [`Commands`]; protocols, callers and limits are the server's own.

mod authorize;
mod operations;
mod program;
#[cfg(test)]
mod roles;
mod setup;
mod table;
mod tell;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_application::Application;
use cleveragents_domain::{Code, Timestamp};
use cleveragents_server::Options;
use cleveragents_store::{Engine, tokens};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::Notify;

use crate::arguments::{Serve, TurnOptions};
use crate::commands::worker_starter;
use crate::context::Context;
use crate::output::{CommandError, Panel, Printer, Report, Timing};
pub(crate) use operations::{Offered, all as operations, is_flag, is_many};
pub(crate) use table::Part;

use program::Commands;
pub(crate) use program::STREAM;

const COMMAND: &str = "serve";

/// Threads that wait for the database besides those on which turns and plans run.
const WAITING_THREADS: usize = 64;

/// How long a thread that has nothing to do is kept.
const IDLE_THREAD: Duration = Duration::from_secs(5);

/// How many threads read requests and write answers: half as many as there are cores. The rest is for those that
/// store and run, without which no answer comes; and the fewer they are, the less they get in each other's way.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    (cores / 2).max(1)
}

/// Serves until a signal ends it.
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
        .max_blocking_threads(options.max_running + WAITING_THREADS)
        .thread_keep_alive(IDLE_THREAD)
        .thread_name("agents-serve")
        .enable_all()
        .build()
        .map_err(|error| CommandError::internal("no runtime can be made").caused_by(&error))?;
    let commands = Arc::new(Commands::new(context));
    let told = Announcement::new(context.printer, &options);
    let stop = stop_on_signals()?;
    let application = Application::new(engine, context.operation_settings())
        .starting_workers(worker_starter(context)?);
    let served = runtime.block_on(cleveragents_server::serve(
        application,
        commands,
        options,
        |address| told.print(address),
        async move { stop.notified().await },
    ));
    // What still runs was told to stop, and has had its time.
    runtime.shutdown_background();
    served?;
    Ok(Report::written(COMMAND, 0))
}

/// Refuses to start a server that nobody could use.
fn require_token(engine: &Arc<Engine>) -> Result<(), CommandError> {
    let known = engine.read(|reader| tokens::list(reader, false))?;
    let now = Timestamp::now();
    if known.iter().any(|token| token.is_valid_at(now)) {
        return Ok(());
    }
    Err(CommandError::new(
        Code::Unauthenticated,
        "there is no valid token, so nobody could call the server",
    )
    .with_hint(
        "make one: `agents token create NAME --grant NAMESPACE=ROLE`; or let programs on this machine in: \
         `agents serve --insecure-local`",
    ))
}

/// Refuses to start a server whose actor could answer nobody: one that is not there, or that has no key.
fn require_actor(context: &Context, actor: &str) -> Result<(), CommandError> {
    if actor == cleveragents_server::ECHO {
        return Ok(());
    }
    let mut conversation = context.conversation(&TurnOptions::default())?;
    Ok(conversation.use_actor(actor).map(drop)?)
}

/// The first SIGTERM, Ctrl-C or SIGHUP ends the server when what it has begun is done. Another SIGTERM or Ctrl-C ends it
/// at once; another SIGHUP does not, because a terminal that closes may send several.
fn stop_on_signals() -> Result<Arc<Notify>, CommandError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| CommandError::internal("signals cannot be watched").caused_by(&error))?;
    let stop = Arc::new(Notify::new());
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        let mut is_told = false;
        for signal in signals.forever() {
            if is_told && signal == SIGHUP {
                continue;
            }
            if is_told {
                // Everything that was acknowledged is stored: there is nothing to lose.
                signal_hook::low_level::exit(1);
            }
            is_told = true;
            told.notify_one();
        }
    });
    Ok(stop)
}

/// What is said when callers are taken.
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
            // Standard output is for programs when the format is.
            let _told = std::io::stderr().write_all(
                format!(
                    "warning: the server listens at {address} without TLS: others on the network can read tokens \
                     and answers; give --tls-cert and --tls-key, or listen at 127.0.0.1 behind a proxy that has them\n"
                )
                .as_bytes(),
            );
        }
        let pid = std::process::id();
        // Nobody may be there to read it.
        let mut out = std::io::stdout().lock();
        if !self.printer.format().is_human() {
            let line =
                json!({"url": url, "address": address, "public_url": self.public_url, "pid": pid});
            let _told = writeln!(out, "{line}").and_then(|()| out.flush());
            return;
        }
        let needed = if self.insecure_local {
            "nothing on this machine, a token elsewhere"
        } else {
            "a token"
        };
        let report = Report::new(COMMAND)
            .panel(
                Panel::new("Server")
                    .row("Listens at", url)
                    .row("Public address", self.public_url.clone())
                    .row("Process", u64::from(pid))
                    .row("Callers need", needed),
            )
            .info("Ctrl-C ends it, when what it has begun is done");
        let _told = self
            .printer
            .report(&report, Timing::start(), &mut out, &mut std::io::stderr());
    }
}
