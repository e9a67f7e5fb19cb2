//! [`RestApi`]: JSON requests to one hosting service, with a time limit and a maximum size of answers.

use std::time::Duration;

use cleveragents_models::Secret;
use cleveragents_outbound::{resolve, root_cause, secret};
use serde_json::Value;

/// Time limit of one request, including its answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 8 << 20;

/// Maximum length of a message of the service that becomes part of an error, in characters.
const MAX_MESSAGE: usize = 300;

/// Number of attempts at a request that only reads.
const READ_ATTEMPTS: u32 = 3;

/// Maximum time that a reading request waits before its next attempt.
const MAX_READ_PAUSE: Duration = Duration::from_secs(5);

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Patch,
    Delete,
}

/// A JSON answer with a success status.
#[derive(Debug, Clone)]
pub(crate) struct RestResponse {
    pub(crate) body: Value,
    /// Number of objects on all pages: header `x-total-count`.
    pub(crate) total: Option<u64>,
    /// Whether header `link` names a next page.
    pub(crate) has_next_page: bool,
}

/// Failure of a request. The texts name the address without its query, and no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RestError {
    /// Nothing was sent.
    #[error("`{url}` cannot be called: {reason}")]
    NotSent { url: String, reason: String },
    /// The request may have had its effect: the answer is missing, incomplete, or reports an error of the server.
    #[error("`{url}` gave no usable answer: {reason}")]
    OutcomeUnknown { url: String, reason: String },
    /// The service refused the request, which had no effect.
    #[error("`{url}` answered {status}: {message}")]
    Refused {
        url: String,
        status: u16,
        message: String,
    },
    /// The service limits the rate of requests; the request had no effect.
    #[error("`{url}` answered {status}: the limit of requests is reached")]
    Limited {
        url: String,
        status: u16,
        /// Time after which the service accepts requests again.
        retry_after: Option<Duration>,
    },
}

impl RestError {
    /// Whether the same request may succeed later.
    pub(crate) const fn is_transient(&self) -> bool {
        match self {
            Self::NotSent { .. } | Self::OutcomeUnknown { .. } | Self::Limited { .. } => true,
            Self::Refused { .. } => false,
        }
    }
}

/// The REST API of a service, called with one token.
pub(crate) struct RestApi {
    /// Address without a slash at its end, such as `https://code.example/api/v1`.
    base: String,
    /// The scheme of header `authorization`.
    scheme: &'static str,
    accept: &'static str,
    token: Secret,
    timeout: Duration,
}

impl RestApi {
    /// The API of GitHub at an address.
    pub(crate) fn github(base: &str, token: Secret) -> Self {
        Self::new(base, "Bearer", "application/vnd.github+json", token)
    }

    /// The API of Forgejo or Gitea at an address.
    pub(crate) fn forgejo(base: &str, token: Secret) -> Self {
        Self::new(base, "token", "application/json", token)
    }

    fn new(base: &str, scheme: &'static str, accept: &'static str, token: Secret) -> Self {
        Self {
            base: base.trim_end_matches('/').to_owned(),
            scheme,
            accept,
            token,
            timeout: TIMEOUT,
        }
    }

    /// Sets the time limit of one request.
    #[must_use]
    pub(crate) const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The address of the GraphQL endpoint of GitHub.
    pub(crate) fn graphql_url(&self) -> String {
        match self.base.strip_suffix("/api/v3") {
            Some(host) => format!("{host}/api/graphql"),
            None => format!("{}/graphql", self.base),
        }
    }

