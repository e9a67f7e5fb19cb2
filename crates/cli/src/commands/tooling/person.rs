//! The person at the terminal, asked about calls and by models.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use cleveragents_engine::ToolService;
use cleveragents_tools::Rule;
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};

use crate::output::visible_lines;

/// Asks on standard error and reads from standard input, one question at a time.
pub(crate) struct Terminal {
    tools: ToolService,
    is_there: bool,
    /// What was allowed for always in this turn.
    always: Mutex<Vec<String>>,
}

impl Terminal {
    pub(crate) fn new(tools: ToolService) -> Self {
        Self {
            tools,
            is_there: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            always: Mutex::default(),
        }
    }
}

/// Asks, and gives the answer without its line break; `None` when there is none.
fn ask(question: &str) -> Option<String> {
    let mut err = std::io::stderr().lock();
    let mut answer = String::new();
    let read = write!(err, "{}", visible_lines(question))
        .and_then(|()| err.flush())
        .and_then(|()| std::io::stdin().read_line(&mut answer));
    match read {
        Ok(count) if count > 0 => Some(answer.trim().to_owned()),
        _ => None,
    }
}

impl Approver for Terminal {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        if !self.is_there {
            return Approval::NobodyThere;
        }
        // Held while asking: questions of calls that run at the same time must not mix.
        let mut always = self.always.lock().unwrap_or_else(PoisonError::into_inner);
        let rules: Vec<String> = request.always.iter().map(Rule::to_string).collect();
        if !rules.is_empty() && rules.iter().all(|rule| always.contains(rule)) {
            return Approval::Once;
        }
        let arguments = serde_json::to_string_pretty(request.arguments).unwrap_or_default();
        let question = format!(
            "\n{} wants to run: {}\n{arguments}\nReason to ask: {}\n\
             [y] once, [a] always ({}), [n] no, or say why not: ",
            request.tool,
            request.description,
            request.reason,
            rules.join("; "),
        );
        let Some(answer) = ask(&question) else {
            return Approval::NobodyThere;
        };
        match answer.to_lowercase().as_str() {
            "y" | "yes" => Approval::Once,
            "a" | "always" => {
                for rule in request.always {
                    // A rule that cannot be remembered is asked about again next time.
                    let _kept = self.tools.remember(rule);
                }
                always.extend(rules);
                Approval::Always
            }
            "" | "n" | "no" => Approval::Refused(None),
            _ => Approval::Refused(Some(answer)),
        }
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        if !self.is_there {
            return Reply::NobodyThere;
        }
        let _one_at_a_time = self.always.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = format!("\n{}\n", question.text);
        for (number, option) in question.options.iter().enumerate() {
            let _never_fails = writeln!(text, "  [{}] {option}", number + 1);
        }
        text.push_str("> ");
        match ask(&text) {
            None => Reply::NobodyThere,
            Some(answer) if answer.is_empty() => Reply::Declined,
            Some(answer) => {
                let chosen = answer
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| question.options.get(number.checked_sub(1)?));
                Reply::Text(chosen.cloned().unwrap_or(answer))
            }
        }
    }
}
