//! Server mode: many callers at once over HTTP.
//!
//! [`serve`] listens and responds until it is stopped. [`Application`] has the operations that callers run,
//! [`Options`] the settings of the server. `authorize.rs` identifies the caller of every request
//! and checks its permissions against the table of routes (`routes.rs`).

mod a2a;
mod api;
mod app;
mod authorize;
mod callers;
mod event_scope;
mod failure;
mod fair_queue;
mod health;
mod listen;
mod live_events;
mod log;
mod metrics;
mod options;
mod plan_driver;
mod problem;
mod request_body;
mod routes;
mod shutdown;
mod usage_metrics;

use std::net::SocketAddr;
use std::sync::Arc;

use cleveragents_application::Application;
use cleveragents_domain::Code;
use tracing::Instrument as _;

pub use a2a::ECHO;
pub use failure::Failure;
pub use options::{Conformance, Options, Tls};
pub use problem::Problem;

/// The version of the server.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Serves until `stop` resolves, and then until running work is finished. Calls `listening` with the address as soon
/// as connections are accepted.
pub async fn serve(
    application: Application,
    options: Options,
    listening: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let requested = options.address;
    let listen_failure = |error: &dyn std::fmt::Display| {
        Failure::new(
            Code::CannotListen,
            format!("cannot listen at {requested}: {error}"),
        )
        .with_hint("choose another port with --port; 0 selects a free port")
    };
    let tls = options.tls.as_ref().map(listen::acceptor).transpose()?;
    let listener = listen::bind(requested).map_err(|error| listen_failure(&error))?;
    let address = listener
        .local_addr()
        .map_err(|error| listen_failure(&error))?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = options
        .public_url
        .clone()
        .unwrap_or_else(|| advertised(scheme, address));
    let url = url.trim_end_matches('/').to_owned();
    let app = Arc::new(app::App::new(application, options, url));
    a2a::begin(&app).await?;
    plan_driver::take_over(&app).await?;
    let router = routes::Router::new().map_err(|error| {
        Failure::new(Code::Internal, format!("invalid table of routes: {error}"))
    })?;
    listening(address);
    tracing::info!(%address, url = app.url, "listening");
    listen::serve(Arc::clone(&app), listener, tls, Arc::new(router), stop).await;
    a2a::end(&app).await;
    tracing::info!("stopped");
    Ok(())
}

/// The default public address: the address that the server listens at, or the name of this host if that is a wildcard
/// (`0.0.0.0`, `::`), which no client can connect to.
pub fn advertised(scheme: &str, address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy();
        if !host.is_empty() {
            return format!("{scheme}://{host}:{}", address.port());
        }
    }
    format!("{scheme}://{address}")
}

/// Spawns a task that outlives its request but keeps the request's id in the log.
pub(crate) fn spawn_task<F>(work: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(log::run_in_request(log::current(), work.in_current_span()))
}

/// Runs blocking work, such as database calls, on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (span, request) = (tracing::Span::current(), log::current());
    let work = move || span.in_scope(|| log::run_for_request(request, work));
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is stopping: no client is left to receive the result.
            Err(_) => std::future::pending().await,
        },
    }
}
