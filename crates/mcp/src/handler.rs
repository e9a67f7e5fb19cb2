//! [`Handler`]: responds to requests of a server for roots and for input of the user.

#![expect(deprecated, reason = "servers of the older protocol use roots")]

use std::path::PathBuf;
use std::sync::Arc;

use reqwest::Url;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ListRootsResult,
    ProtocolVersion, Root, RootsCapabilities, UrlElicitationCapability,
};
use rmcp::service::{RequestContext, RoleClient};

use crate::callers::Callers;

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
