//! `tool/calls`: lists recorded tool calls.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    InvocationOutcome, PlanId, SessionId, Timestamp, ToolInvocation, ToolInvocationId, TurnId,
};
use cleveragents_store::invocations::InvocationFilter;
use cleveragents_tools::ToolPattern;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::operation::{
    Operation, OperationContext, OperationError, PageSummary, Requirement, Resolver,
};
use crate::session::SessionError;

/// Lists recorded tool calls, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListToolCalls {
    /// Only calls of this session: id, prefix of at least 6 characters, or name.
    #[serde(default)]
    pub session: Option<String>,
    /// Only calls of this tool, or of tools that match a pattern such as `builtin/git-*`.
    #[serde(default)]
    pub tool: Option<String>,
    /// Only calls with this outcome.
    #[serde(default)]
    pub outcome: Option<InvocationOutcome>,
    /// Maximum number of results.
    #[serde(default = "crate::operation::default_page_size")]
    pub limit: u64,
    /// Number of results to skip.
    #[serde(default)]
    pub offset: u64,
}

/// The response of `tool/calls`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallList {
    pub calls: Vec<ToolCallInfo>,
    pub summary: PageSummary,
}

/// A recorded tool call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallInfo {
    pub id: ToolInvocationId,
    pub tool: String,
    pub outcome: InvocationOutcome,
    /// Reason why the gate refused the call.
    pub reason: Option<String>,
    pub error: Option<String>,
    pub session: Option<SessionId>,
    pub plan: Option<PlanId>,
    pub turn: Option<TurnId>,
    /// The call id that the model chose.
    pub call_id: Option<String>,
    pub started: Timestamp,
    pub finished: Option<Timestamp>,
    pub duration_s: Option<f64>,
}

impl From<&ToolInvocation> for ToolCallInfo {
    fn from(call: &ToolInvocation) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "durations are far below 2^53 microseconds"
        )]
        let seconds =
            |finished: Timestamp| (finished.as_micros() - call.started_at.as_micros()) as f64 / 1e6;
        Self {
            id: call.id,
            tool: call.tool.clone(),
            outcome: call.outcome,
            reason: call.reason.clone(),
            error: call.error.clone(),
            session: call.session,
            plan: call.plan,
            turn: call.turn,
            call_id: call.call_id.clone(),
            started: call.started_at,
            finished: call.finished_at,
            duration_s: call.finished_at.map(seconds),
        }
    }
}

impl Operation for ListToolCalls {
    const NAME: &'static str = "tool/calls";
    const SUMMARY: &'static str = "List recorded tool calls, newest first";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Sessions, Permission::Read);
    type Response = ToolCallList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.session {
            Some(session) => resolver.session(session),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<ToolCallList, OperationError> {
        let session = self.session.map(|session| {
            let id = session.parse::<SessionId>();
            id.map_err(|_| SessionError::NotFound(session))
        });
        // Parsing normalizes the spelling of a tool name. Keep other texts as they are: a model may have
        // called a tool whose name is invalid.
        let tool = self.tool.map(|text| {
            let pattern = text.parse::<ToolPattern>();
            pattern.map_or(text, |pattern| pattern.to_string())
        });
        let page = context.tools().calls(&InvocationFilter {
            visible: context.visible(Scope::Sessions),
            visible_plans: context.visible(Scope::Plans),
            visible_runs: context.visible(Scope::Registry),
            session: session.transpose()?,
            tool,
            outcome: self.outcome,
            offset: self.offset,
            limit: Some(self.limit),
        })?;
        let calls: Vec<ToolCallInfo> = page.invocations.iter().map(Into::into).collect();
        Ok(ToolCallList {
            summary: PageSummary {
                shown: calls.len() as u64,
                matching: page.matching,
            },
            calls,
        })
    }
}
