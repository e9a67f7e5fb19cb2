//! Tasks that are plans: a message that names an action creates a plan, which runs until it waits for input or
//! finishes. The sender of the message receives the questions of the plan.

use std::sync::Arc;

use cleveragents_a2a::{Artifact, Part};
use cleveragents_application::plan_operations::{
    ApplyPlan, ApprovePlan, CancelPlan, ExecutePlan, PromptPlan, RejectPlan, ShowPlanDiff, UsePlan,
};
use cleveragents_application::{ArtifactChunk, Operation, TaskRecord, plan_of_task};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, Diagnose as _, Plan, PlanId, PlanStage, TaskState, Waiting};
use serde_json::{Map, Value, json};

use super::error::RequestError;
use super::handlers::MethodCall;
use super::run::TaskRun;
use crate::app::App;
use crate::failure::Failure;
use crate::problem::Problem;

/// Maximum number of consecutive phases that one message runs.
const MAX_PHASES: usize = 8;

/// The request for the plan that a message describes.
fn use_request(options: &Map<String, Value>) -> UsePlan {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let texts = |value: Option<&Value>| match value {
        Some(Value::Array(items)) => items.iter().map(text).collect(),
        Some(Value::String(text)) => vec![text.clone()],
        _ => Vec::new(),
    };
    let arguments = match options.get("arguments") {
        Some(Value::Object(pairs)) => pairs
            .iter()
            .map(|(name, value)| format!("{name}={}", text(value)))
            .collect(),
        other => texts(other),
    };
    UsePlan {
        action: options.get("action").map(text).unwrap_or_default(),
        projects: texts(options.get("projects")),
        arguments,
        no_start: true,
        ..UsePlan::default()
    }
}

/// Checks that the caller may create the plan that a message describes.
pub(super) async fn authorize(
    call: &MethodCall,
    options: &Map<String, Value>,
) -> Result<(), RequestError> {
    if !options.get("action").is_some_and(Value::is_string) {
        return Err(RequestError::invalid_params(
            "`cleveragents.action` must be a text",
        ));
    }
    let request = use_request(options);
    let caller = Caller::clone(call.permit.caller());
    let context = call.app.application.for_caller(caller);
    let prepared = crate::blocking(move || context.prepare(request).map(drop)).await;
    prepared.map_err(|error| Problem::from_error(&error))?;
    Ok(())
}

/// Cancels the plan of a cancelled task in the background.
pub(super) fn cancel(app: &Arc<App>, caller: &Arc<Caller>, task: &TaskRecord) {
    let Some(plan) = plan_of_task(task) else {
        return;
    };
    let (app, caller, plan) = (Arc::clone(app), Arc::clone(caller), plan.to_owned());
    crate::spawn_task(async move {
        let context = app.application.for_caller(Caller::clone(&caller));
        let request = CancelPlan {
            reference: plan,
            reason: "its task was cancelled".to_owned(),
        };
        let cancelled = app.run(&caller, move |cancel| {
            let cancelled = context.cancelled_by(cancel).call(request);
            cancelled
                .map(drop)
                .map_err(|error| Problem::from_error(&error))
        });
        // Errors are ignored, because the plan may have finished already.
        let _cancelled = cancelled.await;
    });
}

/// Creates the plan, or answers the question of the existing plan, and runs the plan.
pub(super) fn run_plan(run: &TaskRun<'_>, task: &TaskRecord, text: &str) -> Result<(), Failure> {
    let id = if let Some(plan) = plan_of_task(task) {
        let id: PlanId = plan
            .parse()
            .map_err(|_| Failure::new(Code::Internal, "the task names no plan"))?;
        let plan = read(run, id)?;
        if plan.stage == PlanStage::ExecuteComplete && plan.waiting.is_none() {
            match Reply::read(text) {
                Reply::Yes => {
                    call(
                        run,
                        ApplyPlan {
                            reference: Some(id.to_string()),
                            yes: true,
                            ..ApplyPlan::default()
                        },
                    )?;
                }
                Reply::No(reason) => {
                    call(
                        run,
                        CancelPlan {
                            reference: id.to_string(),
                            reason,
                        },
                    )?;
                }
                Reply::Other => return ask_question(run, APPLY_QUESTION),
            }
        } else if let Some(waiting) = &plan.waiting
            && !answer(run, id, waiting, text)?
        {
            let question = format!("{}. Answer yes or no.", waiting.sentence());
            return ask_question(run, &question);
        }
        id
    } else {
        let options = task.metadata.as_object().cloned().unwrap_or_default();
        let id = call(run, use_request(&options))?.plan_id;
        run.tasks.assign_plan(task, run.app.tasks.runner(), id)?;
        id
    };
    drive(run, id)
}

