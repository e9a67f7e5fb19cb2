//! Sign-in to servers over HTTP through a browser, and the resulting tokens.
//!
//! Uses the authorization code flow with PKCE, at the authorization server that the MCP server names. All requests use
//! a restricted client: it requires encryption unless both ends are this machine, follows no redirects, and bounds the
//! size of responses.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fs_err as fs;
use futures_util::StreamExt as _;
use reqwest::{Client, Url};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, CredentialStore, OAuthHttpClient,
    OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest, OAuthState, StoredCredentials,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::connection::bounded;
use crate::definition::{OAuth, ServerDefinition};
use crate::error::McpError;
use crate::http;
use crate::post;
use crate::resolve::{self, ResolvedServer, is_this_machine};
use crate::servers::Options;
use crate::stdio::with_sources;

/// Maximum size of a response of an authorization server, in bytes.
const MAX_RESPONSE_SIZE: usize = 1 << 20;
/// Timeout of one request to an authorization server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the user to sign in.
const SIGN_IN_TIMEOUT: Duration = Duration::from_mins(10);

/// Storage of tokens, one text per server. The text is a secret.
pub trait TokenStore: Send + Sync {
    /// Returns the stored text of a server.
    fn load(&self, server: &str) -> io::Result<Option<String>>;
    /// Stores the text of a server, and replaces an earlier text.
    fn save(&self, server: &str, text: &str) -> io::Result<()>;
    /// Deletes the text of a server.
    fn clear(&self, server: &str) -> io::Result<()>;
}

/// Tokens in files that only the user may read.
#[derive(Debug, Clone)]
pub struct FileTokens {
    folder: PathBuf,
}

impl FileTokens {
    /// Stores tokens in this directory, which is created when the first token is stored.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    fn file(&self, server: &str) -> PathBuf {
        self.folder.join(format!("{server}.token.json"))
    }
}

impl TokenStore for FileTokens {
    fn load(&self, server: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.file(server)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn save(&self, server: &str, text: &str) -> io::Result<()> {
        use fs_err::os::unix::fs::OpenOptionsExt as _;
        use std::io::Write as _;
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let file = self.file(server);
        let new = self
            .folder
            .join(format!(".{server}.{}.new", std::process::id()));
        // A file left by an interrupted attempt may have other permissions.
        let _unless_there = fs::remove_file(&new);
        let mut opened = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(new, file)
    }

    fn clear(&self, server: &str) -> io::Result<()> {
        match fs::remove_file(self.file(server)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The tokens of one server, behind the interface of the SDK.
struct ServerCredentials {
    server: String,
    tokens: Arc<dyn TokenStore>,
}

fn store_failed(error: impl std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait::async_trait]
impl CredentialStore for ServerCredentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let text = self.tokens.load(&self.server).map_err(store_failed)?;
        // Unreadable tokens count as missing: the user signs in again.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_string(&credentials).map_err(store_failed)?;
        self.tokens.save(&self.server, &text).map_err(store_failed)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.tokens.clear(&self.server).map_err(store_failed)
    }
}

/// HTTP client for authorization servers.
struct RestrictedClient {
    client: Client,
    is_local: bool,
}

impl OAuthHttpClient for RestrictedClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let failed = |text: String| -> OAuthHttpClientError { io::Error::other(text).into() };
            let request = reqwest::Request::try_from(request.request)?;
            let is_this_host = is_this_machine(request.url());
            if request.url().scheme() != "https" && !(is_this_host && self.is_local) {
                return Err(failed("a sign-in URL is not encrypted".to_owned()));
            }
            if is_this_host && !self.is_local {
                return Err(failed(
                    "a remote server names a URL on this machine".to_owned(),
                ));
            }
            let sent = tokio::time::timeout(REQUEST_TIMEOUT, self.client.execute(request)).await?;
            let response = sent.map_err(reqwest::Error::without_url)?;
            let mut answer = ::http::Response::builder().status(response.status());
            for (name, value) in response.headers() {
                answer = answer.header(name, value);
            }
            let mut body = Vec::new();
            let mut chunks = response.bytes_stream();
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(reqwest::Error::without_url)?;
                if body.len() + chunk.len() > MAX_RESPONSE_SIZE {
                    return Err(failed(
                        "a response of the authorization server is too long".to_owned(),
                    ));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(answer.body(body)?)
        })
    }
}

