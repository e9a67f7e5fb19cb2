//! Demo step about models and tools: a scripted model calls tools, and a rule refuses one call.

use cleveragents_domain::{InvocationOutcome, Role, Sequence};
use cleveragents_store::invocations;
use serde_json::json;

use super::shop::PROJECT;
use super::{Demo, StepResult, text, violated};
use crate::output::CommandError;

const RULE: &str = "deny builtin/shell(curl *)";

const QUESTION: &str = "Why do the tests fail?";

/// Expected outcomes of the model's calls.
const EXPECTED: [InvocationOutcome; 2] = [InvocationOutcome::Succeeded, InvocationOutcome::Refused];

pub(super) fn acts_through_tools(demo: &Demo) -> Result<StepResult, CommandError> {
    let sessions = demo.sessions();
    let session = sessions.create(None, None, "supervised")?.id;
    let id = session.to_string();
    let before = demo.fingerprint()?;
    let command = ["session", "tell", "--session", &id, "--project", PROJECT];
    let turn = demo.agents(&[&command[..], &["--rule", RULE, QUESTION]].concat())?;
    let calls = demo
        .engine
        .read(|reader| invocations::of_session(reader, session))?;
    let outcomes: Vec<InvocationOutcome> = calls.iter().map(|call| call.outcome).collect();
    if outcomes != EXPECTED {
        return Err(violated(&format!("the calls ended as {outcomes:?}")));
    }
    let stored = sessions.messages(session, Sequence(0), u64::from(u32::MAX))?;
    let answer = stored.last().filter(|last| last.role == Role::Assistant);
    let answer = answer.map(|last| last.content.clone()).unwrap_or_default();
    if answer.is_empty() || answer != text(&turn["response"]) {
        return Err(violated("the stored answer is not the one that was shown"));
    }
    if demo.fingerprint()? != before {
        return Err(violated("a conversation changed your files"));
    }
    let reason = calls.last().and_then(|call| call.error.as_deref());
    let reason = reason.ok_or_else(|| violated("a refused call has no reason"))?;
    let call_texts: Vec<String> = calls
        .iter()
        .map(|call| format!("{} {}", call.tool, call.outcome.as_str()))
        .collect();
    Ok(StepResult {
        title: "A session: every tool call passes one gate",
        promise: "Rules decide what tools may do; every call and answer is stored; your files stay unchanged",
        seen: format!(
            "the model made {} calls: {}, because {reason}; they are stored with {} messages",
            calls.len(),
            call_texts.join(", "),
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
