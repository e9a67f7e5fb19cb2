//! The request log: one event per request, and the cause of each internal error under the request id of the response.
//!
//! The id does not come from the `tracing` subscriber: responses contain it even if nothing is logged.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::{Code, RequestId};
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::problem::Problem;

/// The target of the events that report requests, for filters.
const ACCESS: &str = "cleveragents_server::access";

/// The response header with the request id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum number of log events about failed requests per second, so that a client that fails repeatedly does not fill
/// the disk.
const FAILURES_PER_SECOND: u64 = 100;

/// Maximum number of characters of a path in an event.
const MAX_PATH_CHARACTERS: usize = 200;

/// Logs the cause of an internal error; returns the id of the request that caused it.
pub(crate) fn internal_error(code: &str, cause: &str) -> Option<RequestId> {
    let request = current().map(|current| current.id);
    let id = request.map(tracing::field::display);
    tracing::error!(request = id, code, cause, "internal error");
    request
}

/// The request that is being processed.
#[derive(Debug)]
pub(crate) struct CurrentRequest {
    pub(crate) id: RequestId,
    caller: OnceLock<String>,
    route: OnceLock<&'static str>,
}

tokio::task_local! {
    static CURRENT: Arc<CurrentRequest>;
}

/// The request that this task or thread works for.
pub(crate) fn current() -> Option<Arc<CurrentRequest>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Records the route of the current request.
pub(crate) fn record_route(route: &'static str) {
    Span::current().record("route", route);
    if let Some(current) = current() {
        // The first route stays, because a request has only one.
        let _known = current.route.set(route);
    }
}

/// Records the identity of the caller of the current request.
pub(crate) fn record_caller(identity: &str) {
    Span::current().record("caller", identity);
    if let Some(current) = current() {
        // The first caller stays, because a request has only one.
        let _known = current.caller.set(identity.to_owned());
    }
}

/// Runs work on another thread for the same request.
pub(crate) fn run_for_request<T>(
    request: Option<Arc<CurrentRequest>>,
    work: impl FnOnce() -> T,
) -> T {
    match request {
        Some(request) => CURRENT.sync_scope(request, work),
        None => work(),
    }
}

/// Runs a future in another task for the same request.
pub(crate) async fn run_in_request<F: Future>(
    request: Option<Arc<CurrentRequest>>,
    work: F,
) -> F::Output {
    match request {
        Some(request) => CURRENT.scope(request, work).await,
        None => work.await,
    }
}

/// The code of the problem in a response, attached to the response for the log.
#[derive(Debug, Clone)]
pub(crate) struct FailureCode(pub(crate) String);

/// The parts of a request that are logged.
pub(crate) struct RequestSummary {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) peer: SocketAddr,
    pub(crate) traceparent: Option<HeaderValue>,
}

impl RequestSummary {
    pub(crate) fn new<B>(request: &http::Request<B>, peer: SocketAddr) -> Self {
        let headers: &HeaderMap = request.headers();
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            peer,
            traceparent: headers.get("traceparent").cloned(),
        }
    }
}

/// Responds to a request under a new id, and logs the request.
pub(crate) async fn answered(
    received: RequestSummary,
    answer: impl Future<Output = Response>,
) -> Response {
    let started_at = Instant::now();
    let request = Arc::new(CurrentRequest {
        id: RequestId::generate(),
        caller: OnceLock::new(),
        route: OnceLock::new(),
    });
    let parent = received.traceparent.as_ref();
    // The span has the highest level, so that no filter removes the request id from log lines.
    let span = tracing::error_span!(
        "request", otel.kind = "server", otel.parent = parent.and_then(|header| header.to_str().ok()),
        request = %request.id, method = received.method.as_str(), route = Empty, caller = Empty, status = Empty,
        code = Empty, otel.end = Empty,
    );
    let answer = CURRENT.scope(Arc::clone(&request), catch_panic(answer));
    let mut response = answer.instrument(span.clone()).await;
    if let Ok(id) = HeaderValue::try_from(request.id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    span.record("status", response.status().as_u16());
    let code = response.extensions().get::<FailureCode>();
    if let Some(code) = code {
        span.record("code", &*code.0);
    }
    // Background work of the request, such as a stream, keeps the span open after the response.
    span.record("otel.end", true);
    span.in_scope(|| log(&received, &request, &response, started_at));
    response
}

/// The response, or the response of an internal error if the handler panics.
async fn catch_panic(answer: impl Future<Output = Response>) -> Response {
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let cause = format!("panicked: {}", text.unwrap_or("without a message"));
            Problem::new(Code::Internal, cause).into_response()
        }
    }
}

