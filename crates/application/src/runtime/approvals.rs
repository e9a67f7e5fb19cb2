//! [`RememberingApprover`]: stores permission rules for calls that the user always allows, and does not
//! ask about these calls again.

use std::sync::{Mutex, PoisonError};

use cleveragents_tools::Rule;
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};

use crate::tool::ToolService;

/// Asks the user of a front end, and stores the answer "always" as permission rules.
pub struct RememberingApprover<'a> {
    tools: ToolService,
    user: &'a dyn Approver,
    /// Rules that the user allowed after this run read the stored permission rules.
    always: Mutex<Vec<String>>,
}

impl<'a> RememberingApprover<'a> {
    /// Creates an approver that asks `user` and stores rules with `tools`.
    pub fn new(tools: ToolService, user: &'a dyn Approver) -> Self {
        Self {
            tools,
            user,
            always: Mutex::default(),
        }
    }

    /// Allows rules for this run and stores them. When storing fails, the next run asks the user again.
    fn remember<'r>(&self, always: &mut Vec<String>, rules: impl IntoIterator<Item = &'r Rule>) {
        for rule in rules {
            let _stored = self.tools.remember(rule);
            always.push(rule.to_string());
        }
    }
}

impl Approver for RememberingApprover<'_> {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        // Hold the lock while asking, so that concurrent calls ask one question at a time.
        let mut always = self.always.lock().unwrap_or_else(PoisonError::into_inner);
        let is_allowed = |rule: &Rule| always.contains(&rule.to_string());
        if request.always_server.is_some_and(is_allowed)
            || (!request.always.is_empty() && request.always.iter().all(is_allowed))
        {
            return Approval::Once;
        }
        let approval = self.user.approve(request);
        match approval {
            Approval::Always => self.remember(&mut always, request.always),
            Approval::AlwaysServer => self.remember(&mut always, request.always_server),
            Approval::Once | Approval::Refused(_) | Approval::NoUser => {}
        }
        approval
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        let _one_at_a_time = self.always.lock().unwrap_or_else(PoisonError::into_inner);
        self.user.question(question)
    }
}
