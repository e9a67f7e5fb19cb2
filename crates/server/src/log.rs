//! The log of the server: one line for each failed request, and the cause of each internal error under the id that
//! the answer names. The front end says where the lines go ([`log_to`]).

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::response::Response;
use cleveragents_domain::{RequestId, Timestamp};
use http::{HeaderName, HeaderValue, Method};

/// The header of each answer that names the request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The most lines about failed requests in a second. A caller that is refused again and again does not fill the disk.
const LINES_PER_SECOND: u64 = 100;

/// The most characters of a path in a line.
const LONGEST_PATH: usize = 200;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// A request was refused or failed.
    Warning,
    /// Something went wrong inside the server.
    Error,
}

/// One line of the log.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// When it happened.
    pub at: Timestamp,
    /// How bad it is.
    pub level: LogLevel,
    /// The request that it belongs to; none for work that no request waits for.
    pub request: Option<RequestId>,
    /// What happened.
    pub message: String,
}

impl fmt::Display for LogEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            LogLevel::Warning => "WARN",
            LogLevel::Error => "ERROR",
        };
        write!(formatter, "{} {level}", self.at)?;
        if let Some(request) = self.request {
            write!(formatter, " request={request}")?;
        }
        formatter.write_str(" ")?;
        // One entry is one line, whatever callers write.
        for letter in self.message.chars() {
            if letter.is_control() {
                write!(formatter, "{}", letter.escape_default())?;
            } else {
                write!(formatter, "{letter}")?;
            }
        }
        Ok(())
    }
}

type Sink = Arc<dyn Fn(&LogEntry) + Send + Sync>;

static SINK: RwLock<Option<Sink>> = RwLock::new(None);

/// Sends the lines of every server of this process to `sink`, in the place of the one before it.
pub fn log_to(sink: impl Fn(&LogEntry) + Send + Sync + 'static) {
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(sink));
}

fn write(level: LogLevel, request: Option<RequestId>, message: String) {
    let sink = SINK.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(sink) = sink {
        sink(&LogEntry {
            at: Timestamp::now(),
            level,
            request,
            message,
        });
    }
}

/// Logs the cause of an internal error, and gives the request under which it is found.
pub(crate) fn internal_error(code: &str, cause: &str) -> Option<RequestId> {
    let request = current().map(|current| current.id);
    write(LogLevel::Error, request, format!("{code} {cause}"));
    request
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct CurrentRequest {
    pub(crate) id: RequestId,
    caller: OnceLock<String>,
}

tokio::task_local! {
    static CURRENT: Arc<CurrentRequest>;
}

/// The request that this task or thread works for.
pub(crate) fn current() -> Option<Arc<CurrentRequest>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Notes the identity of the caller, once it is known.
pub(crate) fn identified(identity: &str) {
    if let Some(current) = current() {
        // A request has one caller.
        let _known = current.caller.set(identity.to_owned());
    }
}

/// Does something on another thread for the same request.
pub(crate) fn attached<T>(request: Option<Arc<CurrentRequest>>, work: impl FnOnce() -> T) -> T {
    match request {
        Some(request) => CURRENT.sync_scope(request, work),
        None => work(),
    }
}

/// Continues something in another task for the same request.
pub(crate) async fn within<F: Future>(request: Option<Arc<CurrentRequest>>, work: F) -> F::Output {
    match request {
        Some(request) => CURRENT.scope(request, work).await,
        None => work.await,
    }
}

/// The code of the problem that an answer tells, kept with the answer for the log.
#[derive(Debug, Clone)]
pub(crate) struct FailureCode(pub(crate) String);

/// Answers a request under a new id, and logs it if it fails.
pub(crate) async fn answered(
    method: Method,
    path: String,
    peer: SocketAddr,
    answer: impl Future<Output = Response>,
) -> Response {
    let begun = Instant::now();
    let request = Arc::new(CurrentRequest {
        id: RequestId::generate(),
        caller: OnceLock::new(),
    });
    let mut response = CURRENT.scope(Arc::clone(&request), answer).await;
    if let Ok(id) = HeaderValue::try_from(request.id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    let status = response.status();
    let code = response.extensions().get::<FailureCode>();
    // Errors of JSON-RPC and of commands come with a status of success.
    let is_failed = status.is_client_error() || status.is_server_error() || code.is_some();
    if is_failed && let Some(left_out) = admit() {
        let path: String = path.chars().take(LONGEST_PATH).collect();
        let code = code.map_or("-", |code| &*code.0);
        let caller = request.caller.get().map_or("-", String::as_str);
        let took = begun.elapsed().as_millis();
        let status = status.as_u16();
        let more = match left_out {
            0 => String::new(),
            count => format!(" ({count} failed requests before it are not listed)"),
        };
        let line =
            format!("{method} {path} {status} {code} caller={caller} peer={peer} {took}ms{more}");
        write(LogLevel::Warning, Some(request.id), line);
    }
    response
}

/// Whether one more line about a failed request may be written, and how many were left out since the last one.
fn admit() -> Option<u64> {
    struct Second {
        began: Option<Instant>,
        lines: u64,
        left_out: u64,
    }
    static SECOND: Mutex<Second> = Mutex::new(Second {
        began: None,
        lines: 0,
        left_out: 0,
    });
    let mut second = SECOND.lock().unwrap_or_else(PoisonError::into_inner);
    let is_over = |began: Instant| began.elapsed() >= Duration::from_secs(1);
    if second.began.is_none_or(is_over) {
        second.began = Some(Instant::now());
        second.lines = 0;
    }
    second.lines += 1;
    if second.lines > LINES_PER_SECOND {
        second.left_out += 1;
        return None;
    }
    Some(std::mem::take(&mut second.left_out))
}

#[cfg(test)]
mod tests {
    use super::{LogEntry, LogLevel};
    use cleveragents_domain::{RequestId, Timestamp};

    #[test]
    fn an_entry_is_one_line_whatever_it_says() {
        let entry = LogEntry {
            at: Timestamp::now(),
            level: LogLevel::Error,
            request: Some(RequestId::generate()),
            message: "one\ntwo\u{1b}[31m".to_owned(),
        };
        let text = entry.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("one\\ntwo\\u{1b}[31m"), "{text}");
    }
}
