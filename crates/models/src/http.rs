//! HTTP requests to providers: shared clients, time limits on each step, and errors that contain no
//! secret.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cleveragents_outbound as outbound;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use tokio::time::timeout;

use crate::error::{ErrorKind, ModelError};
use crate::limits::Limits;
use crate::name::ModelName;
use crate::secret::Secret;

/// A request ready to be sent.
pub(crate) struct HttpCall {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl HttpCall {
    /// Creates a POST request with a JSON body.
    pub(crate) fn new(url: Url, body: &serde_json::Value) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self {
            url,
            headers,
            body: body.to_string().into_bytes(),
        }
    }

    /// Adds a header that carries a key: `prefix` followed by the key.
    pub(crate) fn authorise(
        &mut self,
        model: &ModelName,
        header: HeaderName,
        prefix: &str,
        key: &Secret,
    ) -> Result<(), ModelError> {
        let mut value =
            HeaderValue::try_from(format!("{prefix}{}", key.expose())).map_err(|_| {
                let message = "the key contains an invalid character, such as a line break";
                ModelError::new(ErrorKind::Auth, model, message)
            })?;
        value.set_sensitive(true);
        self.headers.insert(header, value);
        Ok(())
    }
}

/// The clients, each created when it is first needed: reading the system's certificates takes time,
/// and only TLS needs them.
///
/// Connections are kept open between calls and belong to the runtime that created them.
#[derive(Default)]
pub(crate) struct Http(Mutex<HashMap<ClientKey, Client>>);

/// Properties of an address that require a separate client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ClientKey {
    is_secure: bool,
    /// Whether the server is on this machine, which a proxy cannot reach.
    is_local: bool,
}

impl Http {
    fn client(&self, url: &Url, limits: &Limits) -> Result<Client, String> {
        let key = ClientKey {
            is_secure: url.scheme() == "https",
            is_local: is_local(url),
        };
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let mut builder = Client::builder()
            .tls_backend_preconfigured(outbound::tls(key.is_secure)?)
            .connect_timeout(limits.connect)
            .tcp_nodelay(true)
            // A redirect would send the key to an address that was not configured.
            .redirect(Policy::none())
            .user_agent(concat!("cleveragents/", env!("CARGO_PKG_VERSION")));
        if key.is_local {
            builder = builder.no_proxy();
        }
        let client = builder
            .build()
            .map_err(|error| outbound::root_cause(&error))?;
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// Sends a request and waits for the response headers.
    pub(crate) async fn send(
        &self,
        model: &ModelName,
        call: HttpCall,
        limits: &Limits,
        wait: Duration,
    ) -> Result<Response, ModelError> {
        let client = self
            .client(&call.url, limits)
            .map_err(|error| ModelError::new(ErrorKind::Unreachable, model, error))?;
        let request = client.post(call.url).headers(call.headers).body(call.body);
        match timeout(wait, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(failed(model, &error)),
            Err(_) => Err(ModelError::new(
                ErrorKind::Timeout,
                model,
                format!("no response started within {}", seconds(wait)),
            )),
        }
    }
}

/// Returns the next bytes of a response; `None` at its end.
pub(crate) async fn next_chunk(
    model: &ModelName,
    response: &mut Response,
    wait: Duration,
) -> Result<Option<bytes::Bytes>, ModelError> {
    match timeout(wait, response.chunk()).await {
        Ok(Ok(chunk)) => Ok(chunk),
        Ok(Err(error)) => Err(ModelError::new(
            ErrorKind::Interrupted,
            model,
            format!(
                "the connection was interrupted: {}",
                outbound::root_cause(&error)
            ),
        )),
        Err(_) => Err(ModelError::new(
            ErrorKind::Timeout,
            model,
            format!("no data received for {}", seconds(wait)),
        )),
    }
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

fn failed(model: &ModelName, error: &reqwest::Error) -> ModelError {
    let (kind, problem) = if error.is_connect() {
        (ErrorKind::Unreachable, "the provider cannot be reached")
    } else {
        (ErrorKind::Interrupted, "the connection was interrupted")
    };
    ModelError::new(
        kind,
        model,
        format!("{problem}: {}", outbound::root_cause(error)),
    )
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}
