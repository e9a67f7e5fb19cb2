//! [`Line`]: requests to a remote agent, in the form that its card asks for, each within its limits.

use std::time::Duration;

use cleveragents_outbound as outbound;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::card::{self, Binding, Card, Version};
use super::trouble::Trouble;
use super::{ANSWER_BYTES, Caller};
use crate::frames::{Frames, Framing};

/// The largest card.
const CARD_BYTES: usize = 1 << 20;

/// Where cards are, below the address of an agent: now, and before.
const CARD_PLACES: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// What is asked of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Send,
    Stream,
    Get,
    Cancel,
    Subscribe,
}

impl Method {
    const fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Send, Version::Current) => "SendMessage",
            (Self::Stream, Version::Current) => "SendStreamingMessage",
            (Self::Get, Version::Current) => "GetTask",
            (Self::Cancel, Version::Current) => "CancelTask",
            (Self::Subscribe, Version::Current) => "SubscribeToTask",
            (Self::Send, Version::Old) => "message/send",
            (Self::Stream, Version::Old) => "message/stream",
            (Self::Get, Version::Old) => "tasks/get",
            (Self::Cancel, Version::Old) => "tasks/cancel",
            (Self::Subscribe, Version::Old) => "tasks/resubscribe",
        }
    }

    const fn is_streamed(self) -> bool {
        matches!(self, Self::Stream | Self::Subscribe)
    }
}

/// A way to an agent.
pub(super) struct Line {
    client: Client,
    pub(super) card: Card,
    token: Option<(HeaderName, HeaderValue)>,
}

/// What a request that may be answered piece by piece is answered with.
pub(super) enum Reply {
    Events(Events),
    Whole(Value),
}

impl Line {
    /// Reads the card of an agent, and finds the way that it names.
    pub(super) async fn open(caller: &Caller) -> Result<Self, Trouble> {
        let at_card = resolve(caller, &caller.agent.url).await?;
        let client = at_card
            .client(caller.limits.connect)
            .map_err(Trouble::Unreachable)?;
        let card = read_card(caller, &client, at_card.url()).await?;
        let target = resolve(caller, &card.interface.url).await?;
        let is_same = same_origin(target.url(), at_card.url());
        if caller.token.is_some() && !is_same {
            return Err(Trouble::Token(format!(
                "its card leads to {}, and a token is sent only to the address in the file of the actor",
                target.url().host_str().unwrap_or_default()
            )));
        }
        let client = if is_same {
            client
        } else {
            target
                .client(caller.limits.connect)
                .map_err(Trouble::Unreachable)?
        };
        let token = token(caller, card.key_header.as_deref())?;
        Ok(Self {
            client,
            card,
            token,
        })
    }

    /// Asks for something that is answered at once.
    pub(super) async fn call(
        &self,
        caller: &Caller,
        method: Method,
        params: &Value,
        wait: Duration,
    ) -> Result<Value, Trouble> {
        let response = self.send(method, params, wait).await?;
        self.whole(caller, response).await
    }

    /// Asks for something that is answered piece by piece, or whole where the agent likes that better.
    pub(super) async fn listen(
        &self,
        caller: &Caller,
        method: Method,
        params: &Value,
    ) -> Result<Reply, Trouble> {
        let response = self.send(method, params, caller.limits.first_byte).await?;
        let kind = response.headers().get(CONTENT_TYPE);
        let is_stream = kind
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if response.status().is_success() && is_stream {
            return Ok(Reply::Events(Events {
                response,
                frames: Frames::new(Framing::Events),
                is_rpc: self.card.interface.binding == Binding::JsonRpc,
                size: 0,
                idle: caller.limits.idle,
            }));
        }
        self.whole(caller, response).await.map(Reply::Whole)
    }

    async fn send(
        &self,
        method: Method,
        params: &Value,
        wait: Duration,
    ) -> Result<Response, Trouble> {
        let mut request = match self.card.interface.binding {
            Binding::JsonRpc => self.rpc(method, params),
            Binding::Http => self.rest(method, params)?,
        };
        let accepted = if method.is_streamed() {
            "text/event-stream, application/json"
        } else {
            "application/json, application/a2a+json"
        };
        request = request.header(ACCEPT, accepted);
        if self.card.interface.version == Version::Current {
            request = request.header("a2a-version", "1.0");
        }
        if let Some((name, value)) = &self.token {
            request = request.header(name, value);
        }
        if let Some(span) = cleveragents_telemetry::current() {
            request = request.header("traceparent", span.to_string());
        }
        match timeout(wait, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(Trouble::of(&error)),
            Err(_) => Err(Trouble::Late(wait)),
        }
    }

