//! `Idempotency-Key`: a repeated request with the same key receives the stored response of the first request, and has
//! no second effect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use cleveragents_application::{KeyClaim, RequestKey, RequestKeyService, StoreError};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, ContentHash};
use cleveragents_process::Cancel;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, LOCATION};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::authorize::Permit;
use crate::problem::Problem;
use crate::request_body;
use crate::routes::RouteResponse;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Marks a response as a copy of a stored response.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Maximum length of a key.
const MAX_LENGTH: usize = 200;

/// Delay before retrying to write to a database that does not respond.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Stored form of a response.
#[derive(Debug, Serialize, Deserialize)]
struct StoredResponse {
    headers: BTreeMap<String, String>,
    body: String,
}

/// True if a request has a key.
pub(crate) fn has_key(headers: &HeaderMap) -> bool {
    headers.contains_key(KEY)
}

/// The key of a request, if any.
pub(crate) fn key(
    app: &App,
    caller: &Caller,
    parts: &Parts,
    body: &[u8],
) -> Result<Option<RequestKey>, Problem> {
    let Some(value) = parts.headers.get(KEY) else {
        return Ok(None);
    };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > MAX_LENGTH {
        return Err(Problem::new(
            Code::MalformedRequest,
            format!("`Idempotency-Key` must have 1 to {MAX_LENGTH} printable ASCII characters"),
        ));
    }
    let mut hashed = format!("{} {}\n", parts.method, parts.uri).into_bytes();
    hashed.extend_from_slice(body);
    Ok(Some(RequestKey {
        identity: caller.identity().to_owned(),
        key: key.to_owned(),
        hash: ContentHash::of_bytes(&hashed).hex(),
        server: app.tasks.runner().to_owned(),
    }))
}

/// Stored form of a JSON response.
pub(crate) fn stored_response(body: &str) -> String {
    let headers = BTreeMap::from([(CONTENT_TYPE.to_string(), "application/json".to_owned())]);
    encode(&StoredResponse {
        headers,
        body: body.to_owned(),
    })
}

fn encode(stored: &StoredResponse) -> String {
    serde_json::to_string(stored).unwrap_or_default()
}

/// The response to a request whose key was used before.
pub(crate) fn repeated(claim: KeyClaim) -> Result<Response, Problem> {
    match claim {
        KeyClaim::Answered { status, body } => replay(status, &body),
        KeyClaim::Conflict => Err(Problem::new(
            Code::RequestKeyReused,
            "a different request was made with this `Idempotency-Key`",
        )
        .with_hint("use a new key for a new request")),
        KeyClaim::First | KeyClaim::Pending { .. } => Err(Problem::new(
            Code::RequestKeyPending,
            "the request with this `Idempotency-Key` is still being processed",
        )
        .with_hint("retry in a moment")
        .after(1)),
    }
}

