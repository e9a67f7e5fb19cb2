//! [`PlanPerson`]: whom a plan asks. What a person answered beforehand comes first, then what the automation
//! profile lets the plan decide itself, then whoever is there. What nobody answers is what the plan waits for.

use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::{ContentHash, PlanId, Waiting};
use cleveragents_store::{Engine, plan_steps};
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};
use serde_json::json;

use crate::unknown_outcome::is_doubt;

/// What an actor receives when nobody answers its question and its plan goes on.
const ACTOR_DECIDES: &str = "no user is available, and the automation profile of this plan leaves the \
    decision to you: decide it yourself, and state in your answer what you decided and why";

/// Who answers the questions of a plan's actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnsweredBy {
    /// The user; the plan waits when there is none.
    User,
    /// The user if one is there, otherwise the actor itself.
    UserOrActor,
    /// The actor itself: the profile automates every decision.
    Actor,
}

/// Whom a plan asks.
pub(super) struct PlanPerson<'a> {
    engine: Arc<Engine>,
    plan: PlanId,
    other: &'a dyn Approver,
    answered_by: AnsweredBy,
    /// What nobody answered: the last of it.
    open: Mutex<Option<Waiting>>,
}

impl<'a> PlanPerson<'a> {
    pub(super) fn new(
        engine: Arc<Engine>,
        plan: PlanId,
        other: &'a dyn Approver,
        answered_by: AnsweredBy,
    ) -> Self {
        Self {
            engine,
            plan,
            other,
            answered_by,
            open: Mutex::new(None),
        }
    }

    /// What nobody answered.
    pub(super) fn open(&self) -> Option<Waiting> {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn leave_open(&self, waiting: Waiting) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiting);
    }

    /// The answer that was given beforehand; each serves once.
    fn given(&self, subject: &str) -> Option<plan_steps::PlanAnswer> {
        let (plan, subject) = (self.plan, subject.to_owned());
        // What cannot be read now is asked again.
        self.engine
            .write(move |unit| plan_steps::take_answer(unit, plan, &subject))
            .unwrap_or(None::<plan_steps::PlanAnswer>)
    }
}

/// By what the answer to a call is found again.
fn call_subject(request: &ApprovalRequest<'_>) -> String {
    let what = json!([request.tool.to_string(), request.arguments]).to_string();
    format!("call/{}", ContentHash::of(what.as_bytes()))
}

fn question_subject(question: &Question<'_>) -> String {
    format!("question/{}", ContentHash::of(question.text.as_bytes()))
}

impl Approver for PlanPerson<'_> {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        let subject = call_subject(request);
        if let Some(given) = self.given(&subject) {
            return match given.verdict.as_str() {
                "approved" => Approval::Once,
                _ => Approval::Refused(given.answer),
            };
        }
        let said = self.other.approve(request);
        if said == Approval::NobodyThere {
            self.leave_open(Waiting::Call {
                tool: request.tool.to_string(),
                arguments: request.arguments.clone(),
                reason: request.reason.to_owned(),
                subject,
            });
        }
        said
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        if is_doubt(question) {
            let said = self.other.question(question);
            if said == Reply::NobodyThere {
                self.leave_open(Waiting::Doubt {
                    text: question.text.to_owned(),
                });
            }
            return said;
        }
        let subject = question_subject(question);
        if let Some(given) = self.given(&subject) {
            return given.answer.map_or(Reply::Declined, Reply::Text);
        }
        let said = match self.answered_by {
            AnsweredBy::Actor => Reply::NobodyThere,
            AnsweredBy::User | AnsweredBy::UserOrActor => self.other.question(question),
        };
        if said == Reply::NobodyThere && self.answered_by != AnsweredBy::User {
            return Reply::NotAsked(ACTOR_DECIDES.to_owned());
        }
        if said == Reply::NobodyThere {
            self.leave_open(Waiting::Question {
                text: question.text.to_owned(),
                options: question.options.to_vec(),
                subject,
            });
        }
        said
    }
}