/// Calls an operation for the sender of the message.
fn call<O: Operation>(run: &TaskRun<'_>, request: O) -> Result<O::Response, Failure> {
    let context = run.app.application.for_caller(Caller::clone(run.caller));
    let response = context.cancelled_by(run.cancel).call(request);
    response.map_err(|error| Failure::from_error(&error))
}

const APPLY_QUESTION: &str =
    "The plan was executed in its sandbox. Apply its changes to the real files? Answer yes or no.";

fn read(run: &TaskRun<'_>, id: PlanId) -> Result<Plan, Failure> {
    run.services.plans().get(id)?.ok_or_else(|| {
        Failure::new(
            Code::PlanNotFound,
            format!("the plan `{id}` does not exist"),
        )
    })
}

fn ask_question(run: &TaskRun<'_>, question: &str) -> Result<(), Failure> {
    run.change_state(TaskState::InputRequired, Some(question))?;
    Ok(())
}

/// An answer to a yes-or-no question.
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

/// Passes an answer to a plan. Returns `false` if the text does not answer the question.
fn answer(run: &TaskRun<'_>, id: PlanId, waiting: &Waiting, text: &str) -> Result<bool, Failure> {
    let approve = |answer| ApprovePlan {
        reference: Some(id.to_string()),
        answer,
    };
    match (waiting, Reply::read(text)) {
        (Waiting::Question { .. }, _) => {
            call(run, approve(Some(text.to_owned())))?;
        }
        (Waiting::Guidance { .. }, _) => {
            call(
                run,
                PromptPlan {
                    reference: id.to_string(),
                    guidance: text.to_owned(),
                },
            )?;
        }
        (_, Reply::Yes) => {
            call(run, approve(None))?;
        }
        (_, Reply::No(reason)) => {
            call(
                run,
                RejectPlan {
                    reference: Some(id.to_string()),
                    reason: Some(reason),
                },
            )?;
        }
        (_, Reply::Other) => return Ok(false),
    }
    Ok(true)
}

/// Runs a plan until it waits, finishes, or makes no progress.
fn drive(run: &TaskRun<'_>, id: PlanId) -> Result<(), Failure> {
    let mut result = None;
    for _ in 0..MAX_PHASES {
        let before = read(run, id)?;
        if before.stage.is_terminal()
            || before.waiting.is_some()
            || before.stage == PlanStage::ExecuteComplete
        {
            break;
        }
        let request = ExecutePlan {
            reference: Some(id.to_string()),
            ..ExecutePlan::default()
        };
        match call(run, request) {
            Ok(response) => result = Some(response),
            // The plan stores the question or approval that it waits for, which is sent below.
            Err(failure) if failure.code() == Code::PlanWaiting => break,
            Err(failure) => return Err(failure),
        }
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
        let diff = ShowPlanDiff {
            reference: Some(id.to_string()),
            stat: false,
            correction: false,
        };
        if let Ok(diff) = call(run, diff) {
            run.add_artifact(artifact("diff", json!(diff)), None)?;
        }
        if let Some(result) = result {
            run.add_artifact(artifact("result", json!(result)), None)?;
        }
    }
    match (plan.stage, &plan.waiting) {
        (PlanStage::ApplyApplied, _) => {
            run.change_state(TaskState::Completed, None)?;
        }
        (stage, _) if stage.is_terminal() => {
            run.change_state(TaskState::Canceled, Some("the plan was cancelled"))?;
        }
        (_, Some(waiting)) => return ask_question(run, &waiting.sentence()),
        (PlanStage::ExecuteComplete, None) => return ask_question(run, APPLY_QUESTION),
        (stage, None) => {
            let message = plan.error.as_ref().and_then(|error| error.get("message"));
            let message = message
                .and_then(Value::as_str)
                .map_or_else(|| format!("the plan stopped at {stage}"), str::to_owned);
            run.change_state(TaskState::Failed, Some(&message))?;
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
