//! [`Connection`]: requests to a remote agent, in the binding and version of its card, with size and time limits.

use std::time::Duration;

use cleveragents_a2a::http_json::{self, Verb};
use cleveragents_a2a::{
    Binding, CARD_PATH, CARD_PATH_V0_3, Method, ProtocolVersion, VERSION_HEADER, json_rpc, v0_3,
};
use cleveragents_outbound as outbound;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;
use tokio::time::timeout;

use super::card::{self, Endpoint};
use super::error::CallError;
use super::{Caller, MAX_ANSWER_BYTES};
use crate::frames::{Frames, Framing};

/// Maximum size of an agent card, in bytes.
const MAX_CARD_BYTES: usize = 1 << 20;

/// HTTP client and endpoint of an agent.
pub(super) struct Connection {
    client: Client,
    pub(super) endpoint: Endpoint,
    token: Option<(HeaderName, HeaderValue)>,
}

/// Response to a request that may be answered with a stream.
pub(super) enum AgentReply {
    Events(Box<EventReader>),
    Whole(Value),
}

impl Connection {
    /// Reads the card of an agent and chooses how to call it.
    pub(super) async fn open(caller: &Caller) -> Result<Self, CallError> {
        let at_card = resolve(caller, &caller.agent.url).await?;
        let client = at_card
            .client(caller.limits.connect)
            .map_err(CallError::Unreachable)?;
        let endpoint = read_card(caller, &client, at_card.url()).await?;
        let target = resolve(caller, &endpoint.interface.url).await?;
        let is_same = same_origin(target.url(), at_card.url());
        if caller.token.is_some() && !is_same {
            return Err(CallError::Token(format!(
                "its card points to {}, but the token is sent only to the address in the file of the actor",
                target.url().host_str().unwrap_or_default()
            )));
        }
        let client = if is_same {
            client
        } else {
            target
                .client(caller.limits.connect)
                .map_err(CallError::Unreachable)?
        };
        let token = token(caller, endpoint.key_header.as_deref())?;
        Ok(Self {
            client,
            endpoint,
            token,
        })
    }

    /// Calls a method that has a single response.
    pub(super) async fn call(
        &self,
        caller: &Caller,
        method: Method,
        params: &Value,
        wait: Duration,
    ) -> Result<Value, CallError> {
        let response = self.send(method, params, wait).await?;
        self.read_whole(caller, response).await
    }

    /// Calls a method whose response is a stream. The agent may return a single response instead.
    pub(super) async fn stream(
        &self,
        caller: &Caller,
        method: Method,
        params: &Value,
    ) -> Result<AgentReply, CallError> {
        let response = self.send(method, params, caller.limits.first_byte).await?;
        let kind = response.headers().get(CONTENT_TYPE);
        let is_stream = kind
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if response.status().is_success() && is_stream {
            return Ok(AgentReply::Events(Box::new(EventReader {
                response,
                frames: Frames::new(Framing::Events),
                is_json_rpc: self.endpoint.interface.protocol_binding == Binding::JsonRpc,
                size: 0,
                idle: caller.limits.idle,
            })));
        }
        self.read_whole(caller, response)
            .await
            .map(AgentReply::Whole)
    }

    async fn send(
        &self,
        method: Method,
        params: &Value,
        wait: Duration,
    ) -> Result<Response, CallError> {
        let mut request = match self.endpoint.interface.protocol_binding {
            Binding::JsonRpc => self.json_rpc_request(method, params)?,
            Binding::HttpJson => self.http_json_request(method, params)?,
        };
        let accepted = if method.is_streaming() {
            "text/event-stream, application/json"
        } else {
            "application/json, application/a2a+json"
        };
        request = request.header(ACCEPT, accepted);
        let version = self.endpoint.interface.protocol_version;
        if version == ProtocolVersion::V1_0 {
            request = request.header(VERSION_HEADER, version.as_str());
        }
        if let Some((name, value)) = &self.token {
            request = request.header(name, value);
        }
        if let Some(context) = cleveragents_telemetry::current() {
            request = request.header("traceparent", context.to_string());
        }
        match timeout(wait, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(CallError::from_transport(&error)),
            Err(_) => Err(CallError::Late(wait)),
        }
    }

    fn json_rpc_request(
        &self,
        method: Method,
        params: &Value,
    ) -> Result<RequestBuilder, CallError> {
        let interface = &self.endpoint.interface;
        let mut params = params.clone();
        if let Some(tenant) = &interface.tenant {
            params["tenant"] = tenant.as_str().into();
        }
        if interface.protocol_version == ProtocolVersion::V0_3 {
            params = v0_3::params_from_v1(params);
        }
        let name = method.name_in(interface.protocol_version).ok_or_else(|| {
            CallError::Malformed(format!("its protocol version has no {}", method.name()))
        })?;
        let request = self.client.post(&interface.url);
        Ok(request
            .header(CONTENT_TYPE, "application/json")
            .body(json_rpc::request(name, &params)))
    }

    fn http_json_request(
        &self,
        method: Method,
        params: &Value,
    ) -> Result<RequestBuilder, CallError> {
        let interface = &self.endpoint.interface;
        let unusable = || CallError::Malformed("its address cannot be called".to_owned());
        let mut url = Url::parse(&interface.url).map_err(|_| unusable())?;
        let task = params["id"].as_str().unwrap_or_default();
        let (verb, segments) = http_json::path(method, task, "");
        url.path_segments_mut()
            .map_err(|()| unusable())?
            .pop_if_empty()
            .extend(interface.tenant.as_deref())
            .extend(segments);
        if verb == Verb::Get {
            // The path contains the task id; only this parameter is left.
            url.set_query(Some("historyLength=0"));
            return Ok(self.client.get(url));
        }
        let body = match method {
            Method::SendMessage | Method::SendStreamingMessage => params.to_string(),
            _ => "{}".to_owned(),
        };
        let request = self.client.post(url);
        Ok(request.header(CONTENT_TYPE, "application/json").body(body))
    }

