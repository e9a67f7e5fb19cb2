//! [`Link`]: one connection to a server, from the moment it speaks the protocol until nothing of it
//! is left.

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
use crate::expand::Reached;
use crate::handler::{Handler, Hearing, News};
use crate::stdio::{self, Fault, LONGEST_MESSAGE, Started, Tail, with_sources};
use crate::{http, listing::Listing};

/// How long a program may take to end by itself once its input is closed.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) type Service = RunningService<RoleClient, Handler>;

/// One connection to a server.
pub(crate) struct Link {
    server: String,
    pub(crate) service: Service,
    process: Mutex<Option<Started>>,
    tail: Arc<Tail>,
    fault: Fault,
    /// How its program ended, once somebody asked.
    obituary: OnceCell<String>,
}

/// What a connection is made from.
pub(crate) struct Making {
    pub(crate) definition: Arc<ServerDefinition>,
    pub(crate) reached: Reached,
    pub(crate) callers: Arc<Callers>,
    pub(crate) news: Arc<News>,
    pub(crate) tokens: Option<Arc<dyn crate::oauth::TokenStore>>,
    /// The folders of the sandbox that a program sees.
    pub(crate) folders: WorkspaceFolders,
    /// Where programs have their private homes.
    pub(crate) homes: Option<PathBuf>,
}

impl Making {
    fn handler(&self) -> Handler {
        let is_program = matches!(self.reached, Reached::Program { .. });
        Handler {
            callers: Arc::clone(&self.callers),
            roots: is_program.then(|| self.folders.roots.clone()),
        }
    }

    /// How the conversation begins.
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

impl Link {
    /// Connects. When this is dropped before it is done, nothing is left of it.
    pub(crate) async fn open(making: Making) -> Result<Self, McpError> {
        match &making.reached {
            Reached::Program { .. } => Self::to_program(making).await,
            Reached::Http { .. } => Self::to_site(making).await,
        }
    }

    async fn to_program(making: Making) -> Result<Self, McpError> {
        let server = making.definition.name.clone();
        let (handler, lifecycle) = (making.handler(), making.lifecycle());
        let (callers, news) = (making.callers, making.news);
        let places = stdio::Places {
            folders: making.folders,
            homes: making.homes,
        };
        let program = stdio::start(&server, making.reached, places).await?;
        let view = program.view;
        let inner = AsyncRwTransport::new_client(program.output, program.input)
            .with_max_line_length(LONGEST_MESSAGE + 2);
        let transport = Hearing {
            inner,
            callers,
            news,
        };
        match handler.serve_with_lifecycle(transport, lifecycle).await {
            Ok(service) => Ok(Self {
                server,
                service,
                process: Mutex::new(Some(program.started)),
                tail: program.tail,
                fault: program.fault,
                obituary: OnceCell::new(),
            }),
            Err(error) => {
                let end = last_words(program.started).await;
                let why = match program.fault.get() {
                    Some(fault) => fault.clone(),
                    None => format!("{}; {end}", begun_badly(&error)),
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

    async fn to_site(making: Making) -> Result<Self, McpError> {
        let server = making.definition.name.clone();
        let (handler, lifecycle) = (making.handler(), making.lifecycle());
        let (callers, news) = (making.callers, making.news);
        let inner = http::transport(&making.definition, making.reached, making.tokens).await?;
        let transport = Hearing {
            inner,
            callers,
            news,
        };
        let begun = handler.serve_with_lifecycle(transport, lifecycle).await;
        let service = begun.map_err(|error| match error {
            // What failed is inside, and no source of it.
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
            obituary: OnceCell::new(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Started>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing can be asked any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.service.is_transport_closed() || self.service.is_closed()
    }

    /// Asks what the server offers.
    pub(crate) async fn list(&self) -> Result<Listing, McpError> {
        match crate::listing::ask(self.service.peer()).await {
            Ok(listing) => Ok(listing),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Hears of changed lists, where the protocol wants to be asked for that.
    pub(crate) async fn hear_news(&self) {
        let Some(info) = self.service.peer_info() else {
            return;
        };
        let tells = info.capabilities.tools.as_ref();
        let tells = tells.and_then(|tools| tools.list_changed).unwrap_or(false);
        if info.protocol_version.has_initialize() || !tells {
            return;
        }
        let wanted = SubscriptionFilter::builder().tools_list_changed().build();
        let Ok(mut subscription) = self.service.listen(wanted).await else {
            return;
        };
        // What it brings was heard on its way in.
        while let Ok(Some(_)) = subscription.next().await {}
    }

    /// What a failed request means.
    pub(crate) async fn failed(&self, error: ServiceError) -> McpError {
        let server = self.server.clone();
        match error {
            ServiceError::McpError(error) => McpError::Answered {
                server,
                message: bounded(&error.message),
            },
            ServiceError::TransportClosed => McpError::Unreachable {
                server,
                why: self.end().await,
                log: self.tail.text(),
            },
            ServiceError::TransportSend(error) => {
                if self.is_dead() || self.has_program() {
                    return McpError::Unreachable {
                        server,
                        why: self.end().await,
                        log: self.tail.text(),
                    };
                }
                http::failed(&server, &*error.error)
            }
            ServiceError::UnexpectedResponse => McpError::Protocol {
                server,
                why: "its answer is of another kind than the question".to_owned(),
            },
            ServiceError::InputRequiredRoundsExceeded { max_rounds } => McpError::Protocol {
                server,
                why: format!("it asked back more than {max_rounds} times"),
            },
            other => McpError::Protocol {
                server,
                why: bounded(&other.to_string()),
            },
        }
    }

    fn has_program(&self) -> bool {
        self.obituary.initialized() || self.lock().is_some()
    }

    /// Why the connection is over.
    async fn end(&self) -> String {
        let told = self.obituary.get_or_init(|| async {
            let process = self.lock().take();
            let end = match process {
                Some(process) => last_words(process).await,
                None => "the connection is closed".to_owned(),
            };
            self.fault.get().cloned().unwrap_or(end)
        });
        told.await.clone()
    }

    /// The end of what it wrote to standard error.
    pub(crate) fn log(&self) -> String {
        self.tail.text()
    }

    /// Ends the connection; nothing of it is left afterwards.
    pub(crate) async fn close(&self) {
        // Closes the program's input too.
        self.service.cancellation_token().cancel();
        let process = self.lock().take();
        if let Some(process) = process {
            last_words(process).await;
        }
    }
}

/// Waits for a program to end, or ends it, and says how it ended.
async fn last_words(started: Started) -> String {
    let stopped = tokio::task::spawn_blocking(move || started.stop(GRACE)).await;
    match stopped {
        Ok(Ok(finished)) => match finished.ending {
            Ending::Exited(code) => format!("it ended with exit code {code}"),
            Ending::Signalled(signal) => format!("signal {signal} ended it"),
            Ending::TimedOut | Ending::Cancelled => {
                "it closed its output and was stopped".to_owned()
            }
        },
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it was stopped".to_owned(),
    }
}

/// What went wrong at the beginning, without the whole of what the server sent.
fn begun_badly(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refuses to begin: {}", bounded(&error.message))
        }
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::TransportError { .. } => {
            "it went away before it said anything of use".to_owned()
        }
        other => bounded(&with_sources(other)),
    }
}

/// A foreign text that is not too long to be shown.
pub(crate) fn bounded(text: &str) -> String {
    const LONGEST: usize = 2048;
    let text = text.trim();
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST);
    format!("{}…", &text[..end])
}
