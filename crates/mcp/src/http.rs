//! Servers over HTTP: one client per connection, with our TLS settings, without redirects, and with errors that contain
//! no secrets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::{AuthClient, AuthError};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpClientTransportConfig,
};

use crate::connection::bounded;
use crate::definition::ServerDefinition;
use crate::error::McpError;
use crate::oauth::{self, TokenStore};
use crate::post::BoundedClient;
use crate::resolve::{ResolvedServer, is_this_machine};
use crate::stdio::{MAX_MESSAGE_SIZE, with_sources};

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) type HttpTransport = StreamableHttpClientTransport<AuthClient<BoundedClient>>;

/// Creates a client for one URL.
pub(crate) fn client(server: &str, url: &Url) -> Result<Client, McpError> {
    let failed = |why: String| McpError::Unreachable {
        server: server.to_owned(),
        why,
        log: String::new(),
    };
    let mut builder = Client::builder()
        .tls_backend_preconfigured(
            cleveragents_outbound::tls(url.scheme() == "https").map_err(failed)?,
        )
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        // A redirect would send secrets to an address that was not configured.
        .redirect(Policy::none())
        .user_agent(concat!("cleveragents/", env!("CARGO_PKG_VERSION")));
    if is_this_machine(url) {
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| failed(with_sources(&error.without_url())))
}

/// Creates a transport to a server. It sends the stored token and refreshes it when it expires.
pub(crate) async fn transport(
    definition: &ServerDefinition,
    resolved: ResolvedServer,
    tokens: Option<Arc<dyn TokenStore>>,
) -> Result<HttpTransport, McpError> {
    let ResolvedServer::Http { url, headers } = resolved else {
        return Err(McpError::NotFound(definition.name.clone()));
    };
    let client = client(&definition.name, &url)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.custom_headers = header_map(definition, headers)?;
    config.max_sse_event_size = MAX_MESSAGE_SIZE;
    let manager = oauth::manager(definition, &url, client.clone(), tokens).await?;
    let client = AuthClient::new(BoundedClient(client), manager);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn header_map(
    definition: &ServerDefinition,
    headers: Vec<(String, String)>,
) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    headers
        .into_iter()
        .map(|(name, value)| {
            let invalid = || McpError::Invalid {
                server: definition.name.clone(),
                message: format!("its header `{name}` cannot be sent"),
                fix: "check the name, and the value for line breaks".into(),
            };
            let key = HeaderName::try_from(&name).map_err(|_| invalid())?;
            let mut value = HeaderValue::try_from(&value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            Ok((key, value))
        })
        .collect()
}

/// Converts the error of a request. A required sign-in is recognised anywhere in the error chain.
pub(crate) fn failed(server: &str, error: &(dyn std::error::Error + 'static)) -> McpError {
    let sign_in_required = |why: &str, challenge: Option<&str>| McpError::Authorization {
        server: server.to_owned(),
        why: why.to_owned(),
        challenge: challenge.map(str::to_owned),
    };
    let mut cause = error;
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(auth_error) = current.downcast_ref::<AuthRequiredError>() {
            return sign_in_required(
                "it requires a sign-in",
                Some(&auth_error.www_authenticate_header),
            );
        }
        if let Some(auth_error) = current.downcast_ref::<InsufficientScopeError>() {
            let why = "your current permissions are not sufficient";
            return sign_in_required(why, Some(&auth_error.www_authenticate_header));
        }
        if let Some(AuthError::AuthorizationRequired) = current.downcast_ref() {
            return sign_in_required("it requires a sign-in", None);
        }
        cause = current;
        next = current.source();
    }
    let why = bounded(&cause.to_string());
    if why.contains("HTTP 401") || why.contains("HTTP 403") {
        return sign_in_required("it rejected your credentials", None);
    }
    McpError::Unreachable {
        server: server.to_owned(),
        why,
        log: String::new(),
    }
}
