//! Tool calls whose outcome is unknown, because the program ended before their result was stored:
//! the possible answers to the question about them, and an approver with a predefined answer.

use cleveragents_tools::ports::{
    Approval, ApprovalRequest, Approver, Question, QuestionKind, Reply,
};

use crate::run::UnknownOutcome;

/// The answer that retries a call.
pub(crate) const RETRY: &str = "retry it";
/// The answer that assumes a call done.
pub(crate) const ASSUME_DONE: &str = "assume it was done";
/// The answer that assumes a call not done.
pub(crate) const ASSUME_NOT_DONE: &str = "assume it was not done";

/// Asks another approver, unless the user chose an answer for calls with unknown outcome
/// beforehand.
pub(crate) struct UnknownOutcomeApprover<'a> {
    pub(crate) unknown_outcome: UnknownOutcome,
    pub(crate) other: &'a dyn Approver,
}

impl Approver for UnknownOutcomeApprover<'_> {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        self.other.approve(request)
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        match (question.kind, self.unknown_outcome) {
            (QuestionKind::UnknownOutcome, UnknownOutcome::Retry) => Reply::Text(RETRY.to_owned()),
            (QuestionKind::UnknownOutcome, UnknownOutcome::AssumeDone) => {
                Reply::Text(ASSUME_DONE.to_owned())
            }
            (QuestionKind::UnknownOutcome, UnknownOutcome::Ask)
            | (QuestionKind::Information, _) => self.other.question(question),
        }
    }
}
