//! [`PlanApprover`]: answers the approval requests and questions of a plan's actors.
//!
//! It uses an answer that the user stored earlier, else asks the user. If no user is present, or if the automation
//! profile automates every decision, the actor decides questions itself where the profile allows it. The plan waits for
//! requests that stay unanswered.

use std::sync::{Mutex, PoisonError};

use cleveragents_domain::{AnswerVerdict, ContentHash, PlanId, Waiting};
use cleveragents_store::plan_steps;
use cleveragents_tools::ports::{
    Approval, ApprovalRequest, Approver, Question, QuestionKind, Reply,
};
use serde_json::json;

use super::plan_store::PlanStore;

/// The answer that an actor receives when its question stays unanswered and its plan continues.
const ACTOR_DECIDES: &str = "no user is available, and the automation profile of this plan leaves the \
    decision to you: decide it yourself, and state in your answer what you decided and why";

/// Source of the answers to the questions of a plan's actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnsweredBy {
    /// The user; without a user, the plan waits.
    User,
    /// The user if one is present, otherwise the actor itself.
    UserOrActor,
    /// The actor itself: the profile automates every decision.
    Actor,
}

/// The approver of a plan's actors.
pub(super) struct PlanApprover<'a> {
    store: PlanStore,
    plan: PlanId,
    front_end: &'a dyn Approver,
    answered_by: AnsweredBy,
    /// The last unanswered request.
    unanswered: Mutex<Option<Waiting>>,
}

impl<'a> PlanApprover<'a> {
    pub(super) fn new(
        store: PlanStore,
        plan: PlanId,
        front_end: &'a dyn Approver,
        answered_by: AnsweredBy,
    ) -> Self {
        Self {
            store,
            plan,
            front_end,
            answered_by,
            unanswered: Mutex::new(None),
        }
    }

    /// The unanswered request that the plan has to wait for.
    pub(super) fn unanswered(&self) -> Option<Waiting> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn leave_unanswered(&self, waiting: Waiting) {
        *self
            .unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(waiting);
    }

    /// Consumes an answer that the user stored earlier. Each answer is used once.
    fn take_answer(&self, subject: &str) -> Option<plan_steps::PlanAnswer> {
        let (plan, subject) = (self.plan, subject.to_owned());
        // If reading the answer fails, the user is asked again.
        self.store
            .write(move |unit| Ok(plan_steps::take_answer(unit, plan, &subject)?))
            .unwrap_or_default()
    }
}

/// The subject under which the answer to a tool call is stored.
fn call_subject(request: &ApprovalRequest<'_>) -> String {
    let call = json!([request.tool.to_string(), request.arguments]).to_string();
    format!("call/{}", ContentHash::of_bytes(call.as_bytes()))
}

/// The subject under which the answer to a question is stored.
fn question_subject(question: &Question<'_>) -> String {
    format!(
        "question/{}",
        ContentHash::of_bytes(question.text.as_bytes())
    )
}

impl Approver for PlanApprover<'_> {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        let subject = call_subject(request);
        if let Some(stored) = self.take_answer(&subject) {
            return match stored.verdict {
                AnswerVerdict::Approved => Approval::Once,
                AnswerVerdict::Rejected | AnswerVerdict::Answered => {
                    Approval::Refused(stored.answer)
                }
            };
        }
        let approval = self.front_end.approve(request);
        if approval == Approval::NoUser {
            self.leave_unanswered(Waiting::Call {
                tool: request.tool.to_string(),
                arguments: request.arguments.clone(),
                reason: request.reason.to_owned(),
                subject,
            });
        }
        approval
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        if question.kind == QuestionKind::UnknownOutcome {
            let reply = self.front_end.question(question);
            if reply == Reply::NoUser {
                self.leave_unanswered(Waiting::UnknownOutcome {
                    text: question.text.to_owned(),
                });
            }
            return reply;
        }
        let subject = question_subject(question);
        if let Some(stored) = self.take_answer(&subject) {
            return stored.answer.map_or(Reply::Declined, Reply::Text);
        }
        let reply = match self.answered_by {
            AnsweredBy::Actor => Reply::NoUser,
            AnsweredBy::User | AnsweredBy::UserOrActor => self.front_end.question(question),
        };
        if reply == Reply::NoUser && self.answered_by != AnsweredBy::User {
            return Reply::NotAsked(ACTOR_DECIDES.to_owned());
        }
        if reply == Reply::NoUser {
            self.leave_unanswered(Waiting::Question {
                text: question.text.to_owned(),
                options: question.options.to_vec(),
                subject,
            });
        }
        reply
    }
}
