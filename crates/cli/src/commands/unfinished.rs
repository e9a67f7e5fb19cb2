//! Announces unfinished work of a folder before new work starts there.

use std::path::Path;

use cleveragents_application::session_operations::{
    FindUnfinished, UnfinishedConversation, UnfinishedPlan, UnfinishedWork,
};
use cleveragents_domain::Timestamp;

use super::counted;
use super::turn_view::{short, time_to_minute};
use crate::context::Context;
use crate::output::{command, visible_lines, write_err};

/// Maximum number of characters of a task.
const MAX_TASK_CHARS: usize = 60;

/// Kinds of work to announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnnouncedWork {
    All,
    /// Only the plan, because a conversation of the folder continues.
    Plan,
}

/// Prints the unfinished work of a folder to standard error, at most three lines.
pub(crate) fn announce(context: &Context, folder: &Path, announced: AnnouncedWork) {
    if context.connection.is_some() || !context.printer.format().is_human() {
        return;
    }
    let request = FindUnfinished {
        folder: folder.to_owned(),
    };
    // New work does not depend on the announcement, so a failure is only logged.
    match context.call(request) {
        Ok(work) => {
            for line in lines(&work, announced) {
                write_err(&visible_lines(&format!("Unfinished here: {line}\n")));
            }
        }
        Err(error) => tracing::warn!(%error, "unfinished work of the folder not found"),
    }
}

fn lines(work: &UnfinishedWork, announced: AnnouncedWork) -> Vec<String> {
    let now = Timestamp::now();
    let mut lines: Vec<String> = work.plan.iter().map(plan_line).collect();
    if announced == AnnouncedWork::All {
        let conversations = work.conversations.iter();
        lines.extend(conversations.map(|conversation| conversation_line(conversation, now)));
    }
    lines
}

fn plan_line(plan: &UnfinishedPlan) -> String {
    format!(
        "plan {} \"{}\" ({}): `{}`",
        plan.id,
        short(&plan.task, MAX_TASK_CHARS),
        plan.reason,
        command(&plan.next)
    )
}

fn conversation_line(conversation: &UnfinishedConversation, now: Timestamp) -> String {
    let time = time_to_minute(conversation.updated, now);
    let state = match conversation.files_changed {
        0 => "was interrupted".to_owned(),
        count => format!("has {} not applied", counted(count, "changed file")),
    };
    let mut hint = if conversation.is_last {
        "`agents --continue`".to_owned()
    } else {
        format!("`agents --resume {}`", conversation.session)
    };
    if conversation.is_interrupted {
        hint.push_str(", /resume");
    }
    if conversation.files_changed > 0 {
        hint.push_str(", /diff, /apply");
    }
    format!("conversation of {time} {state}: {hint}")
}