    /// Reads, with further attempts after transient failures.
    pub(crate) fn get(&self, path: &str) -> Result<RestResponse, RestError> {
        let mut attempt = 1;
        loop {
            let failure = match self.send(Method::Get, path, None) {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let pause = match &failure {
                RestError::Limited { retry_after, .. } => retry_after.unwrap_or(MAX_READ_PAUSE),
                _ => Duration::from_millis(100) * attempt,
            };
            if attempt == READ_ATTEMPTS || !failure.is_transient() || pause > MAX_READ_PAUSE {
                return Err(failure);
            }
            std::thread::sleep(pause);
            attempt += 1;
        }
    }

    /// Sends one request, once. `path` follows the address of the API and starts with a slash.
    pub(crate) fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<RestResponse, RestError> {
        self.send_to(&format!("{}{path}", self.base), method, body)
    }

    /// Sends one request to another path of the same service, such as its GraphQL endpoint.
    pub(crate) fn send_to(
        &self,
        url: &str,
        method: Method,
        body: Option<&Value>,
    ) -> Result<RestResponse, RestError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| not_sent(url, error.to_string()))?;
        runtime
            .block_on(self.request(url, method, body))
            .map_err(|error| self.without_token(error))
    }

    async fn client(&self, url: &str) -> Result<(reqwest::Client, reqwest::Url), RestError> {
        // The user configured this server, so it may be in a private network.
        let target = resolve(url, true)
            .await
            .map_err(|error| not_sent(url, error.to_string()))?;
        let host = target.url().host_str();
        let is_here = matches!(host, Some("127.0.0.1" | "localhost" | "[::1]"));
        if target.url().scheme() != "https" && !is_here {
            let reason = "it is not encrypted, and the request contains a token";
            return Err(not_sent(url, reason.to_owned()));
        }
        let client = target
            .client(self.timeout)
            .map_err(|reason| not_sent(url, reason))?;
        Ok((client, target.url().clone()))
    }

    async fn request(
        &self,
        url: &str,
        method: Method,
        body: Option<&Value>,
    ) -> Result<RestResponse, RestError> {
        let (client, address) = self.client(url).await?;
        let request = match method {
            Method::Get => client.get(address),
            Method::Post => client.post(address),
            Method::Patch => client.patch(address),
            Method::Delete => client.delete(address),
        };
        let request = match body {
            Some(body) => request
                .header("content-type", "application/json")
                .body(body.to_string()),
            None => request,
        };
        let authorization = format!("{} {}", self.scheme, self.token.expose().trim());
        let response = request
            .timeout(self.timeout)
            .header("authorization", secret(&authorization))
            .header("accept", self.accept)
            .send()
            .await
            .map_err(|error| {
                if error.is_connect() || error.is_builder() {
                    not_sent(url, root_cause(&error))
                } else {
                    unknown(url, root_cause(&error))
                }
            })?;
        self.answer(url, response).await
    }

    async fn answer(
        &self,
        url: &str,
        mut response: reqwest::Response,
    ) -> Result<RestResponse, RestError> {
        let status = response.status().as_u16();
        let header = |name: &str| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let total = header("x-total-count").and_then(|total| total.trim().parse().ok());
        let has_next_page = header("link").is_some_and(|link| link.contains("rel=\"next\""));
        let retry_after = header("retry-after").and_then(|value| value.trim().parse().ok());
        let is_exhausted = header("x-ratelimit-remaining").is_some_and(|left| left.trim() == "0");
        let mut bytes = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| unknown(url, root_cause(&error)))?
        {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(unknown(url, "the answer is too long".to_owned()));
            }
            bytes.extend_from_slice(&chunk);
        }
        let body: Result<Value, _> = serde_json::from_slice(&bytes);
        if (200..300).contains(&status) {
            let body = match body {
                Ok(body) => body,
                Err(_) if bytes.is_empty() => Value::Null,
                Err(_) => return Err(unknown(url, "the answer is not JSON".to_owned())),
            };
            return Ok(RestResponse {
                body,
                total,
                has_next_page,
            });
        }
        let message = message_of(&body.unwrap_or_default());
        let is_limit = status == 429 || (status == 403 && (retry_after.is_some() || is_exhausted));
        if is_limit {
            return Err(RestError::Limited {
                url: plain(url),
                status,
                retry_after: retry_after.map(Duration::from_secs),
            });
        }
        if status >= 500 || status == 408 {
            return Err(unknown(url, format!("status {status}: {message}")));
        }
        Err(RestError::Refused {
            url: plain(url),
            status,
            message,
        })
    }

    /// An error without the token, which a service may repeat in its answer.
    fn without_token(&self, mut error: RestError) -> RestError {
        let token = self.token.expose().trim();
        let text = match &mut error {
            RestError::NotSent { reason, .. } | RestError::OutcomeUnknown { reason, .. } => reason,
            RestError::Refused { message, .. } => message,
            RestError::Limited { .. } => return error,
        };
        if !token.is_empty() && text.contains(token) {
            *text = text.replace(token, "[REDACTED]");
        }
        error
    }
}

/// The address without its query.
fn plain(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}

fn not_sent(url: &str, reason: String) -> RestError {
    RestError::NotSent {
        url: plain(url),
        reason,
    }
}

fn unknown(url: &str, reason: String) -> RestError {
    RestError::OutcomeUnknown {
        url: plain(url),
        reason,
    }
}

/// The message of an error answer.
fn message_of(answer: &Value) -> String {
    let message = answer["message"].as_str().unwrap_or("no message");
    let mut errors = answer["errors"].as_array().into_iter().flatten();
    let detail = errors.find_map(|error| error["message"].as_str().or(error.as_str()));
    let text = match detail {
        Some(detail) => format!("{message}: {detail}"),
        None => message.to_owned(),
    };
    text.chars().take(MAX_MESSAGE).collect()
}

/// Percent-encodes a value of a query or a part of a path.
pub(crate) fn percent_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _written = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
