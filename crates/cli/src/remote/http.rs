//! HTTP client of a server: one URL, one token, no redirects.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_application::{Observer, Operation};
use cleveragents_domain::{Code, Hint};
use cleveragents_outbound::sse::EventDecoder;
use cleveragents_process::Cancel;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use serde_json::Value;
use tokio::sync::Notify;

use crate::config::keys;
use crate::context::Context;
use crate::output::CommandError;

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Environment variable with a token.
const TOKEN_VARIABLE: &str = "CLEVERAGENTS_SERVER_TOKEN";

pub(crate) fn token_file(context: &Context) -> PathBuf {
    context.home.path().join("server-token")
}

/// Connection to the server that runs commands.
pub(crate) struct Connection {
    pub(crate) url: String,
    token: Option<String>,
    checks_certificate: bool,
}

impl Connection {
    /// Connection to the configured server.
    pub(crate) fn configured(context: &Context) -> Result<Option<Self>, CommandError> {
        let url = context.configuration.resolve_key(&keys::SERVER_URL)?.value;
        let Some(url) = url.and_then(|value| value.as_text().map(str::to_owned)) else {
            return Ok(None);
        };
        let verify = context
            .configuration
            .resolve_key(&keys::SERVER_TLS_VERIFY)?
            .value;
        let stored_token = std::fs::read_to_string(token_file(context)).ok();
        let token = context.environment.text(TOKEN_VARIABLE).or(stored_token);
        Ok(Some(Self::new(
            &url,
            token,
            verify.is_none_or(|value| value.as_flag() != Some(false)),
        )))
    }