fn failed(server: &str, action: &str, error: &AuthError) -> McpError {
    McpError::Authorization {
        server: server.to_owned(),
        why: bounded(&format!("{action}: {}", with_sources(error))),
        challenge: None,
    }
}

/// Creates the authorization manager of a server, with its stored tokens.
pub(crate) async fn manager(
    definition: &ServerDefinition,
    url: &Url,
    client: Client,
    tokens: Option<Arc<dyn TokenStore>>,
) -> Result<AuthorizationManager, McpError> {
    let server = &definition.name;
    let restricted = RestrictedClient {
        client,
        is_local: is_this_machine(url),
    };
    let created =
        AuthorizationManager::new_with_oauth_http_client(url.clone(), Arc::new(restricted)).await;
    let mut manager = created.map_err(|error| failed(server, "signing in", &error))?;
    let Some(tokens) = tokens else {
        return Ok(manager);
    };
    let is_known = tokens.load(server).is_ok_and(|text| text.is_some());
    manager.set_credential_store(ServerCredentials {
        server: server.clone(),
        tokens,
    });
    if is_known {
        let initialized = manager.initialize_from_store().await;
        initialized.map_err(|error| failed(server, "using the stored token", &error))?;
    }
    Ok(manager)
}

/// Signs in to a server: shows the user a URL, waits until the browser is redirected to this machine, and stores the
/// token. `challenge` is the server's authentication challenge, as in [`McpError::Authorization`]. `open` shows the
/// URL; it may also open a browser.
pub fn login(
    definition: &ServerDefinition,
    options: &Options,
    challenge: Option<&str>,
    open: impl Fn(&Url),
) -> Result<(), McpError> {
    let unchecked = definition.clone();
    let definition = unchecked
        .clone()
        .checked()
        .map_err(|broken| unchecked.invalid(broken))?;
    let invalid = |message: &str, fix: &str| McpError::Invalid {
        server: definition.name.clone(),
        message: message.to_owned(),
        fix: fix.into(),
    };
    let resolved = resolve::resolve(&definition, &options.variables, &options.folder)?;
    let ResolvedServer::Http { url, .. } = resolved else {
        let message = "it is a local program, and only servers over HTTP support sign-in";
        return Err(invalid(message, "pass credentials in `env`"));
    };
    let Some(tokens) = options.tokens.clone() else {
        return Err(invalid(
            "there is no token storage",
            "configure one in the options",
        ));
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| invalid(&error.to_string(), "try again"))?;
    let sign_in = SignIn {
        definition: &definition,
        url: &url,
        options,
        challenge,
    };
    runtime.block_on(sign_in.sign_in(tokens, &open))
}

/// Parameters of a sign-in.
struct SignIn<'a> {
    definition: &'a ServerDefinition,
    url: &'a Url,
    options: &'a Options,
    challenge: Option<&'a str>,
}

