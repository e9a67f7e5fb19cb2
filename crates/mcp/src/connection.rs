//! [`ServerConnection`]: one connection to a server, from the handshake until all its resources are released.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cleveragents_process::Ending;
use cleveragents_tools::ports::WorkspaceFolders;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService,
    ServiceError,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::sync::OnceCell;

use crate::callers::Callers;
use crate::definition::{Protocol, ServerDefinition};
use crate::error::McpError;
use crate::handler::Handler;
use crate::notifications::{ListChanges, NotifyingTransport};
use crate::resolve::ResolvedServer;
use crate::stdio::{self, Fault, MAX_MESSAGE_SIZE, RunningProgram, StderrTail, with_sources};
use crate::{http, listing::Listing};

/// Time for a program to exit after its input is closed.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) type McpService = RunningService<RoleClient, Handler>;

/// One connection to a server.
pub(crate) struct ServerConnection {
    server: String,
    pub(crate) service: McpService,
    process: Mutex<Option<RunningProgram>>,
    tail: Arc<StderrTail>,
    fault: Fault,
    /// Description of how the program ended, computed when it is needed for the first time.
    exit_description: OnceCell<String>,
}

/// Parameters of a new connection.
pub(crate) struct ConnectionParameters {
    pub(crate) definition: Arc<ServerDefinition>,
    pub(crate) resolved: ResolvedServer,
    pub(crate) callers: Arc<Callers>,
    pub(crate) list_changes: Arc<ListChanges>,
    pub(crate) tokens: Option<Arc<dyn crate::oauth::TokenStore>>,
    /// Directories of a sandbox that the program may access.
    pub(crate) folders: WorkspaceFolders,
    /// Parent directory of the programs' private homes.
    pub(crate) homes: Option<PathBuf>,
}

impl ConnectionParameters {
    fn handler(&self) -> Handler {
        let is_program = matches!(self.resolved, ResolvedServer::Program { .. });
        Handler {
            callers: Arc::clone(&self.callers),
            roots: is_program.then(|| self.folders.roots.clone()),
        }
    }

