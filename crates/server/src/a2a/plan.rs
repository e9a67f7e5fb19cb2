//! Tasks that are plans: a message that names an action makes one, which is driven until it needs a person or is
//! over. What people are asked for is asked of who sent the message.

use std::sync::Arc;

use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, Plan, PlanId, PlanStage, TaskKind, TaskState, Waiting};
use cleveragents_store::tasks::Task;
use cleveragents_store::{plans, tasks};
use serde_json::{Map, Value, json};

use super::acts::Ask;
use super::fault::Fault;
use super::run::Work;
use super::send::NO_PLAN;
use super::tasks::Chunk;
use crate::api::operations::permitted;
use crate::app::App;
use crate::operations;
use crate::program::Failure;

/// How often a plan is driven on without anybody's word. Each time it does a phase.
const PHASES: usize = 8;

/// The parameters of `plan/use` for what a message asks for.
fn use_parameters(own: &Map<String, Value>) -> Value {
    let texts = |value: Option<&Value>| match value {
        Some(Value::Array(items)) => items.clone(),
        Some(text @ Value::String(_)) => vec![text.clone()],
        _ => Vec::new(),
    };
    let arguments: Vec<Value> = match own.get("arguments") {
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
        "action": own.get("action"), "projects": texts(own.get("projects")),
        "arguments": arguments, "no_start": true,
    })
}

/// Checks that the caller may make the plan that a message asks for.
pub(super) async fn check(ask: &Ask, own: &Map<String, Value>) -> Result<(), Fault> {
    if !own.get("action").is_some_and(Value::is_string) {
        return Err(Fault::params("`cleveragents.action` must be a text"));
    }
    let parameters = Arc::new(use_parameters(own));
    permitted(&ask.app, &ask.permit, "plan/use", &parameters).await?;
    Ok(())
}

/// Gives the plan of a task up that was cancelled, without waiting for it.
pub(super) fn cancelled(app: &Arc<App>, caller: &Arc<Caller>, task: &Task) {
    if task.kind != TaskKind::Plan || task.subject == NO_PLAN {
        return;
    }
    let (app, caller, plan) = (Arc::clone(app), Arc::clone(caller), task.subject.clone());
    crate::beside(async move {
        let (inner, by) = (Arc::clone(&app), Arc::clone(&caller));
        let given_up = app.run(&caller, move |cancel| {
            let reason = json!({"reference": plan, "reason": "its task was cancelled"});
            operations::call(&inner, &by, "plan/cancel", &reason, cancel).map_err(Into::into)
        });
        // The plan may be over, which is what was wanted.
        let _given_up = given_up.await;
    });
}

/// Works on a plan: makes it, or tells it what was answered, and drives it.
pub(super) fn work(work: &Work<'_>, task: &Task, text: &str) -> Result<(), Failure> {
    let call = |name: &str, parameters: Value| {
        operations::call(work.app, work.caller, name, &parameters, work.cancel)
    };
    let id = if task.subject == NO_PLAN {
        let own = task.metadata.as_object().cloned().unwrap_or_default();
        let made = call("plan/use", use_parameters(&own))?;
        let id: PlanId = made
            .get("plan_id")
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Failure::new(Code::Internal, "the plan that was made has no id"))?;
        let (task_id, runner) = (work.id, work.app.tasks.runner().to_owned());
        let metadata = task.metadata.clone();
        work.engine.write(move |unit| {
            tasks::remember(unit, task_id, &runner, &id.to_string(), &metadata)
        })?;
        id
    } else {
        let id: PlanId = task
            .subject
            .parse()
            .map_err(|_| Failure::new(Code::Internal, "the task names no plan"))?;
        let plan = read(work, id)?;
        if plan.stage == PlanStage::ExecuteComplete && plan.waiting.is_none() {
            match Word::read(text) {
                Word::Yes => {
                    call("plan/apply", json!({"reference": id, "yes": true}))?;
                }
                Word::No(reason) => {
                    call("plan/cancel", json!({"reference": id, "reason": reason}))?;
                }
                Word::Other => return ask(work, APPLY),
            }
        } else if let Some(waiting) = &plan.waiting
            && !answer(&call, id, waiting, text)?
        {
            let question = format!("{}. Answer yes or no.", waiting.sentence());
            return ask(work, &question);
        }
        id
    };
    drive(work, id, &call)
}

