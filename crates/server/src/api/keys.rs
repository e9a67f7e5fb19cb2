//! `Idempotency-Key`: a request that is repeated with its key gets the answer of the first one, and has no second
//! effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, ContentHash, Timestamp};
use cleveragents_process::Cancel;
use cleveragents_store::request_keys::{self, Begun, RequestKey};
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

/// How long answers are kept, in seconds.
const KEPT: i64 = 24 * 60 * 60;

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
    }))
}

/// From when on keys are remembered.
pub(crate) fn oldest() -> Timestamp {
    Timestamp::now().plus_seconds(-KEPT)
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
pub(crate) fn again(begun: Begun) -> Result<Response, Problem> {
    match begun {
        Begun::Answered { status, body } => replay(status, &body),
        Begun::Other => Err(Problem::new(
            Code::RequestKeyReused,
            "another request was made with this `Idempotency-Key`",
        )
        .with_hint("use a new key for a new request")),
        Begun::First | Begun::Unanswered => Err(Problem::new(
            Code::RequestKeyPending,
            "a request with this `Idempotency-Key` was begun and has no answer",
        )
        .with_hint("look at what it did, or ask again in a moment")
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
    let Some(key) = key(permit.caller(), &parts, &body)? else {
        return Err(Problem::new(Code::Internal, "the request has no key"));
    };
    let (engine, wanted) = (Arc::clone(&app.engine), key.clone());
    let begun = crate::blocking(move || {
        engine.write(move |unit| {
            request_keys::prune(unit, oldest())?;
            request_keys::begin(unit, &wanted)
        })
    })
    .await?;
    if begun != Begun::First {
        return again(begun);
    }
    // Only a whole answer can be given again.
    parts.headers.remove(ACCEPT);
    let (app, cancel) = (Arc::clone(app), Cancel::new());
    let answering = crate::beside(async move {
        let _begun = app.ending.begin(&cancel);
        let request = Request::from_parts(parts, Body::from(body));
        let answer = handler(Arc::clone(&app), permit, request).await;
        keep(&app, key, answer.unwrap_or_else(Problem::into_response)).await
    });
    answering
        .await
        .map_err(|_| Problem::new(Code::Internal, "the work broke off"))?
}

/// Keeps an answer, unless it says that nothing was begun.
async fn keep(app: &App, key: RequestKey, response: Response) -> Result<Response, Problem> {
    let (parts, body) = response.into_parts();
    let body: Bytes = axum::body::to_bytes(body, usize::MAX)
        .await
        .map_err(|_| Problem::new(Code::Internal, "the answer broke off"))?;
    let had_no_effect = matches!(
        parts.status,
        StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
    );
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
    let (engine, status) = (Arc::clone(&app.engine), parts.status.as_u16());
    crate::blocking(move || {
        engine.write(move |unit| {
            if had_no_effect {
                request_keys::forget(unit, &key)
            } else {
                request_keys::answer(unit, &key, status, &kept)
            }
        })
    })
    .await?;
    Ok(Response::from_parts(parts, Body::from(body)))
}
