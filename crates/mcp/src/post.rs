//! [`BoundedClient`]: HTTP requests with a limit on the response size. The SDK limits the events of a
//! stream, but not a plain response.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _};
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Client, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::connection::bounded;
use crate::stdio::{MAX_MESSAGE_SIZE, Message};

const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// Maximum size of an error response, in bytes.
const MAX_ERROR_SIZE: usize = 64 << 10;

/// A client with bounded responses.
#[derive(Clone)]
pub(crate) struct BoundedClient(pub(crate) Client);

type Problem = StreamableHttpError<reqwest::Error>;

fn unexpected(text: impl Into<String>) -> Problem {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text.into()))
}

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Problem> {
        let mut request = self
            .0
            .post(uri.as_ref())
            .header(ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        let has_session = session_id.is_some();
        if let Some(session) = session_id {
            request = request.header(SESSION, session.as_ref());
        }
        let response = request.json(&message).send().await?;
        parse_response(&message, has_session, response).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Problem> {
        let deletion = self
            .0
            .delete_session(uri, session_id, auth_header, custom_headers);
        deletion.await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Problem> {
        self.0
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                MAX_MESSAGE_SIZE,
            )
            .await
    }
}

async fn parse_response(
    message: &ClientJsonRpcMessage,
    has_session: bool,
    response: Response,
) -> Result<StreamableHttpPostResponse, Problem> {
    let status = response.status();
    check_challenge(&response)?;
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && has_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
    let text = |name: &str| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let session = text(SESSION);
    let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default();
    if !status.is_success() {
        return parse_error_response(message, has_session, response).await;
    }
    if !is_request && response.content_length() == Some(0) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if kind.starts_with(EVENTS) {
        let events = SseStream::from_bytes_stream(bounded_events(response)).boxed();
        return Ok(StreamableHttpPostResponse::Sse(events, session));
    }
    if kind.starts_with(JSON) {
        let body = read_body(response, MAX_MESSAGE_SIZE).await?;
        let mut message = Message::default();
        message.count(&body).map_err(unexpected)?;
        return match serde_json::from_slice(&body) {
            Ok(parsed) => Ok(StreamableHttpPostResponse::Json(parsed, session)),
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(error) => Err(unexpected(format!("its response is invalid: {error}"))),
        };
    }
    Err(StreamableHttpError::UnexpectedContentType(Some(kind)))
}

/// Fails when the server requires a sign-in or additional scopes.
fn check_challenge(response: &Response) -> Result<(), Problem> {
    let Some(challenge) = response.headers().get(WWW_AUTHENTICATE) else {
        return Ok(());
    };
    let challenge = challenge.to_str().unwrap_or_default().to_owned();
    match response.status() {
        StatusCode::UNAUTHORIZED => Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(
            challenge,
        ))),
        StatusCode::FORBIDDEN => {
            let scope = scope(&challenge);
            Err(StreamableHttpError::InsufficientScope(
                InsufficientScopeError::new(challenge, scope),
            ))
        }
        _ => Ok(()),
    }
}

/// The scope that a challenge requires.
pub(crate) fn scope(challenge: &str) -> Option<String> {
    let (_, rest) = challenge.split_once("scope=")?;
    Some(match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default().to_owned(),
        None => rest.split([',', ' ']).next().unwrap_or_default().to_owned(),
    })
}

/// Parses a response with an error status.
async fn parse_error_response(
    message: &ClientJsonRpcMessage,
    has_session: bool,
    response: Response,
) -> Result<StreamableHttpPostResponse, Problem> {
    let status = response.status();
    let retry = response.headers().get(RETRY_AFTER);
    let retry = retry
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let is_unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if status == StatusCode::TOO_MANY_REQUESTS {
        return Err(HttpStatusError::new(status.as_u16(), retry).into());
    }
    let body = read_body(response, MAX_ERROR_SIZE)
        .await
        .unwrap_or_default();
    let parsed = match serde_json::from_slice(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    // Servers of the older protocol do not know this request; they may reject it with any client error.
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !has_session
        && status.is_client_error()
        && !is_unauthorized
    {
        let error = parsed.map_or_else(
            || ErrorData::invalid_request(format!("HTTP {status}"), None),
            |parsed| parsed.error,
        );
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match parsed {
        Some(parsed) if !is_unauthorized => Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::Error(parsed),
            None,
        )),
        _ if status.is_server_error() => Err(HttpStatusError::new(status.as_u16(), retry).into()),
        _ => {
            let text = bounded(&String::from_utf8_lossy(&body));
            Err(unexpected(format!("HTTP {status}: {text}")))
        }
    }
}

/// Reads a complete response of at most `limit` bytes.
async fn read_body(response: Response, limit: usize) -> Result<Vec<u8>, Problem> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if body.len() + chunk.len() > limit {
            let limit_mib = limit >> 20;
            return Err(unexpected(format!(
                "its response is larger than {limit_mib} MiB"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the chunks of an event stream. Ends with an error when an event is too long.
fn bounded_events(
    response: Response,
) -> impl futures_util::Stream<Item = Result<bytes::Bytes, std::io::Error>> + Send {
    let mut event = 0_usize;
    let mut line = Message::default();
    let mut has_failed = false;
    response
        .bytes_stream()
        .map(move |chunk| {
            let chunk = chunk.map_err(|error| std::io::Error::other(error.without_url()))?;
            for part in chunk.split_inclusive(|byte| *byte == b'\n') {
                // An empty line ends an event.
                event = if part.trim_ascii().is_empty() && part.len() <= 2 {
                    0
                } else {
                    event + part.len()
                };
            }
            line.count(&chunk).map_err(std::io::Error::other)?;
            if event > MAX_MESSAGE_SIZE {
                return Err(std::io::Error::other("it sent an event that is too long"));
            }
            Ok(chunk)
        })
        .take_while(move |chunk| {
            // Pass on the first error, and nothing after it.
            let is_passed_on = !has_failed;
            has_failed = chunk.is_err();
            std::future::ready(is_passed_on)
        })
}