    /// The protocol handshake to perform.
    fn lifecycle(&self) -> ClientLifecycleMode {
        match self.definition.protocol {
            Protocol::Auto => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
            Protocol::V2025 => ClientLifecycleMode::Initialize,
            Protocol::V2026 => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

impl ServerConnection {
    /// Connects to a server. Dropping the future before it completes releases all resources.
    pub(crate) async fn open(parameters: ConnectionParameters) -> Result<Self, McpError> {
        match &parameters.resolved {
            ResolvedServer::Program { .. } => Self::connect_program(parameters).await,
            ResolvedServer::Http { .. } => Self::connect_endpoint(parameters).await,
        }
    }

    async fn connect_program(parameters: ConnectionParameters) -> Result<Self, McpError> {
        let server = parameters.definition.name.clone();
        let (handler, lifecycle) = (parameters.handler(), parameters.lifecycle());
        let (callers, list_changes) = (parameters.callers, parameters.list_changes);
        let visible = stdio::VisibleFolders {
            folders: parameters.folders,
            homes: parameters.homes,
        };
        let program = stdio::start(&server, parameters.resolved, visible).await?;
        let view = program.view;
        let inner = AsyncRwTransport::new_client(program.output, program.input)
            .with_max_line_length(MAX_MESSAGE_SIZE + 2);
        let transport = NotifyingTransport {
            inner,
            callers,
            list_changes,
        };
        match handler.serve_with_lifecycle(transport, lifecycle).await {
            Ok(service) => Ok(Self {
                server,
                service,
                process: Mutex::new(Some(program.started)),
                tail: program.tail,
                fault: program.fault,
                exit_description: OnceCell::new(),
            }),
            Err(error) => {
                let end = wait_for_exit(program.started).await;
                let why = match program.fault.get() {
                    Some(fault) => fault.clone(),
                    None => format!("{}; {end}", handshake_error(&error)),
                };
                Err(McpError::Startup {
                    server,
                    why,
                    log: program.tail.text(),
                    sees: view.to_string(),
                })
            }
        }
    }

    async fn connect_endpoint(parameters: ConnectionParameters) -> Result<Self, McpError> {
        let server = parameters.definition.name.clone();
        let (handler, lifecycle) = (parameters.handler(), parameters.lifecycle());
        let (callers, list_changes) = (parameters.callers, parameters.list_changes);
        let inner = http::transport(
            &parameters.definition,
            parameters.resolved,
            parameters.tokens,
        )
        .await?;
        let transport = NotifyingTransport {
            inner,
            callers,
            list_changes,
        };
        let service = handler.serve_with_lifecycle(transport, lifecycle).await;
        let service = service.map_err(|error| match error {
            // The cause is in this field and not reachable as a source.
            ClientInitializeError::TransportError { error, .. } => {
                http::failed(&server, &*error.error)
            }
            other => http::failed(&server, &other),
        })?;
        Ok(Self {
            server,
            service,
            process: Mutex::new(None),
            tail: Arc::default(),
            fault: Fault::default(),
            exit_description: OnceCell::new(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<RunningProgram>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the connection is closed, so that no request can be sent.
    pub(crate) fn is_dead(&self) -> bool {
        self.service.is_transport_closed() || self.service.is_closed()
    }

    /// Fetches the listing of the server.
    pub(crate) async fn list(&self) -> Result<Listing, McpError> {
        match crate::listing::ask(self.service.peer()).await {
            Ok(listing) => Ok(listing),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Subscribes to changed lists, where the protocol requires a subscription.
    pub(crate) async fn subscribe_to_changes(&self) {
        let Some(info) = self.service.peer_info() else {
            return;
        };
        let lists_changes = info.capabilities.tools.as_ref();
        let lists_changes = lists_changes
            .and_then(|tools| tools.list_changed)
            .unwrap_or(false);
        if info.protocol_version.has_initialize() || !lists_changes {
            return;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let Ok(mut subscription) = self.service.listen(filter).await else {
            return;
        };
        // `NotifyingTransport` handles the notifications.
        while let Ok(Some(_)) = subscription.next().await {}
    }

    /// Converts the error of a request. If the connection is closed, the result describes how the program ended.
    pub(crate) async fn failed(&self, error: ServiceError) -> McpError {
        let server = self.server.clone();
        match error {
            ServiceError::McpError(error) => McpError::Answered {
                server,
                message: bounded(&error.message),
            },
            ServiceError::TransportClosed => McpError::Unreachable {
                server,
                why: self.describe_end().await,
                log: self.tail.text(),
            },
            ServiceError::TransportSend(error) => {
                if self.is_dead() || self.has_program() {
                    return McpError::Unreachable {
                        server,
                        why: self.describe_end().await,
                        log: self.tail.text(),
                    };
                }
                http::failed(&server, &*error.error)
            }
            ServiceError::UnexpectedResponse => McpError::Protocol {
                server,
                why: "its response does not match the request".to_owned(),
            },
            ServiceError::InputRequiredRoundsExceeded { max_rounds } => McpError::Protocol {
                server,
                why: format!("it sent more than {max_rounds} follow-up requests"),
            },
            other => McpError::Protocol {
                server,
                why: bounded(&other.to_string()),
            },
        }
    }

    fn has_program(&self) -> bool {
        self.exit_description.initialized() || self.lock().is_some()
    }

    /// Describes why the connection ended.
    async fn describe_end(&self) -> String {
        let description = self.exit_description.get_or_init(|| async {
            let process = self.lock().take();
            let end = match process {
                Some(process) => wait_for_exit(process).await,
                None => "the connection is closed".to_owned(),
            };
            self.fault.get().cloned().unwrap_or(end)
        });
        description.await.clone()
    }

    /// The end of the program's standard error.
    pub(crate) fn log(&self) -> String {
        self.tail.text()
    }

    /// Closes the connection, stops the program and releases all resources.
    pub(crate) async fn close(&self) {
        // This also closes the program's input.
        self.service.cancellation_token().cancel();
        let process = self.lock().take();
        if let Some(process) = process {
            wait_for_exit(process).await;
        }
    }
}

/// Waits for a program to exit, or kills it, and describes how it ended.
async fn wait_for_exit(started: RunningProgram) -> String {
    let stopped = tokio::task::spawn_blocking(move || started.stop(GRACE)).await;
    match stopped {
        Ok(Ok(finished)) => match finished.ending {
            Ending::Exited(code) => format!("it exited with exit code {code}"),
            Ending::Signalled(signal) => format!("it was terminated by signal {signal}"),
            Ending::TimedOut | Ending::Cancelled => {
                "it closed its output and was stopped".to_owned()
            }
        },
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it was stopped".to_owned(),
    }
}

/// Describes a failed handshake, without a complete copy of the server's response.
fn handshake_error(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            format!("it rejected the handshake: {}", bounded(&error.message))
        }
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::TransportError { .. } => {
            "it closed the connection during the handshake".to_owned()
        }
        other => bounded(&with_sources(other)),
    }
}

/// A text of the server, truncated for display.
pub(crate) fn bounded(text: &str) -> String {
    const MAX_LENGTH: usize = 2048;
    let text = text.trim();
    if text.len() <= MAX_LENGTH {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_LENGTH);
    format!("{}…", &text[..end])
}
