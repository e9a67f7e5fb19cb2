//! The stop about models and tools: a scripted model reads, and is refused what a rule forbids.

use cleveragents_domain::{InvocationOutcome, Role, Sequence};
use cleveragents_store::invocations;
use serde_json::json;

use super::shop::PROJECT;
use super::{Stop, Tour, broken, text};
use crate::output::CommandError;

const RULE: &str = "deny builtin/shell(curl *)";

const QUESTION: &str = "Why do the tests fail?";

/// How its calls end.
const EXPECTED: [InvocationOutcome; 2] = [InvocationOutcome::Succeeded, InvocationOutcome::Refused];

pub(super) fn acts_through_tools(tour: &Tour) -> Result<Stop, CommandError> {
    let sessions = tour.sessions();
    let session = sessions.create(None, None, "supervised")?.id;
    let id = session.to_string();
    let before = tour.fingerprint()?;
    let tell = ["session", "tell", "--session", &id, "--project", PROJECT];
    let told = tour.agents(&[&tell[..], &["--rule", RULE, QUESTION]].concat())?;
    let calls = tour
        .engine
        .read(|reader| invocations::of_session(reader, session))?;
    let outcomes: Vec<InvocationOutcome> = calls.iter().map(|call| call.outcome).collect();
    if outcomes != EXPECTED {
        return Err(broken(&format!("the calls ended as {outcomes:?}")));
    }
    let stored = sessions.messages(session, Sequence(0), u64::from(u32::MAX))?;
    let answer = stored.last().filter(|last| last.role == Role::Assistant);
    let answer = answer.map(|last| last.content.clone()).unwrap_or_default();
    if answer.is_empty() || answer != text(&told["response"]) {
        return Err(broken("the stored answer is not the one that was shown"));
    }
    if tour.fingerprint()? != before {
        return Err(broken("a conversation changed your files"));
    }
    let why = calls.last().and_then(|call| call.error.as_deref());
    let why = why.ok_or_else(|| broken("a refused call does not say why"))?;
    let ended: Vec<String> = calls
        .iter()
        .map(|call| format!("{} {}", call.tool, call.outcome.as_str()))
        .collect();
    Ok(Stop {
        title: "A session: a model acts through one gate",
        promise: "Rules decide what a tool may do; every call and answer is stored; your files stay as they are",
        seen: format!(
            "the model made {} calls: {}, because {why}; they are stored with {} messages",
            calls.len(),
            ended.join(", "),
            stored.len(),
        ),
        facts: json!({
            "calls": calls.iter().map(|call| json!({
                "tool": call.tool, "outcome": call.outcome, "reason": call.error,
            })).collect::<Vec<_>>(),
            "messages": stored.len(),
            "answer": answer,
            "rule": RULE,
        }),
        shown: String::new(),
    })
}
