//! Tasks that are plans: a message that names an action creates a plan, which is driven until it waits for input or is
//! over. What it waits for is asked of the sender of the message.

use std::sync::Arc;

use cleveragents_a2a::{Artifact, Part};
use cleveragents_application::{ArtifactChunk, TaskRecord, plan_of_task};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, Plan, PlanId, PlanStage, TaskState, Waiting};
use serde_json::{Map, Value, json};

use super::error::RequestError;
use super::handlers::MethodCall;
use super::run::TaskRun;
use crate::api::operations::permitted;
use crate::app::App;
use crate::operations;
use crate::program::Failure;

/// Maximum number of phases that are run one after the other.
const MAX_PHASES: usize = 8;

/// The parameters of `plan/use` for what a message asks for.
fn use_parameters(options: &Map<String, Value>) -> Value {
    let texts = |value: Option<&Value>| match value {
        Some(Value::Array(items)) => items.clone(),
        Some(text @ Value::String(_)) => vec![text.clone()],
        _ => Vec::new(),
    };
    let arguments: Vec<Value> = match options.get("arguments") {
        Some(Value::Object(pairs)) => pairs
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) => format!("{name}={text}").into(),
                other => format!("{name}={other}").into(),
            })
            .collect(),
        other => texts(other),
    };
    json!({
        "action": options.get("action"), "projects": texts(options.get("projects")),
        "arguments": arguments, "no_start": true,
    })
}

/// Checks that the caller may create the plan that a message asks for.
pub(super) async fn authorize(
    call: &MethodCall,
    options: &Map<String, Value>,
) -> Result<(), RequestError> {
    if !options.get("action").is_some_and(Value::is_string) {
        return Err(RequestError::invalid_params(
            "`cleveragents.action` must be a text",
        ));
    }
    let parameters = Arc::new(use_parameters(options));
    permitted(&call.app, &call.permit, "plan/use", &parameters).await?;
    Ok(())
}

/// Cancels the plan of a task that was cancelled, without waiting for it.
pub(super) fn cancel(app: &Arc<App>, caller: &Arc<Caller>, task: &TaskRecord) {
    let Some(plan) = plan_of_task(task) else {
        return;
    };
    let (app, caller, plan) = (Arc::clone(app), Arc::clone(caller), plan.to_owned());
    crate::beside(async move {
        let (inner, by) = (Arc::clone(&app), Arc::clone(&caller));
        let cancelled = app.run(&caller, move |cancel| {
            let reason = json!({"reference": plan, "reason": "its task was cancelled"});
            operations::call(&inner, &by, "plan/cancel", &reason, cancel).map_err(Into::into)
        });
        // The plan may be over, which is what was wanted.
        let _cancelled = cancelled.await;
    });
}

/// Works on a plan: creates it, or gives it the answer that it waits for, and drives it.
pub(super) fn work(run: &TaskRun<'_>, task: &TaskRecord, text: &str) -> Result<(), Failure> {
    let call = |name: &str, parameters: Value| {
        operations::call(run.app, run.caller, name, &parameters, run.cancel)
    };
    let id = if let Some(plan) = plan_of_task(task) {
        let id: PlanId = plan
            .parse()
            .map_err(|_| Failure::new(Code::Internal, "the task names no plan"))?;
        let plan = read(run, id)?;
        if plan.stage == PlanStage::ExecuteComplete && plan.waiting.is_none() {
            match Reply::read(text) {
                Reply::Yes => {
                    call("plan/apply", json!({"reference": id, "yes": true}))?;
                }
                Reply::No(reason) => {
                    call("plan/cancel", json!({"reference": id, "reason": reason}))?;
                }
                Reply::Other => return ask(run, APPLY),
            }
        } else if let Some(waiting) = &plan.waiting
            && !answer(&call, id, waiting, text)?
        {
            let question = format!("{}. Answer yes or no.", waiting.sentence());
            return ask(run, &question);
        }
        id
    } else {
        let options = task.metadata.as_object().cloned().unwrap_or_default();
        let created = call("plan/use", use_parameters(&options))?;
        let id: PlanId = created
            .get("plan_id")
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Failure::new(Code::Internal, "the plan that was made has no id"))?;
        run.tasks.assign_plan(task, run.app.tasks.runner(), id)?;
        id
    };
    drive(run, id, &call)
}