    /// Connection to the server at a URL.
    pub(crate) fn new(url: &str, token: Option<String>, checks_certificate: bool) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
            token: token.map(|token| token.trim().to_owned()),
            checks_certificate,
        }
    }

    /// Sends a GET request and returns the response.
    pub(crate) fn get(&self, path: &str) -> Result<Value, CommandError> {
        self.send(Method::GET, path, None, &Cancel::new())
    }

    /// Sends a POST request and returns the response.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value, CommandError> {
        self.send(Method::POST, path, Some(body), &Cancel::new())
    }

    /// Calls an operation. Names without a namespace are in `namespace`; `cancel` stops waiting for
    /// the response.
    pub(crate) fn call<O: Operation>(
        &self,
        request: &O,
        namespace: Option<&str>,
        cancel: &Cancel,
    ) -> Result<O::Response, CommandError> {
        let (path, body) = operation_request(request, namespace)?;
        response::<O>(self.send(Method::POST, &path, Some(&body), cancel)?)
    }

    /// Calls an operation that runs agents, and passes their events to `observer` as they arrive.
    pub(crate) fn call_observed<O: Operation>(
        &self,
        request: &O,
        namespace: Option<&str>,
        observer: &dyn Observer,
        cancel: &Cancel,
    ) -> Result<O::Response, CommandError> {
        let (path, body) = operation_request(request, namespace)?;
        let mut outcome = None;
        self.listen(Method::POST, &path, Some(&body), cancel, |name, data| {
            match name {
                "agent" => {
                    // A newer server may send unknown events.
                    if let Ok(event) = serde_json::from_value(data) {
                        observer.event(&event);
                    }
                    return Ok(AfterEvent::More);
                }
                "result" => outcome = Some(response::<O>(data)),
                "problem" => outcome = Some(Err(self.problem(0, &data))),
                _ => return Ok(AfterEvent::More),
            }
            Ok(AfterEvent::Stop)
        })?;
        outcome.unwrap_or_else(|| Err(self.incomplete_response()))
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        cancel: &Cancel,
    ) -> Result<Value, CommandError> {
        let request = self.request(method, path, body)?;
        let exchange = async {
            let response = request.send().await?;
            let status = response.status();
            Ok((status, response.bytes().await?))
        };
        let (status, bytes) = self
            .wait_for(exchange, cancel)?
            .map_err(|error| self.unreachable(error))?;
        tracing::debug!(
            url = self.url,
            path,
            status = status.as_u16(),
            bytes = bytes.len(),
            "server answered"
        );
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() && !answer.is_null() {
            return Ok(answer);
        }
        Err(self.problem(status.as_u16(), &answer))
    }

    /// Waits for a response until cancelled.
    fn wait_for<T>(
        &self,
        exchange: impl Future<Output = T>,
        cancel: &Cancel,
    ) -> Result<T, CommandError> {
        let cancelled = Arc::new(Notify::new());
        let notified = Arc::clone(&cancelled);
        cancel.when_cancelled(move || notified.notify_one());
        runtime()?.block_on(async {
            tokio::select! {
                result = exchange => Ok(result),
                () = cancelled.notified() => Err(self.stopped_waiting()),
            }
        })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<RequestBuilder, CommandError> {
        let mut request = self
            .client()?
            .request(method, format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            let text = body.to_string();
            request = request
                .header("content-type", "application/json")
                .body(text);
        }
        Ok(request)
    }

    fn unreachable(&self, error: reqwest::Error) -> CommandError {
        // The message already contains the URL.
        let error = error.without_url();
        CommandError::new(
            Code::ServerUnreachable,
            format!("the server at {} cannot be reached", self.url),
        )
        .caused_by(&error)
        .with_hint(
            "check that it runs; `agents server status` shows details, --local runs a command on this machine",
        )
    }

    /// Error after the user stopped waiting for the response.
    fn stopped_waiting(&self) -> CommandError {
        let message = format!("stopped waiting for the server at {}", self.url);
        CommandError::new(Code::TurnStopped, message)
            .with_hint("the operation continues there; check it with the same commands")
    }

    pub(crate) fn incomplete_response(&self) -> CommandError {
        CommandError::new(
            Code::ServerUnreachable,
            format!(
                "the server at {} ended the response before it was complete",
                self.url
            ),
        )
        .with_hint("the operation continues there; check it with the same commands")
    }

    /// Sends a request whose response is a stream of server-sent events, and passes the name and data
    /// of each event to `on_event`.
    pub(crate) fn listen(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        cancel: &Cancel,
        mut on_event: impl FnMut(&str, Value) -> Result<AfterEvent, CommandError>,
    ) -> Result<(), CommandError> {
        let request = self.request(method, path, body)?;
        let request = request.header("accept", "text/event-stream, application/json");
        let exchange = async {
            let sent = request.send().await;
            let mut response = sent.map_err(|error| self.unreachable(error))?;
            if !response.status().is_success() {
                let status = response.status().as_u16();
                let bytes = response.bytes().await.unwrap_or_default();
                let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                return Err(self.problem(status, &answer));
            }
            // The result of an operation is a single event of any length, so the size is not limited.
            let mut events = EventDecoder::new(usize::MAX);
            while let Ok(Some(chunk)) = response.chunk().await {
                events.add(chunk);
                while let Some(Ok(event)) = events.next_event() {
                    // Events without JSON only keep the connection alive.
                    let Ok(data) = serde_json::from_str(&event.data) else {
                        continue;
                    };
                    if on_event(&event.name, data)? == AfterEvent::Stop {
                        return Ok(());
                    }
                }
            }
            // If the connection breaks, the received events remain valid; the caller may request the
            // missing events.
            Ok(())
        };
        self.wait_for(exchange, cancel)?
    }

    /// Converts an error response of the server.
    pub(crate) fn problem(&self, status: u16, answer: &Value) -> CommandError {
        let Some(code) = answer["code"].as_str().and_then(Code::parse) else {
            let message = format!("the server at {} responded with status {status}", self.url);
            return CommandError::new(Code::ServerProtocol, message)
                .with_hint("check that the URL is that of `agents serve`");
        };
        let message = answer["detail"].as_str().unwrap_or_else(|| code.title());
        let error = CommandError::new(code, message).with_details(answer["details"].clone());
        let suggestions = answer["suggestions"].clone();
        let suggestions = serde_json::from_value(suggestions).unwrap_or_default();
        match answer["hint"].as_str() {
            Some(hint) => error.with_hint(Hint::from_neutral(hint, suggestions)),
            None => error,
        }
    }

    fn client(&self) -> Result<Client, CommandError> {
        let failed = |why: &str| {
            CommandError::new(
                Code::ServerUnreachable,
                format!("the server at {} cannot be reached: {why}", self.url),
            )
        };
        let checks = self.checks_certificate;
        let mut tls = cleveragents_outbound::tls(checks && self.url.starts_with("https:"))
            .map_err(|why| failed(&why))?;
        if !checks {
            let provider = Arc::clone(tls.crypto_provider());
            tls.dangerous()
                .set_certificate_verifier(Arc::new(AnyCertificate(provider)));
        }
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            // A redirect could send the token to another host.
            .redirect(Policy::none())
            .user_agent(concat!("cleveragents/", env!("CARGO_PKG_VERSION")));
        let host = self.url.split("//").nth(1).unwrap_or_default();
        if ["127.", "localhost", "[::1]"]
            .iter()
            .any(|prefix| host.starts_with(prefix))
        {
            builder = builder.no_proxy();
        }
        builder
            .build()
            .map_err(|error| failed(&error.without_url().to_string()))
    }
}

/// Path and body of an operation request.
fn operation_request<O: Operation>(
    request: &O,
    namespace: Option<&str>,
) -> Result<(String, Value), CommandError> {
    let body = serde_json::to_value(request).map_err(|error| {
        CommandError::internal("the request cannot be written as JSON").caused_by(&error)
    })?;
    let mut path = format!("/api/v1/operations/{}", O::NAME);
    if let Some(namespace) = namespace {
        path.push_str("?namespace=");
        path.extend(utf8_percent_encode(namespace, NON_ALPHANUMERIC));
    }
    Ok((path, body))
}

/// Parses the response of an operation.
fn response<O: Operation>(mut answer: Value) -> Result<O::Response, CommandError> {
    serde_json::from_value(answer["data"].take()).map_err(|error| {
        let message = "the server sent a response that cannot be read";
        CommandError::new(Code::ServerProtocol, message)
            .caused_by(&error)
            .with_hint("`agents server status` compares the versions")
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::internal("the runtime cannot be created").caused_by(&error))
}

/// Decision of the reader after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterEvent {
    /// Wait for more.
    More,
    /// Stop listening.
    Stop,
}

/// Accepts any certificate, for `--insecure` connections. Signatures are still verified.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
