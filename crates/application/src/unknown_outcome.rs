//! Calls that were begun and of which nobody knows whether they were done: the question about them, and
//! those who answer it beforehand.

use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};

use crate::run::UnknownOutcome;

/// The answer that has a call made again; always the first option.
pub(crate) const AGAIN: &str = "make it again";
/// The answer that takes a call for done; always the second option.
pub(crate) const DONE: &str = "it was done, go on";
/// The answer that leaves a call alone.
pub(crate) const NOT_DONE: &str = "it was not done, leave it";

/// Whether a question is about such a call.
pub(crate) fn is_doubt(question: &Question<'_>) -> bool {
    question
        .options
        .first()
        .is_some_and(|option| option == AGAIN)
        && question.options.get(1).is_some_and(|option| option == DONE)
}

/// Asks another, except about calls in doubt, for which the answer is known.
pub(crate) struct Settled<'a> {
    pub(crate) unknown_outcome: UnknownOutcome,
    pub(crate) other: &'a dyn Approver,
}

impl Approver for Settled<'_> {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        self.other.approve(request)
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        match self.unknown_outcome {
            UnknownOutcome::Retry if is_doubt(question) => Reply::Text(AGAIN.to_owned()),
            UnknownOutcome::AssumeDone if is_doubt(question) => Reply::Text(DONE.to_owned()),
            _ => self.other.question(question),
        }
    }
}
