//! [`RememberingApprover`]: stores what the user allowed for always, and does not ask for it again.

use std::sync::{Mutex, PoisonError};

use cleveragents_tools::Rule;
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};

use crate::tool::ToolService;

/// Asks the user of a front end, and turns "always" into stored permission rules.
pub struct RememberingApprover<'a> {
    tools: ToolService,
    user: &'a dyn Approver,
    /// Rules that the user agreed to since the permission rules of this run were read.
    always: Mutex<Vec<String>>,
}

impl<'a> RememberingApprover<'a> {
    /// Asks `user`, and stores rules with `tools`.
    pub fn new(tools: ToolService, user: &'a dyn Approver) -> Self {
        Self {
            tools,
            user,
            always: Mutex::default(),
        }
    }

    /// A rule that cannot be stored is asked about again next time.
    fn remember<'r>(&self, always: &mut Vec<String>, rules: impl IntoIterator<Item = &'r Rule>) {
        for rule in rules {
            let _stored = self.tools.remember(rule);
            always.push(rule.to_string());
        }
    }
}

impl Approver for RememberingApprover<'_> {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        // Held while asking: questions of calls that run at the same time must not mix.
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
            Approval::Once | Approval::Refused(_) | Approval::NobodyThere => {}
        }
        approval
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        let _one_at_a_time = self.always.lock().unwrap_or_else(PoisonError::into_inner);
        self.user.question(question)
    }
}