fn log(
    received: &RequestSummary,
    request: &CurrentRequest,
    response: &Response,
    started_at: Instant,
) {
    let status = response.status();
    let code = response.extensions().get::<FailureCode>();
    let code = code.map(|code| &*code.0);
    // Errors of JSON-RPC and of operations have a successful HTTP status.
    let is_failed = status.is_client_error() || status.is_server_error() || code.is_some();
    // Logs the same fields at two levels; `tracing` needs one call site for each level.
    macro_rules! access {
        ($level:expr, $message:literal, $left_out:expr) => {
            tracing::event!(
                target: ACCESS,
                $level,
                request = %request.id,
                method = received.method.as_str(),
                path = received.path.chars().take(MAX_PATH_CHARACTERS).collect::<String>(),
                route = request.route.get(),
                status = status.as_u16(),
                code,
                caller = request.caller.get(),
                peer = %received.peer,
                duration_ms = u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX),
                left_out = $left_out,
                $message
            )
        };
    }
    if !is_failed {
        access!(tracing::Level::INFO, "request answered", None::<u64>);
    } else if let Some(left_out) = admit_failure() {
        // Number of failed requests since the last event that were not logged.
        let left_out = Some(left_out).filter(|count| *count > 0);
        access!(tracing::Level::WARN, "request failed", left_out);
    }
}

/// Applies the limit on events about failed requests. Returns the number of events left out since the last logged event
/// if a further event may be logged, otherwise `None`.
fn admit_failure() -> Option<u64> {
    struct LogSecond {
        start: Option<Instant>,
        events: u64,
        left_out: u64,
    }
    static SECOND: Mutex<LogSecond> = Mutex::new(LogSecond {
        start: None,
        events: 0,
        left_out: 0,
    });
    let mut second = SECOND.lock().unwrap_or_else(PoisonError::into_inner);
    let is_over = |start: Instant| start.elapsed() >= Duration::from_secs(1);
    if second.start.is_none_or(is_over) {
        second.start = Some(Instant::now());
        second.events = 0;
    }
    second.events += 1;
    if second.events > FAILURES_PER_SECOND {
        second.left_out += 1;
        return None;
    }
    Some(std::mem::take(&mut second.left_out))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;
    use std::net::SocketAddr;
    use std::sync::{Arc, Mutex};

    use axum::response::{IntoResponse as _, Response};
    use cleveragents_application::StoreError;
    use serde_json::Value;
    use tracing::field::{Field, Visit};
    use tracing_subscriber::layer::{Context, SubscriberExt as _};
    use tracing_subscriber::{Layer, Registry};

    use super::{RequestSummary, answered};
    use crate::problem::Problem;

    type Fields = BTreeMap<&'static str, String>;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<Fields>>>);

    struct FieldCollector<'a>(&'a mut Fields);

    impl Visit for FieldCollector<'_> {
        fn record_str(&mut self, field: &Field, value: &str) {
            self.0.insert(field.name(), value.to_owned());
        }

        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.insert(field.name(), format!("{value:?}"));
        }
    }

    impl Layer<Registry> for Captured {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, Registry>) {
            let mut fields = Fields::new();
            event.record(&mut FieldCollector(&mut fields));
            self.0.lock().expect("no panic").push(fields);
        }
    }

    /// Status and body of the response to a request, and the logged events.
    fn answer(work: impl Future<Output = Response>) -> (u16, Value, Vec<Fields>) {
        let captured = Captured::default();
        let subscriber = tracing_subscriber::registry().with(captured.clone());
        let _default = tracing::subscriber::set_default(subscriber);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let received = RequestSummary {
            method: http::Method::GET,
            path: "/x".to_owned(),
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
            traceparent: None,
        };
        let (status, body) = runtime.block_on(async {
            let response = answered(received, work).await;
            let status = response.status().as_u16();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
            (status, body.expect("a body"))
        });
        let events = captured.0.lock().expect("no panic").clone();
        (status, serde_json::from_slice(&body).expect("JSON"), events)
    }

    #[track_caller]
    fn assert_cause_is_logged(work: impl Future<Output = Response>, cause: &str) {
        let (status, body, events) = answer(work);
        assert_eq!(status, 500);
        assert!(!body.to_string().contains(cause), "{body}");
        let id = body["details"]["request_id"].as_str().expect("an id");
        let logged = events
            .iter()
            .find(|event| event["message"] == "internal error");
        let logged = logged.unwrap_or_else(|| panic!("{events:?}"));
        assert_eq!(logged["request"], id);
        assert!(logged["cause"].contains(cause), "{logged:?}");
        let access = events.last().expect("an event");
        assert_eq!(
            (&*access["message"], &*access["request"]),
            ("request failed", id)
        );
        assert_eq!(access["status"], "500");
    }

    #[test]
    fn the_log_has_the_cause_of_an_internal_error_with_the_id_of_the_response() {
        assert_cause_is_logged(
            async {
                Problem::from_error(&StoreError::Statement("no such table: secrets".to_owned()))
                    .into_response()
            },
            "no such table: secrets",
        );
    }

    #[test]
    fn a_handler_that_panics_answers_500_and_its_message_is_logged() {
        assert_cause_is_logged(async { panic!("a broken handler") }, "a broken handler");
    }
}
