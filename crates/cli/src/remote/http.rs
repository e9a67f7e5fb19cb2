//! Talking to a server: one address, one token, no redirect.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_application::Operation;
use cleveragents_domain::Code;
use cleveragents_outbound::sse::EventDecoder;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use serde_json::Value;

use crate::config::keys;
use crate::context::Context;
use crate::output::CommandError;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The variable that holds a token.
const VARIABLE: &str = "CLEVERAGENTS_SERVER_TOKEN";

/// Where the token is kept.
pub(crate) fn token_file(context: &Context) -> PathBuf {
    context.home.path().join("server-token")
}

/// A server that commands are sent to.
pub(crate) struct Connection {
    pub(crate) url: String,
    token: Option<String>,
    checks_certificate: bool,
}

impl Connection {
    /// The server that is configured.
    pub(crate) fn configured(context: &Context) -> Result<Option<Self>, CommandError> {
        let url = context.configuration.resolve_key(&keys::SERVER_URL)?.value;
        let Some(url) = url.and_then(|value| value.as_text().map(str::to_owned)) else {
            return Ok(None);
        };
        let verify = context
            .configuration
            .resolve_key(&keys::SERVER_TLS_VERIFY)?
            .value;
        let kept = std::fs::read_to_string(token_file(context)).ok();
        let token = context.environment.text(VARIABLE).or(kept);
        Ok(Some(Self::new(
            &url,
            token,
            verify.is_none_or(|value| value.as_flag() != Some(false)),
        )))
    }

    /// A server at an address.
    pub(crate) fn new(url: &str, token: Option<String>, checks_certificate: bool) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
            token: token.map(|token| token.trim().to_owned()),
            checks_certificate,
        }
    }

    /// Asks for something.
    pub(crate) fn get(&self, path: &str) -> Result<Value, CommandError> {
        self.send(Method::GET, path, None)
    }

    /// Sends something, and gives the answer.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value, CommandError> {
        self.send(Method::POST, path, Some(body))
    }

    /// Calls an operation. Names without a namespace are in `namespace`.
    pub(crate) fn call<O: Operation>(
        &self,
        request: &O,
        namespace: Option<&str>,
    ) -> Result<O::Response, CommandError> {
        let unreadable = |error: &serde_json::Error| {
            let message = "the server sent a response that cannot be read";
            CommandError::new(Code::ServerProtocol, message)
                .caused_by(error)
                .with_hint("`agents server status` compares the versions")
        };
        let body = serde_json::to_value(request).map_err(|error| {
            CommandError::internal("the request cannot be written as JSON").caused_by(&error)
        })?;
        let mut path = format!("/api/v1/operations/{}", O::NAME);
        if let Some(namespace) = namespace {
            path.push_str("?namespace=");
            path.extend(utf8_percent_encode(namespace, NON_ALPHANUMERIC));
        }
        let mut answer = self.post(&path, &body)?;
        serde_json::from_value(answer["data"].take()).map_err(|error| unreadable(&error))
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CommandError> {
        let runtime = runtime()?;
        let request = self.request(method, path, body)?;
        let (status, bytes) = runtime
            .block_on(async {
                let response = request.send().await?;
                let status = response.status();
                Ok((status, response.bytes().await?))
            })
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
        // The address is told once, by us.
        let error = error.without_url();
        CommandError::new(
            Code::ServerUnreachable,
            format!("the server at {} cannot be reached", self.url),
        )
        .caused_by(&error)
        .with_hint(
            "check that it runs; `agents server status` tells more, --local runs a command here",
        )
    }

    /// An answer that ended before it was whole.
    pub(crate) fn cut(&self) -> CommandError {
        CommandError::new(
            Code::ServerUnreachable,
            format!(
                "the server at {} ended the answer before it was whole",
                self.url
            ),
        )
        .with_hint(
            "what was begun there goes on, or is gone on with; look at it with the same commands",
        )
    }

    /// Asks for something that is answered piece by piece, and hears the pieces: the name of each and what it holds.
    pub(crate) fn listen(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        mut hear: impl FnMut(&str, Value) -> Result<Next, CommandError>,
    ) -> Result<(), CommandError> {
        let runtime = runtime()?;
        let request = self.request(method, path, body)?;
        let request = request.header("accept", "text/event-stream, application/json");
        runtime.block_on(async {
            let sent = request.send().await;
            let mut response = sent.map_err(|error| self.unreachable(error))?;
            if !response.status().is_success() {
                let status = response.status().as_u16();
                let bytes = response.bytes().await.unwrap_or_default();
                let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                return Err(self.problem(status, &answer));
            }
            // A report is one event, however long it is.
            let mut events = EventDecoder::new(usize::MAX);
            while let Ok(Some(chunk)) = response.chunk().await {
                events.add(chunk);
                while let Some(Ok(event)) = events.next_event() {
                    // Events without JSON only keep the connection alive.
                    let Ok(data) = serde_json::from_str(&event.data) else {
                        continue;
                    };
                    if hear(&event.name, data)? == Next::Stop {
                        return Ok(());
                    }
                }
            }
            // What was heard until here counts; the rest may be asked for again.
            Ok(())
        })
    }

    /// What the server said that went wrong.
    pub(crate) fn problem(&self, status: u16, answer: &Value) -> CommandError {
        let mut codes = Code::ALL.iter().copied();
        let said = answer["code"].as_str().unwrap_or_default();
        let Some(code) = codes.find(|code| code.as_str() == said) else {
            let message = format!(
                "the server at {} answered with the status {status}",
                self.url
            );
            return CommandError::new(Code::ServerProtocol, message)
                .with_hint("check that the address is that of `agents serve`");
        };
        let message = answer["detail"].as_str().unwrap_or_else(|| code.title());
        let error = CommandError::new(code, message).with_details(answer["details"].clone());
        match answer["hint"].as_str() {
            Some(hint) => error.with_hint(hint),
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
                .set_certificate_verifier(Arc::new(Unchecked(provider)));
        }
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            // A redirect would carry the token to a place that nobody configured.
            .redirect(Policy::none())
            .user_agent(concat!("cleveragents/", env!("CARGO_PKG_VERSION")));
        let host = self.url.split("//").nth(1).unwrap_or_default();
        if ["127.", "localhost", "[::1]"]
            .iter()
            .any(|here| host.starts_with(here))
        {
            builder = builder.no_proxy();
        }
        builder
            .build()
            .map_err(|error| failed(&error.without_url().to_string()))
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::internal("no runtime can be made").caused_by(&error))
}

/// What to do after a piece of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Hear more.
    More,
    /// It was the last.
    Stop,
}

/// Takes any certificate, for who said so. Signatures are checked all the same.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
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
