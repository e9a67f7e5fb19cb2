//! One tool call of a user, through the same gate as the calls of models.

use std::sync::Arc;

use cleveragents_process::Cancel;
use cleveragents_tools::ports::{Approver, Scope, Workspace};
use cleveragents_tools::{CallContext, CallOutcome, CallRequest, Gate, PlanMode, Registry};

use super::{AgentRuntime, RememberingApprover, ToolRequirements};
use crate::operation::OperationError;
use crate::tool::{SandboxWorkspace, StoreBudget, StoreLedger, ToolError};
use crate::turn::Secrets;

/// A tool call of a user.
pub struct ToolCallRequest<'a> {
    /// The id of the call in its row.
    pub call_id: &'a str,
    pub tool: &'a str,
    /// Skills whose tools may also be called.
    pub skills: &'a [String],
    /// The capabilities that are allowed.
    pub mode: PlanMode,
    /// Permission rules in addition to the stored rules.
    pub rules: &'a [String],
    pub workspace: Option<&'a SandboxWorkspace>,
    /// Asks the user for approvals.
    pub approver: &'a dyn Approver,
    /// Stops the call.
    pub cancel: &'a Cancel,
    /// Maximum size of the returned output, in bytes.
    pub shown_bytes: usize,
}

impl AgentRuntime {
    /// Calls a tool. `arguments` receives the available tools and returns the arguments as JSON text.
    pub fn call_tool<E: From<OperationError>>(
        &self,
        request: &ToolCallRequest<'_>,
        arguments: impl FnOnce(&Registry) -> Result<String, E>,
    ) -> Result<(CallOutcome, Arc<Registry>), E> {
        let connected = self.connect(ToolRequirements {
            skills: request.skills.iter().cloned().collect(),
            servers: self.toolset().server_of(request.tool).into_iter().collect(),
        })?;
        let registry = Arc::clone(&connected.registry);
        if registry.get(request.tool).is_err()
            && let Ok(found) =
                (self.tools()).get_registered(request.tool, &*self.options().variables)
        {
            // The tool is registered but was left out. Return the error of its definition.
            let _spec = (found.definition)
                .map_err(|error| OperationError::from_service(ToolError::from(error)))?;
        }
        let call = CallRequest {
            call_id: request.call_id.to_owned(),
            tool: request.tool.to_owned(),
            arguments: arguments(&registry)?,
        };
        let engine = &self.options().engine;
        let safety = &self.options().safety;
        let rules = self.tightened(self.rules(request.rules)?, request.workspace)?;
        let outcome = Gate::new(Arc::clone(&registry)).call(
            &call,
            &CallContext {
                scope: &Scope::default(),
                mode: request.mode,
                profile: &safety.profile,
                guards: &safety.guards,
                rules: &rules,
                workspace: request
                    .workspace
                    .map(|workspace| workspace as &dyn Workspace),
                approver: &RememberingApprover::new(self.tools(), request.approver),
                budget: &StoreBudget::new(Arc::clone(engine), vec![self.day_budget()]),
                ledger: &StoreLedger::new(Arc::clone(engine), None),
                redactor: &Secrets(&self.redactor()),
                cancel: request.cancel,
                shown_bytes: request.shown_bytes,
            },
        );
        Ok((outcome.map_err(OperationError::from_service)?, registry))
    }
}
