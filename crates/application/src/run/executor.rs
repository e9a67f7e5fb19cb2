//! [`RunExecutor`]: executes the nodes of a run, with the same turns and the same gate as sessions.

use std::collections::HashMap;
use std::sync::Arc;

use cleveragents_actors::ports::{
    AgentCall, Answer, Executor, Failure, FailureKind, StepUsage, ToolStep,
};
use cleveragents_domain::{RunId, SessionId, ToolInvocation};
use cleveragents_store::Engine;
use cleveragents_tools::builtin::SUBPLAN_TOOL;
use cleveragents_tools::{Gate, ToolName, ToolPattern};

use super::context::RunContext;
use crate::lease::FencingToken;
use crate::session::SessionService;
use crate::turn::TurnService;

/// Executes the nodes of one run.
pub(super) struct RunExecutor<'a> {
    pub(super) engine: Arc<Engine>,
    pub(super) sessions: &'a SessionService,
    pub(super) turns: &'a TurnService,
    pub(super) run_context: &'a RunContext<'a>,
    pub(super) run: RunId,
    /// The lease of the run.
    pub(super) fence: FencingToken,
    /// The conversation to which calls of tool nodes belong.
    pub(super) session: SessionId,
    /// The last call of each tool step in earlier attempts of the run, by call id.
    pub(super) earlier: HashMap<String, ToolInvocation>,
}

impl Executor for RunExecutor<'_> {
    fn agent(&self, call: &AgentCall<'_>) -> Result<Answer, Failure> {
        self.ask(call)
    }

    fn tool(&self, step: &ToolStep<'_>) -> Result<Answer, Failure> {
        self.call(step)
    }
}

impl RunExecutor<'_> {
    /// A gate for the tools that match the patterns, the tools of the skills and servers, and the extra tools of the
    /// run.
    pub(super) fn gate(
        &self,
        tools: &[String],
        skills: &[String],
        servers: &[String],
    ) -> Result<Gate, Failure> {
        let mut patterns: Vec<ToolPattern> = Vec::new();
        for tool in tools {
            let pattern = tool
                .parse()
                .map_err(|error| refused(format!("`{tool}` is not the name of a tool: {error}")))?;
            patterns.push(pattern);
        }
        let mut names: Vec<ToolName> = self.run_context.extra_tools.to_vec();
        for skill in skills {
            names.extend(self.run_context.sources.skill(skill).map_err(refused)?);
        }
        for server in servers {
            names.extend(self.run_context.sources.server(server).map_err(refused)?);
        }
        // Only actors that name the tool may divide their task.
        let is_selected = |pattern: &ToolPattern, name: &ToolName| {
            pattern.matches(name) && (pattern.is_exact() || name.to_string() != SUBPLAN_TOOL)
        };
        let registry = self.run_context.registry.narrowed(|spec| {
            let mut patterns = patterns.iter();
            names.contains(&spec.name) || patterns.any(|pattern| is_selected(pattern, &spec.name))
        });
        Ok(Gate::new(Arc::new(registry)))
    }
}

/// A failure without usage.
pub(super) fn failure(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure {
        kind,
        message: message.into(),
        usage: StepUsage::default(),
    }
}

/// A failure that a retry would repeat.
pub(super) fn refused(message: impl Into<String>) -> Failure {
    failure(FailureKind::Refused, message)
}

/// A failure of the store or the operating system.
pub(super) fn broken(error: impl std::fmt::Display) -> Failure {
    failure(FailureKind::Broken, error.to_string())
}
