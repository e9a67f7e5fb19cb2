//! `session/find-unfinished`: work of a folder that was interrupted, or whose changes are not applied.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::path::PathBuf;

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    LeaseSubject, Plan, PlanId, PlanPhase, PlanStage, Session, SessionId, Suggestion, Timestamp,
    suggest,
};
use cleveragents_store::turns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::requires;
use crate::lease::LeaseService;
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::operations::next_steps;
use crate::session::folder::sessions_of_folder;

/// Number of the last used conversations of the folder that are searched for changes.
const SEARCHED_SESSIONS: usize = 5;

/// Maximum number of unfinished conversations in the response.
const MAX_CONVERSATIONS: usize = 2;

/// Finds the unfinished plan and conversations of a folder. Only local callers may name folders.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindUnfinished {
    /// The absolute path of the folder of a project.
    pub folder: PathBuf,
}

/// The response of `session/find-unfinished`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UnfinishedWork {
    /// The newest unfinished plan of the folder, unless a process works on it.
    pub plan: Option<UnfinishedPlan>,
    /// Conversations with an interrupted turn or with changes that are not applied, last used first.
    pub conversations: Vec<UnfinishedConversation>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UnfinishedPlan {
    pub id: PlanId,
    pub task: String,
    /// Reason why the plan is unfinished, such as `stopped while executing`.
    pub reason: String,
    /// The operation that continues it.
    pub next: Suggestion,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UnfinishedConversation {
    pub session: SessionId,
    pub updated: Timestamp,
    /// Number of changed files that are not applied.
    pub files_changed: usize,
    /// Whether the process of its last turn died.
    pub is_interrupted: bool,
    /// Whether it is the conversation of the folder that was used last.
    pub is_last: bool,
}

impl Operation for FindUnfinished {
    const NAME: &'static str = "session/find-unfinished";
    const SUMMARY: &'static str = "Find unfinished work of a folder";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = UnfinishedWork;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("folder")
    }

    fn run(self, context: &OperationContext) -> Result<UnfinishedWork, OperationError> {
        let leases = LeaseService::new(context.engine());
        let is_running =
            |subject: LeaseSubject| leases.worker(&subject).map(|worker| worker.is_some());
        let plan = context.plans().newest_unfinished(&self.folder)?;
        let plan = match plan {
            Some(plan) if !is_running(LeaseSubject::new("plan", plan.id))? => {
                Some(UnfinishedPlan::new(&plan))
            }
            _ => None,
        };
        let sandboxes = context.sandboxes();
        let sessions = sessions_of_folder(&sandboxes, &context.sessions(), &self.folder)?;
        let mut conversations = Vec::new();
        for (index, session) in sessions.iter().take(SEARCHED_SESSIONS).enumerate() {
            if conversations.len() == MAX_CONVERSATIONS
                || is_running(LeaseSubject::new("session", session.id))?
            {
                continue;
            }
            let files_changed = sandboxes
                .pending_changes(session.id)?
                .map_or(0, |changes| changes.files.len());
            let is_interrupted = has_interrupted_turn(context, session)?;
            if files_changed > 0 || is_interrupted {
                conversations.push(UnfinishedConversation {
                    session: session.id,
                    updated: session.updated_at,
                    files_changed,
                    is_interrupted,
                    is_last: index == 0,
                });
            }
        }
        Ok(UnfinishedWork {
            plan,
            conversations,
        })
    }
}

fn has_interrupted_turn(
    context: &OperationContext,
    session: &Session,
) -> Result<bool, cleveragents_store::Error> {
    let running = context
        .engine()
        .read(|reader| turns::running(reader, session.id))?;
    Ok(running.is_some())
}

impl UnfinishedPlan {
    fn new(plan: &Plan) -> Self {
        let reason = reason(plan);
        let next = match plan.stage {
            _ if plan.waiting.is_some() => suggest::plan_status(plan.id),
            PlanStage::ExecuteComplete => suggest::plan_apply(plan.id),
            _ => next_steps(plan)
                .into_iter()
                .next()
                .unwrap_or_else(|| suggest::plan_status(plan.id)),
        };
        Self {
            id: plan.id,
            task: plan.description.clone(),
            reason,
            next,
        }
    }
}

/// The reason why a plan is unfinished.
fn reason(plan: &Plan) -> String {
    let activity = match plan.stage.phase() {
        PlanPhase::Strategize => "strategizing",
        PlanPhase::Execute => "executing",
        PlanPhase::Apply => "applying",
    };
    match plan.stage {
        _ if plan.waiting.is_some() => "waits for your answer".to_owned(),
        stage if stage.is_processing() => format!("stopped while {activity}"),
        stage if stage.is_errored() => format!("failed while {activity}"),
        PlanStage::ExecuteComplete => "executed, not applied".to_owned(),
        PlanStage::StrategizeComplete => "planned, not executed".to_owned(),
        PlanStage::ApplyConstrained => "not applied: a precondition is not met".to_owned(),
        stage => format!("stopped at {stage}"),
    }
}