const APPLY: &str = "The plan was carried out in its sandbox. Apply what it did to the real files? Answer yes or no.";

fn read(run: &TaskRun<'_>, id: PlanId) -> Result<Plan, Failure> {
    run.services.plans().get(id)?.ok_or_else(|| {
        Failure::new(
            Code::PlanNotFound,
            format!("the plan `{id}` does not exist"),
        )
    })
}

fn ask(run: &TaskRun<'_>, question: &str) -> Result<(), Failure> {
    run.change_state(TaskState::InputRequired, Some(question))?;
    Ok(())
}

/// A reply to a question that is answered with yes or no.
enum Reply {
    Yes,
    No(String),
    Other,
}

impl Reply {
    fn read(text: &str) -> Self {
        let text = text.trim();
        let first = text
            .split(|letter: char| !letter.is_alphanumeric())
            .next()
            .unwrap_or_default()
            .to_lowercase();
        match first.as_str() {
            "yes" | "y" | "ok" | "approve" | "approved" | "apply" | "true" => Self::Yes,
            "no" | "n" | "reject" | "rejected" | "false" => Self::No(text.to_owned()),
            _ => Self::Other,
        }
    }
}

type Calling<'a> = dyn Fn(&str, Value) -> Result<Value, Failure> + 'a;

/// Gives a plan an answer. `false` when the text answers nothing.
fn answer(call: &Calling<'_>, id: PlanId, waiting: &Waiting, text: &str) -> Result<bool, Failure> {
    match (waiting, Reply::read(text)) {
        (Waiting::Question { .. }, _) => {
            call("plan/approve", json!({"reference": id, "answer": text}))?;
        }
        (Waiting::Guidance { .. }, _) => {
            call("plan/prompt", json!({"reference": id, "guidance": text}))?;
        }
        (_, Reply::Yes) => {
            call("plan/approve", json!({"reference": id}))?;
        }
        (_, Reply::No(reason)) => {
            call("plan/reject", json!({"reference": id, "reason": reason}))?;
        }
        (_, Reply::Other) => return Ok(false),
    }
    Ok(true)
}

/// Drives a plan until it waits, is over, or makes no progress.
fn drive(run: &TaskRun<'_>, id: PlanId, call: &Calling<'_>) -> Result<(), Failure> {
    let mut result = Value::Null;
    for _ in 0..MAX_PHASES {
        let before = read(run, id)?;
        if before.stage.is_terminal()
            || before.waiting.is_some()
            || before.stage == PlanStage::ExecuteComplete
        {
            break;
        }
        result = run.app.program.drive(run.caller, id, run.cancel)?;
        if run.cancel.is_cancelled() {
            return Err(Failure::new(Code::PlanCancelled, "the plan was stopped"));
        }
        let after = read(run, id)?;
        if after.stage == before.stage || after.stage.is_errored() {
            break;
        }
    }
    let plan = read(run, id)?;
    if plan.stage.is_terminal() || plan.stage == PlanStage::ExecuteComplete {
        // A plan that changed nothing has no diff.
        if let Ok(diff) = call("plan/diff", json!({"reference": id})) {
            run.add_artifact(artifact("diff", diff), None)?;
        }
        if !result.is_null() {
            run.add_artifact(artifact("result", result), None)?;
        }
    }
    match (plan.stage, &plan.waiting) {
        (PlanStage::ApplyApplied, _) => {
            run.change_state(TaskState::Completed, None)?;
        }
        (stage, _) if stage.is_terminal() => {
            run.change_state(TaskState::Canceled, Some("the plan was given up"))?;
        }
        (_, Some(waiting)) => return ask(run, &waiting.sentence()),
        (PlanStage::ExecuteComplete, None) => return ask(run, APPLY),
        (stage, None) => {
            let reported = plan.error.as_ref().and_then(|error| error.get("message"));
            let why = reported
                .and_then(Value::as_str)
                .map_or_else(|| format!("the plan stopped at {stage}"), str::to_owned);
            run.change_state(TaskState::Failed, Some(&why))?;
        }
    }
    Ok(())
}

fn artifact(name: &str, data: Value) -> ArtifactChunk {
    ArtifactChunk::whole(Artifact {
        artifact_id: name.to_owned(),
        name: Some(name.to_owned()),
        parts: vec![Part::data(data)],
    })
}