impl SignIn<'_> {
    async fn sign_in(
        &self,
        tokens: Arc<dyn TokenStore>,
        open: &dyn Fn(&Url),
    ) -> Result<(), McpError> {
        let server = &self.definition.name;
        let redirect_error = |error: io::Error| McpError::Authorization {
            server: server.clone(),
            why: format!("the browser cannot be redirected to this machine: {error}"),
            challenge: None,
        };
        let settings = self.settings();
        let port = settings.redirect_port.unwrap_or(0);
        let listener = TcpListener::bind(("127.0.0.1", port))
            .await
            .map_err(redirect_error)?;
        let port = listener.local_addr().map_err(redirect_error)?.port();
        let redirect_url = format!("http://127.0.0.1:{port}/callback");
        let client = http::client(server, self.url)?;
        let manager = manager(self.definition, self.url, client, Some(Arc::clone(&tokens))).await?;
        let stored = tokens.load(server).ok().flatten();
        let stored = stored.and_then(|text| serde_json::from_str::<StoredCredentials>(&text).ok());
        let granted_scopes = stored
            .map(|stored| stored.granted_scopes)
            .unwrap_or_default();
        let mut state = OAuthState::Unauthorized(manager);
        let request = self.request(&settings, &redirect_url, granted_scopes)?;
        let started = state.start_authorization(request).await;
        started.map_err(|error| failed(server, "starting the sign-in", &error))?;
        let address = state.get_authorization_url().await;
        let address = address.map_err(|error| failed(server, "starting the sign-in", &error))?;
        open(&resolve::safe_url(server, &address)?);
        let callback =
            tokio::time::timeout(SIGN_IN_TIMEOUT, wait_for_redirect(&listener, port)).await;
        let callback = callback.map_err(|_| McpError::Timeout {
            server: server.clone(),
            what: "complete the sign-in",
            seconds: SIGN_IN_TIMEOUT.as_secs_f64(),
        })?;
        let finished = state
            .handle_callback_url(&callback.map_err(redirect_error)?)
            .await;
        finished.map_err(|error| failed(server, "signing in", &error))
    }

    fn settings(&self) -> OAuth {
        let auth = self.definition.auth.as_ref();
        auth.and_then(|auth| auth.oauth.clone()).unwrap_or_default()
    }

    /// Creates the authorization request, with the scopes that were granted before, and the scopes of the definition
    /// and of the challenge.
    fn request(
        &self,
        settings: &OAuth,
        redirect_url: &str,
        granted_scopes: Vec<String>,
    ) -> Result<AuthorizationRequest, McpError> {
        let mut request = AuthorizationRequest::new(redirect_url).with_client_name("CleverAgents");
        let challenge_scopes = self.challenge.and_then(post::scope).unwrap_or_default();
        let mut scopes = granted_scopes;
        for scope in settings
            .scopes
            .iter()
            .map(String::as_str)
            .chain(challenge_scopes.split(' '))
        {
            if !scope.is_empty() && !scopes.iter().any(|known| known == scope) {
                scopes.push(scope.to_owned());
            }
        }
        request = if scopes.is_empty() {
            request.with_initial_scope_selection()
        } else {
            request.with_scopes(scopes)
        };
        if let Some(challenge) = self.challenge {
            request = request.with_challenge(challenge);
        }
        if let Some(id) = &settings.client_id {
            request = request.with_preregistered_client(id.clone());
            if let Some(secret) = &settings.client_secret {
                let variables = &self.options.variables;
                let secret = resolve::value(self.definition, variables, secret.expose())?;
                request = request.with_client_secret(secret);
            }
        }
        if let Some(url) = &settings.client_metadata_url {
            request = request.with_client_metadata_url(url.clone());
        }
        Ok(request)
    }
}

/// Waits until the browser is redirected to this machine, and returns the URL of that request.
async fn wait_for_redirect(listener: &TcpListener, port: u16) -> io::Result<String> {
    const MAX_LENGTH: usize = 16 << 10;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut read = Vec::new();
        let mut chunk = [0; 1024];
        while read.len() < MAX_LENGTH && !read.windows(4).any(|end| end == b"\r\n\r\n") {
            let wait = tokio::time::timeout(REQUEST_TIMEOUT, stream.read(&mut chunk)).await;
            match wait {
                Ok(Ok(count)) if count > 0 => read.extend_from_slice(&chunk[..count]),
                _ => break,
            }
        }
        let text = String::from_utf8_lossy(&read);
        let target = text.split_whitespace().nth(1).unwrap_or_default();
        let is_callback = text.starts_with("GET ") && target.starts_with("/callback?");
        let (status, page) = if is_callback {
            ("200 OK", "Sign-in complete. You can close this page.")
        } else {
            ("404 Not Found", "Not found.")
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{page}",
            page.len()
        );
        // The redirect counts even if the browser does not wait for the page.
        let _unless_gone = stream.write_all(answer.as_bytes()).await;
        if is_callback {
            return Ok(format!("http://127.0.0.1:{port}{target}"));
        }
    }
}