    /// Reads the complete response to a request.
    async fn read_whole(&self, caller: &Caller, response: Response) -> Result<Value, CallError> {
        let status = response.status();
        let retry_after = crate::limits::retry_after(
            |name| response.headers().get(name)?.to_str().ok(),
            std::time::SystemTime::now(),
        );
        let body = body(response, MAX_ANSWER_BYTES, caller.limits.idle).await?;
        let parsed: Option<Value> = serde_json::from_slice(&body).ok();
        let error = parsed.as_ref().and_then(|parsed| parsed.get("error"));
        if let Some(error) = error.filter(|error| error.is_object()) {
            return Err(CallError::refused(status, error, retry_after));
        }
        if !status.is_success() {
            return Err(CallError::status(status, retry_after));
        }
        let Some(parsed) = parsed else {
            return Err(CallError::Malformed("its response is not JSON".to_owned()));
        };
        if self.endpoint.interface.protocol_binding == Binding::HttpJson {
            return Ok(parsed);
        }
        json_rpc::into_result(parsed)
            .ok_or_else(|| CallError::Malformed("its response is not JSON-RPC".to_owned()))
    }
}

/// Reads the server-sent events of a stream.
pub(super) struct EventReader {
    response: Response,
    frames: Frames,
    is_json_rpc: bool,
    size: usize,
    idle: Duration,
}

impl EventReader {
    /// Returns the next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, CallError> {
        loop {
            if let Some(frame) = self.frames.next() {
                return self.read(&frame.data).map(Some);
            }
            let chunk = match timeout(self.idle, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(CallError::from_transport(&error)),
                Err(_) => return Err(CallError::Late(self.idle)),
            };
            self.size += chunk.len();
            if self.size > MAX_ANSWER_BYTES {
                return Err(CallError::Large(MAX_ANSWER_BYTES));
            }
            self.frames.add(chunk);
        }
    }

    fn read(&self, data: &str) -> Result<Value, CallError> {
        let no_json = |_| CallError::Malformed("an event of its response is not JSON".to_owned());
        let value: Value = serde_json::from_str(data).map_err(no_json)?;
        if let Some(error) = value.get("error").filter(|error| error.is_object()) {
            return Err(CallError::refused(StatusCode::OK, error, None));
        }
        if !self.is_json_rpc {
            return Ok(value);
        }
        json_rpc::into_result(value).ok_or_else(|| {
            CallError::Malformed("an event of its response is not JSON-RPC".to_owned())
        })
    }
}

async fn resolve(caller: &Caller, url: &str) -> Result<outbound::Target, CallError> {
    outbound::resolve(url, caller.allows_private)
        .await
        .map_err(CallError::Address)
}

fn same_origin(first: &Url, second: &Url) -> bool {
    first.origin() == second.origin()
}

async fn read_card(caller: &Caller, client: &Client, url: &Url) -> Result<Endpoint, CallError> {
    let is_card = std::path::Path::new(url.path())
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let base = url.as_str().trim_end_matches('/');
    let card_urls: Vec<String> = if is_card {
        vec![url.to_string()]
    } else {
        [CARD_PATH, CARD_PATH_V0_3]
            .iter()
            .map(|path| format!("{base}{path}"))
            .collect()
    };
    let mut missing = StatusCode::NOT_FOUND;
    for card_url in card_urls {
        let mut request = client.get(card_url).header(ACCEPT, "application/json");
        if let Some((name, value)) = token(caller, None)? {
            request = request.header(name, value);
        }
        let wait = caller.limits.first_byte;
        let response = match timeout(wait, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(CallError::from_transport(&error)),
            Err(_) => return Err(CallError::Late(wait)),
        };
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            missing = status;
            continue;
        }
        if !status.is_success() {
            return Err(CallError::status(status, None));
        }
        let text = body(response, MAX_CARD_BYTES, caller.limits.idle).await?;
        let card: Value = serde_json::from_slice(&text)
            .map_err(|_| CallError::Malformed("its card is not JSON".to_owned()))?;
        return card::choose(&card).map_err(CallError::Malformed);
    }
    Err(CallError::Malformed(format!(
        "there is no card at its address: status {}",
        missing.as_u16()
    )))
}

/// The header that carries the token.
fn token(
    caller: &Caller,
    header: Option<&str>,
) -> Result<Option<(HeaderName, HeaderValue)>, CallError> {
    let Some(token) = &caller.token else {
        return Ok(None);
    };
    let name = match header {
        None => AUTHORIZATION,
        Some(name) => HeaderName::try_from(name)
            .map_err(|_| CallError::Malformed("its card names an invalid header".to_owned()))?,
    };
    let text = match header {
        None => format!("Bearer {}", token.expose()),
        Some(_) => token.expose().to_owned(),
    };
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| CallError::Token("its token contains an invalid character".to_owned()))?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

/// Reads a complete body of at most `limit` bytes.
async fn body(mut response: Response, limit: usize, idle: Duration) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    loop {
        match timeout(idle, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None)) => return Ok(body),
            Ok(Err(error)) => return Err(CallError::from_transport(&error)),
            Err(_) => return Err(CallError::Late(idle)),
        }
        if body.len() > limit {
            return Err(CallError::Large(limit));
        }
    }
}
