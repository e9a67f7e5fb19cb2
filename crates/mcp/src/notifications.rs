//! Notifications of a server: changed tool lists, progress and log messages.

#![expect(deprecated, reason = "servers of the older protocol send log messages")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;

use crate::callers::Callers;

/// Notifications of a server about changed lists.
#[derive(Debug, Default)]
pub(crate) struct ListChanges {
    /// Whether the known list of tools is out of date.
    is_stale: AtomicBool,
    /// Notified when the list becomes out of date.
    pub(crate) became_stale: Notify,
}

impl ListChanges {
    pub(crate) fn mark_stale(&self) {
        self.is_stale.store(true, Ordering::SeqCst);
        self.became_stale.notify_one();
    }

    /// Returns whether the list must be fetched again, and marks it as up to date.
    pub(crate) fn take_stale(&self) -> bool {
        self.is_stale.swap(false, Ordering::SeqCst)
    }
}

/// A transport that handles a notification before the responses that follow it. A changed list therefore takes effect
/// at once, and the log messages of a call arrive before its result.
pub(crate) struct NotifyingTransport<T> {
    pub(crate) inner: T,
    pub(crate) callers: Arc<Callers>,
    pub(crate) list_changes: Arc<ListChanges>,
}

impl<T> NotifyingTransport<T> {
    fn handle(&self, notification: &ServerNotification) {
        match notification {
            ServerNotification::ToolListChangedNotification(_) => self.list_changes.mark_stale(),
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
