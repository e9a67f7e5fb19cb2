//! [`PlanApprover`]: answers the actors of a plan: with answers that were given beforehand, then by
//! leaving the decision to the actor if the automation profile allows it, then by asking the user.
//! The plan waits for unanswered requests.

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

/// Who may answer the questions of a plan's actors?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnsweredBy {
    /// The user; the plan waits when there is none.
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
    /// The last request without an answer.
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

    /// The unanswered request, for the plan to wait for.
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

    /// Takes the answer that was given beforehand. Each answer is used once.
    fn take_answer(&self, subject: &str) -> Option<plan_steps::PlanAnswer> {
        let (plan, subject) = (self.plan, subject.to_owned());
        // When reading the answer fails, the user is asked again.
        self.store
            .write(move |unit| Ok(plan_steps::take_answer(unit, plan, &subject)?))
            .unwrap_or_default()
    }
}

/// The subject under which the answer to a tool call is stored.
fn call_subject(request: &ApprovalRequest<'_>) -> String {
    let what = json!([request.tool.to_string(), request.arguments]).to_string();
    format!("call/{}", ContentHash::of_bytes(what.as_bytes()))
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
        if let Some(given) = self.take_answer(&subject) {
            return match given.verdict {
                AnswerVerdict::Approved => Approval::Once,
                AnswerVerdict::Rejected | AnswerVerdict::Answered => {
                    Approval::Refused(given.answer)
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
        if let Some(given) = self.take_answer(&subject) {
            return given.answer.map_or(Reply::Declined, Reply::Text);
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
