//! [`Handler`]: answers requests of a server and handles its notifications.

#![expect(
    deprecated,
    reason = "servers of the older protocol use roots and log messages"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Url;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, JsonRpcMessage,
    ListRootsResult, ProtocolVersion, Root, RootsCapabilities, ServerNotification,
    UrlElicitationCapability,
};
use rmcp::service::{RequestContext, RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;

use crate::callers::Callers;

/// Notifications of a server about changed lists.
#[derive(Debug, Default)]
pub(crate) struct ListChanges {
    /// Whether the known list of tools is out of date.
    is_stale: AtomicBool,
    /// Notified when the list becomes out of date.
    pub(crate) bell: Notify,
}

impl ListChanges {
    pub(crate) fn mark_stale(&self) {
        self.is_stale.store(true, Ordering::SeqCst);
        self.bell.notify_one();
    }

    /// Returns whether the list must be fetched again, and marks it as up to date.
    pub(crate) fn take(&self) -> bool {
        self.is_stale.swap(false, Ordering::SeqCst)
    }
}

/// The client side of a connection.
pub(crate) struct Handler {
    pub(crate) callers: Arc<Callers>,
    /// Roots of the sandbox that a program sees; `None` for servers over HTTP, whose callers may have different
    /// sandboxes.
    pub(crate) roots: Option<Vec<PathBuf>>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        capabilities.roots = Some(roots);
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default()),
        );
        let this = Implementation::new("cleveragents", env!("CARGO_PKG_VERSION"))
            .with_title("CleverAgents");
        ClientConfig::new(capabilities, this).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let roots = match &self.roots {
            Some(roots) => roots.clone(),
            None => self.callers.roots(),
        };
        let roots = roots
            .iter()
            .filter_map(|folder| Url::from_directory_path(folder).ok())
            .map(|url| Root::new(url.as_str().trim_end_matches('/')))
            .collect();
        Ok(ListRootsResult::new(roots))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let Some(answer) = self.callers.ask(request) else {
            return Ok(declined());
        };
        // The caller may stop waiting without an answer.
        Ok(answer
            .await
            .unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel)))
    }
}

/// A transport that handles a notification before the responses that follow it. A changed list therefore takes effect
/// at once, and the log messages of a call arrive before its result.
pub(crate) struct NotifyingTransport<T> {
    pub(crate) inner: T,
    pub(crate) callers: Arc<Callers>,
    pub(crate) news: Arc<ListChanges>,
}

impl<T> NotifyingTransport<T> {
    fn handle(&self, notification: &ServerNotification) {
        match notification {
            ServerNotification::ToolListChangedNotification(_) => self.news.mark_stale(),
            ServerNotification::ProgressNotification(progress) => {
                let progress = &progress.params;
                let total = progress.total.map(|total| format!(" of {total}"));
                self.callers.note(&format!(
                    "progress {}{}: {}",
                    progress.progress,
                    total.unwrap_or_default(),
                    progress.message.as_deref().unwrap_or_default()
                ));
            }
            ServerNotification::LoggingMessageNotification(message) => {
                let message = &message.params;
                let text = match &message.data {
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                self.callers.note(&format!("{:?}: {text}", message.level));
            }
            _ => {}
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for NotifyingTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        if let JsonRpcMessage::Notification(notification) = &message {
            self.handle(&notification.notification);
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
