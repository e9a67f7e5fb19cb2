//! `session compact`: summarizes a conversation.

use std::sync::Arc;

use cleveragents_application::NoObserver;
use cleveragents_application::session_operations::{CompactSession, CompactedSession};

use crate::arguments::SessionCompact;
use crate::commands::{cost_cell, counted, interactive};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Progress, Report};

pub(super) fn run(context: &Context, arguments: SessionCompact) -> Result<Report, CommandError> {
    let request = CompactSession {
        session: arguments.session.reference,
        focus: arguments.focus,
        actor: arguments.actor,
        max_cost: arguments.max_cost,
    };
    let spinner = Progress::spinner(&context.printer, "Summarizing");
    let compacted = interactive::call(context, request, Arc::new(NoObserver));
    spinner.finish();
    Ok(compact_report("session compact", compacted?))
}

/// Report of a compaction, for `session compact` and `/compact`.
pub(crate) fn compact_report(command: &'static str, compacted: CompactedSession) -> Report {
    let report = Report::new(command);
    let Some(model) = compacted.model.clone() else {
        return report
            .data(compacted)
            .ok("Nothing to compact: no message follows the last summary");
    };
    let (cost, is_known) = compacted.cost.known();
    let text = format!(
        "Compacted {}, about {} tokens -> {} tokens; the session keeps all messages",
        counted(compacted.messages, "message"),
        grouped(compacted.tokens_before),
        grouped(compacted.tokens_after),
    );
    report
        .panel(
            Panel::new("Compaction")
                .row("Session", Cell::Id(compacted.session.to_string()))
                .row("Model", model)
                .row("Cost", cost_cell(cost, is_known)),
        )
        .data(compacted)
        .ok(text)
}

/// A number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn large_numbers_have_commas() {
        let all: Vec<String> = [0, 999, 1_000, 48_200, 1_234_567].map(grouped).into();
        assert_eq!(all, ["0", "999", "1,000", "48,200", "1,234,567"]);
    }
}
