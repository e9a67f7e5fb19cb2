//! `Idempotency-Key`: a request that is repeated with its key gets the response of the first one, and has no second
//! effect.

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
use crate::gate::{self, Permit};
use crate::problem::Problem;
use crate::routes::Answer;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Says that an answer was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest key.
const LONGEST: usize = 200;

/// How long is waited for a database that is gone.
const PAUSE: Duration = Duration::from_secs(1);

/// An answer as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    headers: BTreeMap<String, String>,
    body: String,
}

/// Whether a request has a key.
pub(crate) fn has_key(headers: &HeaderMap) -> bool {
    headers.contains_key(KEY)
}

/// The key of a request, if it has one.
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
    if key.is_empty() || key.len() > LONGEST {
        return Err(Problem::new(
            Code::MalformedRequest,
            format!("`Idempotency-Key` must hold 1 to {LONGEST} plain characters"),
        ));
    }
    let mut asked = format!("{} {}\n", parts.method, parts.uri).into_bytes();
    asked.extend_from_slice(body);
    Ok(Some(RequestKey {
        identity: caller.identity().to_owned(),
        key: key.to_owned(),
        hash: ContentHash::of(&asked).hex(),
        server: app.tasks.runner().to_owned(),
    }))
}

/// A JSON answer as it is kept.
pub(crate) fn kept(body: &str) -> String {
    let headers = BTreeMap::from([(CONTENT_TYPE.to_string(), "application/json".to_owned())]);
    text(&Kept {
        headers,
        body: body.to_owned(),
    })
}

fn text(kept: &Kept) -> String {
    serde_json::to_string(kept).unwrap_or_default()
}

/// What the caller is told when its request is not the first one with its key.
pub(crate) fn repeated(claim: KeyClaim) -> Result<Response, Problem> {
    match claim {
        KeyClaim::Answered { status, body } => replay(status, &body),
        KeyClaim::Conflict => Err(Problem::new(
            Code::RequestKeyReused,
            "another request was made with this `Idempotency-Key`",
        )
        .with_hint("use a new key for a new request")),
        KeyClaim::First | KeyClaim::Pending { .. } => Err(Problem::new(
            Code::RequestKeyPending,
            "a request with this `Idempotency-Key` was begun and has no answer",
        )
        .with_hint("ask again in a moment")
        .after(1)),
    }
}

fn replay(status: u16, body: &str) -> Result<Response, Problem> {
    let unreadable = || Problem::new(Code::Internal, "a kept answer cannot be read");
    let kept: Kept = serde_json::from_str(body).map_err(|_| unreadable())?;
    let status = StatusCode::from_u16(status).map_err(|_| unreadable())?;
    let mut response = (status, kept.body).into_response();
    response.headers_mut().remove(CONTENT_TYPE);
    for (name, value) in &kept.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// Answers a request that has a key. What was begun is brought to its end even when the caller goes away.
pub(crate) async fn once(
    app: &Arc<App>,
    permit: Permit,
    request: Request,
    handler: fn(Arc<App>, Permit, Request) -> Answer,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let body = gate::body(app, body).await?;
    let Some(key) = key(app, permit.caller(), &parts, &body)? else {
        return Err(Problem::new(Code::Internal, "the request has no key"));
    };
    let (keys, wanted) = (app.services.request_keys(), key.clone());
    let claim = crate::blocking(move || keys.claim(&wanted)).await?;
    match claim {
        KeyClaim::First => {}
        KeyClaim::Pending { server } if !is_alive(app, &server).await? => {
            return keep(app, key, cut_off().into_response()).await;
        }
        claim => return repeated(claim),
    }
    // Only a whole answer can be given again.
    parts.headers.remove(ACCEPT);
    let (inner, cancel, of) = (Arc::clone(app), Cancel::new(), key.clone());
    let answering = crate::beside(async move {
        let _begun = inner.ending.begin(&cancel);
        let request = Request::from_parts(parts, Body::from(body));
        match handler(Arc::clone(&inner), permit, request).await {
            Err(problem) if is_unbegun(&problem) => {
                forget(&inner, of).await;
                Err(problem)
            }
            // The database was gone in the middle: this is no answer for the next one who asks.
            Err(problem) if problem.status == StatusCode::SERVICE_UNAVAILABLE => {
                keep(&inner, of, cut_off().into_response()).await?;
                Err(problem)
            }
            answer => keep(&inner, of, answer.unwrap_or_else(Problem::into_response)).await,
        }
    });
    let Ok(answer) = answering.await else {
        let broken = Problem::new(Code::Internal, "the work broke off");
        return keep(app, key, broken.into_response()).await;
    };
    answer
}

/// What the caller is told whose request was begun and cut off: it may have had its effect or not, so it is neither made
/// again nor taken for done.
fn cut_off() -> Problem {
    Problem::new(
        Code::RequestCutOff,
        "the request with this `Idempotency-Key` was cut off, and nobody knows how far it came",
    )
    .with_hint("look at what it did, and use a new key to ask again")
}

/// Whether the server that began a request is there to answer it.
async fn is_alive(app: &Arc<App>, server: &str) -> Result<bool, Problem> {
    if server == app.tasks.runner() {
        return Ok(true);
    }
    let (keys, server) = (app.services.request_keys(), server.to_owned());
    let is_alive = crate::blocking(move || keys.is_server_alive(&server)).await;
    is_alive.map_err(|error| Problem::of(&error))
}

/// Whether a refusal says that nothing was begun: there was no room, or the request did not come whole. What went wrong
/// with the database may have gone wrong in the middle.
fn is_unbegun(problem: &Problem) -> bool {
    let codes = [Code::TooManyRequests, Code::ServerBusy, Code::ServerEnding];
    codes.iter().any(|code| problem.code == code.as_str())
        || problem.status == StatusCode::REQUEST_TIMEOUT
}

/// Forgets a key whose request was not begun.
async fn forget(app: &Arc<App>, key: RequestKey) {
    store(app, move |keys| keys.forget(&key)).await;
}

/// Keeps an answer.
async fn keep(app: &Arc<App>, key: RequestKey, response: Response) -> Result<Response, Problem> {
    let (parts, body) = response.into_parts();
    let body: Bytes = axum::body::to_bytes(body, usize::MAX)
        .await
        .map_err(|_| Problem::new(Code::Internal, "the answer broke off"))?;
    let headers = [CONTENT_TYPE, ETAG, LOCATION].into_iter();
    let kept = text(&Kept {
        headers: headers
            .filter_map(|name| {
                let value = parts.headers.get(&name)?.to_str().ok()?.to_owned();
                Some((name.to_string(), value))
            })
            .collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let status = parts.status.as_u16();
    store(app, move |keys| keys.answer(&key, status, &kept)).await;
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// Stores what is known of a key: now, or when the database is back. The caller does not wait for that; whoever asks
/// again before is told that there is no answer yet.
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
            tokio::time::sleep(PAUSE).await;
        }
    });
}
