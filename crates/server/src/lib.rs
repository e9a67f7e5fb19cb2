//! Server mode: many callers at once over HTTP.
//!
//! [`serve`] listens and answers until it is told to end. [`Program`] is what the front end that starts a server
//! lends it, [`Options`] how the server is set up. Every request goes through one gate (`gate.rs`), which knows who
//! calls and checks what they may do against the table of routes (`routes.rs`).

mod a2a;
mod api;
mod app;
mod callers;
mod driving;
mod event_scope;
mod fair_queue;
mod feed;
mod gate;
mod health;
mod listen;
mod log;
mod metrics;
mod operations;
mod options;
mod problem;
mod program;
mod routes;
mod usage_metrics;

use std::net::SocketAddr;
use std::sync::Arc;

use cleveragents_application::Application;
use cleveragents_domain::Code;
use tracing::Instrument as _;

pub use a2a::ECHO;
pub use options::{Conformance, Options, Tls};
pub use problem::Problem;
pub use program::{Call, Done, Failure, Line, Listener, Operation, Program, Screen, Tell, Told};

/// Serves until `stop` resolves, and then until what was begun is done. `listening` is told where, as soon as
/// callers are taken.
pub async fn serve(
    application: Application,
    program: Arc<dyn Program>,
    options: Options,
    listening: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let wanted = options.address;
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::new(
            Code::CannotListen,
            format!("nothing can listen at {wanted}: {error}"),
        )
        .with_hint("choose another port with --port; 0 takes a free one")
    };
    let tls = options.tls.as_ref().map(listen::acceptor).transpose()?;
    let listener = listen::bind(wanted).map_err(|error| cannot(&error))?;
    let address = listener.local_addr().map_err(|error| cannot(&error))?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = options
        .public_url
        .clone()
        .unwrap_or_else(|| advertised(scheme, address));
    let url = url.trim_end_matches('/').to_owned();
    let app = Arc::new(app::App::new(application, program, options, url));
    a2a::begin(&app).await?;
    driving::take_over(&app).await?;
    let router = routes::Router::new()
        .map_err(|error| Failure::new(Code::Internal, format!("the table of routes: {error}")))?;
    listening(address);
    tracing::info!(%address, url = app.url, "listening");
    listen::serve(Arc::clone(&app), listener, tls, Arc::new(router), stop).await;
    a2a::end(&app).await;
    tracing::info!("stopped");
    Ok(())
}

/// The address that callers are given when none is configured: the one that is listened at, or the name of this host
/// when that stands for every address of it (`0.0.0.0`, `::`), which no caller can connect to.
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

/// Runs something beside the request that it belongs to.
pub(crate) fn beside<F>(work: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(log::within(log::current(), work.in_current_span()))
}

/// Runs what waits for the database or for something else on a thread where that hurts nobody.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (span, request) = (tracing::Span::current(), log::current());
    let work = move || span.in_scope(|| log::attached(request, work));
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends: nobody is there to be answered.
            Err(_) => std::future::pending().await,
        },
    }
}
