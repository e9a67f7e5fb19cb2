//! Servers over HTTP: one client per connection, TLS by our own choice, no redirect, and errors that
//! name no secret.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rmcp::service::ClientInitializeError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::AuthClient;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::definition::ServerDefinition;
use crate::error::McpError;
use crate::expand::is_this_machine;
use crate::link::bounded;
use crate::oauth::{self, TokenStore};
use crate::post::Bounded;
use crate::stdio::{LONGEST_MESSAGE, with_sources};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(20);

pub(crate) type HttpTransport = StreamableHttpClientTransport<AuthClient<Bounded>>;

/// A client for one address.
pub(crate) fn client(server: &str, url: &Url) -> Result<Client, McpError> {
    let failed = |why: String| McpError::Unreachable {
        server: server.to_owned(),
        why,
        log: String::new(),
    };
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls(url.scheme() == "https").map_err(failed)?)
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        // A redirect would carry secrets to a place that nobody configured.
        .redirect(Policy::none())
        .user_agent(concat!("cleveragents/", env!("CARGO_PKG_VERSION")));
    if is_this_machine(url) {
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| failed(with_sources(&error.without_url())))
}

fn tls(is_secure: bool) -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    if is_secure {
        // A certificate that cannot be read is no reason to trust none.
        let (_added, _ignored) =
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("the system has no root certificates to trust".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// A transport to a server. It shows the token that is kept for it, and gets a new one when that is
/// over.
pub(crate) async fn transport(
    definition: &ServerDefinition,
    url: &Url,
    headers: Vec<(String, String)>,
    tokens: Option<Arc<dyn TokenStore>>,
) -> Result<HttpTransport, McpError> {
    let client = client(&definition.name, url)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.custom_headers = header_map(definition, headers)?;
    config.max_sse_event_size = LONGEST_MESSAGE;
    let manager = oauth::manager(definition, url, client.clone(), tokens).await?;
    let client = AuthClient::new(Bounded(client), manager);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn header_map(
    definition: &ServerDefinition,
    headers: Vec<(String, String)>,
) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    headers
        .into_iter()
        .map(|(name, value)| {
            let wrong = || McpError::Invalid {
                server: definition.name.clone(),
                message: format!("its header `{name}` cannot be sent"),
                fix: "check the name, and the value for line breaks".to_owned(),
            };
            let key = HeaderName::try_from(&name).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(&value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            Ok((key, value))
        })
        .collect()
}

/// Why a connection did not begin.
pub(crate) fn failed(server: &str, error: &ClientInitializeError) -> McpError {
    if error.is_authorization_required() {
        return McpError::Authorization {
            server: server.to_owned(),
            why: "it demands a sign-in".to_owned(),
        };
    }
    send_failed(server, &with_sources(error))
}

/// Why a request was not sent.
pub(crate) fn send_failed(server: &str, why: &str) -> McpError {
    let lower = why.to_ascii_lowercase();
    if lower.contains("auth required") || lower.contains("401") || lower.contains("403") {
        return McpError::Authorization {
            server: server.to_owned(),
            why: "it refuses what we know of you".to_owned(),
        };
    }
    McpError::Unreachable {
        server: server.to_owned(),
        why: bounded(why),
        log: String::new(),
    }
}