fn replay(status: u16, body: &str) -> Result<Response, Problem> {
    let unreadable = || Problem::new(Code::Internal, "a stored response cannot be read");
    let stored: StoredResponse = serde_json::from_str(body).map_err(|_| unreadable())?;
    let status = StatusCode::from_u16(status).map_err(|_| unreadable())?;
    let mut response = (status, stored.body).into_response();
    response.headers_mut().remove(CONTENT_TYPE);
    for (name, value) in &stored.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// Responds to a request with a key. The work continues if the client disconnects.
pub(crate) async fn once(
    app: &Arc<App>,
    permit: Permit,
    request: Request,
    handler: fn(Arc<App>, Permit, Request) -> RouteResponse,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let body = request_body::read(app, body).await?;
    let Some(key) = key(app, permit.caller(), &parts, &body)? else {
        return Err(Problem::new(Code::Internal, "the request has no key"));
    };
    let (keys, claimed_key) = (app.services.request_keys(), key.clone());
    let claim = crate::blocking(move || keys.claim(&claimed_key)).await?;
    match claim {
        KeyClaim::First => {}
        KeyClaim::Pending { server } if !is_alive(app, &server).await? => {
            return store_response(app, key, interrupted().into_response()).await;
        }
        claim => return repeated(claim),
    }
    // Only a complete response can be stored and repeated, so the handler must not stream.
    parts.headers.remove(ACCEPT);
    let (inner, cancel, response_key) = (Arc::clone(app), Cancel::new(), key.clone());
    let handling = crate::spawn_task(async move {
        let _registration = inner.shutdown.begin(&cancel);
        let request = Request::from_parts(parts, Body::from(body));
        match handler(Arc::clone(&inner), permit, request).await {
            Err(problem) if is_not_started(&problem) => {
                forget(&inner, response_key).await;
                Err(problem)
            }
            // The database failed during the work: this response must not be repeated.
            Err(problem) if problem.status == StatusCode::SERVICE_UNAVAILABLE => {
                store_response(&inner, response_key, interrupted().into_response()).await?;
                Err(problem)
            }
            answer => {
                store_response(
                    &inner,
                    response_key,
                    answer.unwrap_or_else(Problem::into_response),
                )
                .await
            }
        }
    });
    let Ok(answer) = handling.await else {
        let broken = Problem::new(Code::Internal, "the request was interrupted");
        return store_response(app, key, broken.into_response()).await;
    };
    answer
}

/// The problem for an interrupted request. Its outcome is unknown, so the request is neither retried nor assumed
/// done.
fn interrupted() -> Problem {
    Problem::new(
        Code::RequestInterrupted,
        "the request with this `Idempotency-Key` was interrupted, and its outcome is unknown",
    )
    .with_hint("check what it did, and use a new key to retry")
}

/// True if the server that started a request is alive.
async fn is_alive(app: &Arc<App>, server: &str) -> Result<bool, Problem> {
    if server == app.tasks.runner() {
        return Ok(true);
    }
    let (keys, server) = (app.services.request_keys(), server.to_owned());
    let is_alive = crate::blocking(move || keys.is_server_alive(&server)).await;
    is_alive.map_err(|error| Problem::from_error(&error))
}

/// True if the problem shows that no work was started: there was no free slot, or the request was incomplete. A
/// database error does not show this, because it may have occurred during the work.
fn is_not_started(problem: &Problem) -> bool {
    let codes = [Code::TooManyRequests, Code::ServerBusy, Code::ServerEnding];
    codes.iter().any(|code| problem.code == code.as_str())
        || problem.status == StatusCode::REQUEST_TIMEOUT
}

/// Deletes a key whose request was not started.
async fn forget(app: &Arc<App>, key: RequestKey) {
    store(app, move |keys| keys.forget(&key)).await;
}

/// Stores a response under its key.
async fn store_response(
    app: &Arc<App>,
    key: RequestKey,
    response: Response,
) -> Result<Response, Problem> {
    let (parts, body) = response.into_parts();
    let body: Bytes = axum::body::to_bytes(body, usize::MAX)
        .await
        .map_err(|_| Problem::new(Code::Internal, "the response was interrupted"))?;
    let headers = [CONTENT_TYPE, ETAG, LOCATION].into_iter();
    let stored = encode(&StoredResponse {
        headers: headers
            .filter_map(|name| {
                let value = parts.headers.get(&name)?.to_str().ok()?.to_owned();
                Some((name.to_string(), value))
            })
            .collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let status = parts.status.as_u16();
    store(app, move |keys| keys.answer(&key, status, &stored)).await;
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// Stores the state of a key. If the database does not respond, retries in the background while the client gets its
/// response; until the state is stored, a repeated request is reported as still being processed.
async fn store(
    app: &Arc<App>,
    change: impl Fn(&RequestKeyService) -> Result<(), StoreError> + Clone + Send + 'static,
) {
    let write = move |app: &App| {
        let (keys, change) = (app.services.request_keys(), change.clone());
        crate::blocking(move || change(&keys))
    };
    if write(app).await.is_ok() {
        return;
    }
    let app = Arc::clone(app);
    tokio::spawn(async move {
        while write(&app).await.is_err() {
            tokio::time::sleep(RETRY_DELAY).await;
        }
    });
}