const APPLY: &str = "The plan was carried out in its sandbox. Apply what it did to the real files? Answer yes or no.";

fn read(work: &Work<'_>, id: PlanId) -> Result<Plan, Failure> {
    work.engine
        .read(|reader| plans::get(reader, id))?
        .ok_or_else(|| {
            Failure::new(
                Code::PlanNotFound,
                format!("the plan `{id}` does not exist"),
            )
        })
}

fn ask(work: &Work<'_>, question: &str) -> Result<(), Failure> {
    work.become_state(TaskState::InputRequired, Some(question))?;
    Ok(())
}

/// What somebody said.
enum Word {
    Yes,
    No(String),
    Other,
}

impl Word {
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

/// Tells a plan what was answered. `false` when the answer is none.
fn answer(call: &Calling<'_>, id: PlanId, waiting: &Waiting, text: &str) -> Result<bool, Failure> {
    match (waiting, Word::read(text)) {
        (Waiting::Question { .. }, _) => {
            call("plan/approve", json!({"reference": id, "answer": text}))?;
        }
        (Waiting::Guidance { .. }, _) => {
            call("plan/prompt", json!({"reference": id, "guidance": text}))?;
        }
        (_, Word::Yes) => {
            call("plan/approve", json!({"reference": id}))?;
        }
        (_, Word::No(reason)) => {
            call("plan/reject", json!({"reference": id, "reason": reason}))?;
        }
        (_, Word::Other) => return Ok(false),
    }
    Ok(true)
}

/// Drives a plan until it waits, is over, or comes no further.
fn drive(work: &Work<'_>, id: PlanId, call: &Calling<'_>) -> Result<(), Failure> {
    let mut result = Value::Null;
    for _ in 0..PHASES {
        let before = read(work, id)?;
        if before.stage.is_terminal()
            || before.waiting.is_some()
            || before.stage == PlanStage::ExecuteComplete
        {
            break;
        }
        result = work.app.program.drive(work.caller, id, work.cancel)?;
        if work.cancel.is_cancelled() {
            return Err(Failure::new(Code::PlanCancelled, "the plan was stopped"));
        }
        let after = read(work, id)?;
        if after.stage == before.stage || after.stage.is_errored() {
            break;
        }
    }
    let plan = read(work, id)?;
    if plan.stage.is_terminal() || plan.stage == PlanStage::ExecuteComplete {
        // A plan that changed nothing has no diff.
        if let Ok(diff) = call("plan/diff", json!({"reference": id})) {
            work.add(part("diff", &diff), None)?;
        }
        if !result.is_null() {
            work.add(part("result", &result), None)?;
        }
    }
    match (plan.stage, &plan.waiting) {
        (PlanStage::ApplyApplied, _) => {
            work.become_state(TaskState::Completed, None)?;
        }
        (stage, _) if stage.is_terminal() => {
            work.become_state(TaskState::Canceled, Some("the plan was given up"))?;
        }
        (_, Some(waiting)) => return ask(work, &waiting.sentence()),
        (PlanStage::ExecuteComplete, None) => return ask(work, APPLY),
        (stage, None) => {
            let told = plan.error.as_ref().and_then(|error| error.get("message"));
            let why = told
                .and_then(Value::as_str)
                .map_or_else(|| format!("the plan stopped at {stage}"), str::to_owned);
            work.become_state(TaskState::Failed, Some(&why))?;
        }
    }
    Ok(())
}

fn part(name: &str, data: &Value) -> Chunk {
    Chunk::whole(json!({"artifactId": name, "name": name, "parts": [{"data": data}]}))
}