    fn rpc(&self, method: Method, params: &Value) -> RequestBuilder {
        let interface = &self.card.interface;
        let mut params = params.clone();
        if let Some(tenant) = &interface.tenant {
            params["tenant"] = tenant.as_str().into();
        }
        let name = method.name(interface.version);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": name, "params": params});
        let request = self.client.post(&interface.url);
        request
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string())
    }

    fn rest(&self, method: Method, params: &Value) -> Result<RequestBuilder, Trouble> {
        let interface = &self.card.interface;
        let unusable = || Trouble::Malformed("its address cannot be called".to_owned());
        let mut url = Url::parse(&interface.url).map_err(|_| unusable())?;
        let task = params["id"].as_str().unwrap_or_default();
        {
            let mut path = url.path_segments_mut().map_err(|()| unusable())?;
            path.pop_if_empty();
            path.extend(interface.tenant.as_deref());
            match method {
                Method::Send => path.push("message:send"),
                Method::Stream => path.push("message:stream"),
                Method::Get => path.push("tasks").push(task),
                Method::Cancel => path.push("tasks").push(&format!("{task}:cancel")),
                Method::Subscribe => path.push("tasks").push(&format!("{task}:subscribe")),
            };
        }
        Ok(match method {
            Method::Get => {
                url.set_query(Some("historyLength=0"));
                self.client.get(url)
            }
            Method::Send | Method::Stream => self
                .client
                .post(url)
                .header(CONTENT_TYPE, "application/json")
                .body(params.to_string()),
            Method::Cancel | Method::Subscribe => self
                .client
                .post(url)
                .header(CONTENT_TYPE, "application/json")
                .body("{}"),
        })
    }

    /// The whole answer to a request.
    async fn whole(&self, caller: &Caller, response: Response) -> Result<Value, Trouble> {
        let status = response.status();
        let retry_after = crate::limits::retry_after(
            |name| response.headers().get(name)?.to_str().ok(),
            std::time::SystemTime::now(),
        );
        let body = body(response, ANSWER_BYTES, caller.limits.idle).await?;
        let parsed: Option<Value> = serde_json::from_slice(&body).ok();
        let error = parsed.as_ref().and_then(|parsed| parsed.get("error"));
        if let Some(error) = error.filter(|error| error.is_object()) {
            return Err(Trouble::refused(status, error, retry_after));
        }
        if !status.is_success() {
            return Err(Trouble::status(status, retry_after));
        }
        let Some(parsed) = parsed else {
            return Err(Trouble::Malformed("its answer is no JSON".to_owned()));
        };
        if self.card.interface.binding == Binding::Http {
            return Ok(parsed);
        }
        match parsed.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(Trouble::Malformed(
                "its answer is none of JSON-RPC".to_owned(),
            )),
        }
    }
}

/// The pieces of an answer.
pub(super) struct Events {
    response: Response,
    frames: Frames,
    is_rpc: bool,
    size: usize,
    idle: Duration,
}

impl Events {
    /// The next one; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, Trouble> {
        loop {
            while let Some(frame) = self.frames.next() {
                if !frame.data.is_empty() {
                    return self.read(&frame.data).map(Some);
                }
            }
            let chunk = match timeout(self.idle, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(Trouble::of(&error)),
                Err(_) => return Err(Trouble::Late(self.idle)),
            };
            self.size += chunk.len();
            if self.size > ANSWER_BYTES {
                return Err(Trouble::Large(ANSWER_BYTES));
            }
            self.frames.add(&chunk);
        }
    }

    fn read(&self, data: &str) -> Result<Value, Trouble> {
        let no_json = |_| Trouble::Malformed("a piece of its answer is no JSON".to_owned());
        let mut value: Value = serde_json::from_str(data).map_err(no_json)?;
        if let Some(error) = value.get("error").filter(|error| error.is_object()) {
            return Err(Trouble::refused(StatusCode::OK, error, None));
        }
        if !self.is_rpc {
            return Ok(value);
        }
        match value.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(Trouble::Malformed(
                "a piece of its answer is none of JSON-RPC".to_owned(),
            )),
        }
    }
}

async fn resolve(caller: &Caller, url: &str) -> Result<outbound::Target, Trouble> {
    outbound::resolve(url, caller.allows_private)
        .await
        .map_err(Trouble::Address)
}

fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

async fn read_card(caller: &Caller, client: &Client, url: &Url) -> Result<Card, Trouble> {
    let is_card = std::path::Path::new(url.path())
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let base = url.as_str().trim_end_matches('/');
    let places: Vec<String> = if is_card {
        vec![url.to_string()]
    } else {
        CARD_PLACES
            .iter()
            .map(|place| format!("{base}{place}"))
            .collect()
    };
    let mut missing = StatusCode::NOT_FOUND;
    for place in places {
        let mut request = client.get(place).header(ACCEPT, "application/json");
        if let Some((name, value)) = token(caller, None)? {
            request = request.header(name, value);
        }
        let wait = caller.limits.first_byte;
        let response = match timeout(wait, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Trouble::of(&error)),
            Err(_) => return Err(Trouble::Late(wait)),
        };
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            missing = status;
            continue;
        }
        if !status.is_success() {
            return Err(Trouble::status(status, None));
        }
        let text = body(response, CARD_BYTES, caller.limits.idle).await?;
        let card: Value = serde_json::from_slice(&text)
            .map_err(|_| Trouble::Malformed("its card is no JSON".to_owned()))?;
        return card::read(&card).map_err(Trouble::Malformed);
    }
    Err(Trouble::Malformed(format!(
        "there is no card at its address: status {}",
        missing.as_u16()
    )))
}

/// The header that carries the token.
fn token(
    caller: &Caller,
    header: Option<&str>,
) -> Result<Option<(HeaderName, HeaderValue)>, Trouble> {
    let Some(token) = &caller.token else {
        return Ok(None);
    };
    let name = match header {
        None => AUTHORIZATION,
        Some(name) => HeaderName::try_from(name)
            .map_err(|_| Trouble::Malformed("its card names a header that is none".to_owned()))?,
    };
    let text = match header {
        None => format!("Bearer {}", token.expose()),
        Some(_) => token.expose().to_owned(),
    };
    let mut value = HeaderValue::try_from(text).map_err(|_| {
        Trouble::Token("its token holds a character that no token can hold".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

/// A whole body, no larger than allowed.
async fn body(mut response: Response, limit: usize, idle: Duration) -> Result<Vec<u8>, Trouble> {
    let mut body = Vec::new();
    loop {
        match timeout(idle, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None)) => return Ok(body),
            Ok(Err(error)) => return Err(Trouble::of(&error)),
            Err(_) => return Err(Trouble::Late(idle)),
        }
        if body.len() > limit {
            return Err(Trouble::Large(limit));
        }
    }
}
