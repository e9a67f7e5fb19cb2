//! Plans. The stage of a plan only changes through a statement that names the stage it was read in, so of two
//! concurrent transitions the second one fails.

use cleveragents_domain::identity::LOCAL_NAMESPACE;
use cleveragents_domain::{
    AutomationProfile, EventKind, MicroUsd, NewEvent, Plan, PlanActors, PlanId, PlanInputs,
    PlanProfile, PlanStage, StageTransition, TokenUsage, Tokens, Version, Waiting,
};
use serde_json::{Map, Value, json};

pub use super::plan_queries::{
    ListedPlan, PlanFilter, PlanSources, active, active_of_actor, active_of_project,
    count_by_action, list, page, record_of_action, record_of_project, sources,
};
use super::{runs, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "plan_id, name, action, parent_plan_id, root_plan_id, stage, attempt, description, \
         definition_of_done, made_with, strategy, estimate, waiting, error, sandbox, decision_root_id, \
         reversion_count, report, is_cancelled, queued_for, input_tokens, output_tokens, cost_micro_usd, \
         model_calls, tool_calls, is_cost_partial, version, created_at, updated_at, started_at, completed_at"
    };
}

/// The columns that [`read`] reads.
pub(super) const COLUMNS: &str = columns!();

fn json_of<T: serde::de::DeserializeOwned>(
    row: &mut Row,
    what: &'static str,
) -> Result<Option<T>, Error> {
    row.take::<Option<String>>()?
        .map(|text| stored_json(what, &text))
        .transpose()
}

pub(super) fn read(mut row: Row) -> Result<Plan, Error> {
    let id: PlanId = row.take()?;
    Ok(Plan {
        id,
        name: row.take()?,
        action: row.take()?,
        parent: row.take()?,
        root: row.take::<Option<PlanId>>()?.unwrap_or(id),
        stage: {
            let stage: String = row.take()?;
            PlanStage::from_stored(&stage)
                .ok_or_else(|| Error::stored("the stage of a plan", format!("is `{stage}`")))?
        },
        attempt: row.take()?,
        description: row.take()?,
        definition_of_done: row.take()?,
        inputs: {
            let text: String = row.take()?;
            if text == "{}" {
                no_inputs()
            } else {
                stored_json("the inputs of a plan", &text)?
            }
        },
        strategy: json_of(&mut row, "the strategy of a plan")?,
        estimate: json_of(&mut row, "the estimate of a plan")?,
        waiting: json_of(&mut row, "the user input that a plan waits for")?,
        error: json_of(&mut row, "the error of a plan")?,
        sandbox: row.take()?,
        decision_root: row.take()?,
        reversions: row.take()?,
        report: json_of(&mut row, "the report of a plan")?,
        is_cancelled: row.take()?,
        queued_for: json_of(&mut row, "the queue options of a plan")?,
        usage: TokenUsage {
            input_tokens: Tokens(row.take()?),
            output_tokens: Tokens(row.take()?),
            cost_micro_usd: MicroUsd(row.take()?),
        },
        model_calls: row.take()?,
        tool_calls: row.take()?,
        is_cost_partial: row.take()?,
        version: Version(row.take()?),
        created_at: row.take()?,
        updated_at: row.take()?,
        started_at: row.take()?,
        completed_at: row.take()?,
    })
}

/// Empty inputs, for a plan that only owns changesets.
fn no_inputs() -> PlanInputs {
    PlanInputs {
        action: None,
        arguments: Map::new(),
        arguments_order: Vec::new(),
        projects: Vec::new(),
        actors: PlanActors::default(),
        profile: PlanProfile {
            name: String::new(),
            source: String::new(),
            snapshot: AutomationProfile::standard(),
        },
        read_only: false,
        max_cost_micro_usd: None,
        report: None,
    }
}

/// A plan to store.
#[derive(Debug, Clone)]
pub struct NewPlan {
    pub id: PlanId,
    /// Name chosen by the user.
    pub name: Option<String>,
    /// Action it is created from.
    pub action: String,
    /// Parent plan and root plan, when it is a child plan.
    pub above: Option<(PlanId, PlanId)>,
    /// Task description.
    pub description: String,
    /// Criteria that must be met.
    pub definition_of_done: String,
    /// Inputs: arguments, actors, projects and limits.
    pub inputs: PlanInputs,
}

impl NewPlan {
    /// A plan without a task, for callers that need an owner of changesets.
    pub fn empty(id: PlanId) -> Self {
        Self {
            id,
            name: None,
            action: String::new(),
            above: None,
            description: String::new(),
            definition_of_done: String::new(),
            inputs: no_inputs(),
        }
    }

    /// Namespace of the first project, or of the action.
    fn namespace(&self) -> &str {
        namespace_of(&self.action, &self.inputs)
    }
}

/// Namespace of a plan: that of its first project, or of its action.
pub fn plan_namespace(plan: &Plan) -> &str {
    namespace_of(&plan.action, &plan.inputs)
}

fn namespace_of<'a>(action: &'a str, inputs: &'a PlanInputs) -> &'a str {
    let first = inputs.projects.first();
    let name = first.map_or(action, |project| project.name.as_str());
    match name.split_once('/') {
        Some((namespace, _)) if !namespace.is_empty() => namespace,
        _ => LOCAL_NAMESPACE,
    }
}

/// Stores a new plan in the strategize phase.
pub fn insert(unit: &mut UnitOfWork<'_>, new: &NewPlan) -> Result<(), Error> {
    let now = unit.now();
    let (parent, root) = new.above.unzip();
    unit.execute(
        "INSERT INTO plans (plan_id, phase, state, stage, name, action, parent_plan_id, root_plan_id, description, \
         definition_of_done, made_with, created_at, updated_at, namespace) \
         VALUES (?1, 'strategize', 'queued', 'strategize/queued', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)",
        params![
            new.id,
            new.name.as_deref(),
            &new.action,
            parent,
            root.unwrap_or(new.id),
            &new.description,
            &new.definition_of_done,
            text(&new.inputs)?,
            now,
            new.namespace()
        ],
    )?;
    for (number, project) in (0_u64..).zip(&new.inputs.projects) {
        unit.execute(
            "INSERT INTO plan_projects (plan_id, number, project) VALUES (?1, ?2, ?3)",
            params![new.id, number, &project.name],
        )?;
    }
    emit(
        unit,
        EventKind::PlanCreated,
        new.id,
        json!({"action": new.action, "name": new.name, "namespace": new.namespace()}),
    );
    Ok(())
}

/// Namespace of a plan; `None` when the plan does not exist.
pub fn namespace(reader: &mut dyn Reader, id: PlanId) -> Result<Option<String>, Error> {
    let row = reader.query_first(
        "SELECT namespace FROM plans WHERE plan_id = ?1",
        params![id],
    )?;
    row.map(|mut row| row.take()).transpose()
}

fn text(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::stored("a part of a plan", format!("cannot be written: {error}")))
}

fn emit(unit: &mut UnitOfWork<'_>, kind: EventKind, id: PlanId, payload: Value) {
    unit.emit(NewEvent {
        kind,
        subject: id.to_string(),
        payload,
    });
}

/// Returns the plan with this id.
pub fn get(reader: &mut dyn Reader, id: PlanId) -> Result<Option<Plan>, Error> {
    reader
        .query_first(
            concat!("SELECT ", columns!(), " FROM plans WHERE plan_id = ?1"),
            params![id],
        )?
        .map(read)
        .transpose()
}

/// Returns the plan with this id and locks it until the unit ends.
pub fn locked(unit: &mut UnitOfWork<'_>, id: PlanId) -> Result<Option<Plan>, Error> {
    let sql = format!(
        concat!("SELECT ", columns!(), " FROM plans WHERE plan_id = ?1{}"),
        unit.dialect().for_update()
    );
    unit.query_first(&sql, params![id])?.map(read).transpose()
}

/// Plans whose id starts with `prefix`, at most `limit`.
pub fn with_prefix(reader: &mut dyn Reader, prefix: &str, limit: u64) -> Result<Vec<Plan>, Error> {
    // Ids contain no character after `Z`.
    let end = format!("{prefix}~");
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM plans WHERE plan_id >= ?1 AND plan_id < ?2 ORDER BY plan_id LIMIT ?3"
            ),
            params![prefix, end, limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Plans with this name, at most `limit`.
pub fn named(reader: &mut dyn Reader, name: &str, limit: u64) -> Result<Vec<Plan>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM plans WHERE name = ?1 ORDER BY plan_id LIMIT ?2"
            ),
            params![name, limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Further changes that accompany a stage transition.
#[derive(Debug, Clone, Default)]
pub struct TransitionDetails {
    /// Fields that are merged into the stored error.
    pub error: Option<Map<String, Value>>,
    /// Whether the stored error is cleared first.
    pub clears_error: bool,
    /// Report of the apply.
    pub report: Option<Value>,
    /// Reason recorded in the event log.
    pub reason: Option<String>,
    /// Whether the attempt number increases.
    pub starts_attempt: bool,
    /// Whether the reversion count increases.
    pub is_reversion: bool,
}

/// Changes the stage of a plan and clears the user input that it waits for. Returns the changed plan; `None` when the
/// transition is not allowed from its current stage.
pub fn advance(
    unit: &mut UnitOfWork<'_>,
    id: PlanId,
    transition: StageTransition,
    details: &TransitionDetails,
) -> Result<Option<Plan>, Error> {
    let Some(plan) = locked(unit, id)? else {
        return Ok(None);
    };
    let Some(to) = transition.target(plan.stage) else {
        return Ok(None);
    };
    set_stage(unit, &plan, to, details)?;
    get(unit, id)
}

/// Restores the stage that a plan had before a rollback, for redo.
pub fn restore_stage(
    unit: &mut UnitOfWork<'_>,
    id: PlanId,
    to: PlanStage,
) -> Result<Option<Plan>, Error> {
    let Some(plan) = locked(unit, id)? else {
        return Ok(None);
    };
    if plan.stage.is_terminal() || to.is_terminal() {
        return Ok(None);
    }
    set_stage(unit, &plan, to, &TransitionDetails::default())?;
    get(unit, id)
}

fn set_stage(
    unit: &mut UnitOfWork<'_>,
    plan: &Plan,
    to: PlanStage,
    details: &TransitionDetails,
) -> Result<(), Error> {
    let now = unit.now();
    let mut error = plan.error.clone().filter(|_| !details.clears_error);
    if let Some(more) = &details.error {
        error.get_or_insert_with(Map::new).extend(more.clone());
    }
    let error = error.as_ref().map(text).transpose()?;
    let report = details.report.as_ref().or(plan.report.as_ref());
    let report = report.map(text).transpose()?;
    let completed = to.is_terminal().then_some(now);
    let touched = unit.execute(
        "UPDATE plans SET phase = ?3, state = ?4, stage = ?5, waiting = NULL, error = ?6, report = ?7, \
         attempt = attempt + ?8, reversion_count = reversion_count + ?9, started_at = coalesce(started_at, ?10), \
         completed_at = coalesce(?11, completed_at), \
         queued_for = CASE WHEN ?11 IS NULL THEN queued_for ELSE NULL END, \
         version = version + 1, updated_at = ?12 \
         WHERE plan_id = ?1 AND stage = ?2",
        params![
            plan.id,
            plan.stage.to_string(),
            to.phase().as_str(),
            to.state(),
            to.to_string(),
            error,
            report,
            u64::from(details.starts_attempt),
            u64::from(details.is_reversion),
            to.is_processing().then_some(now),
            completed,
            now
        ],
    )?;
    if touched == 0 {
        return Err(Error::stored(
            "the stage of a plan",
            "changed during the transition",
        ));
    }
    let kind = if to == PlanStage::ApplyApplied {
        EventKind::PlanApplied
    } else if to.is_terminal() {
        EventKind::PlanCancelled
    } else if to.is_errored() {
        EventKind::PlanErrored
    } else if to.phase() == plan.stage.phase() {
        EventKind::PlanStateChanged
    } else {
        EventKind::PlanPhaseChanged
    };
    let payload = json!({
        "from": plan.stage, "to": to, "reason": details.reason,
        "error": details.error.as_ref().and_then(|error| error.get("message")),
    });
    emit(unit, kind, plan.id, payload);
    Ok(())
}

/// Stores the user input that a plan waits for.
pub fn wait_for(unit: &mut UnitOfWork<'_>, id: PlanId, waiting: &Waiting) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "UPDATE plans SET waiting = ?2, version = version + 1, updated_at = ?3 WHERE plan_id = ?1",
        params![id, text(waiting)?, now],
    )?;
    emit(
        unit,
        EventKind::PlanWaiting,
        id,
        json!({"for": waiting.sentence()}),
    );
    Ok(())
}

/// Clears the user input that a plan waits for.
pub fn clear_waiting(unit: &mut UnitOfWork<'_>, id: PlanId) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "UPDATE plans SET waiting = NULL, version = version + 1, updated_at = ?2 \
         WHERE plan_id = ?1 AND waiting IS NOT NULL",
        params![id, now],
    )?;
    Ok(())
}

/// Merges fields into the stored error of a plan: fields with the same name are replaced, others stay.
pub fn merge_error(
    unit: &mut UnitOfWork<'_>,
    id: PlanId,
    more: &Map<String, Value>,
) -> Result<(), Error> {
    let Some(plan) = locked(unit, id)? else {
        return Ok(());
    };
    let mut error = plan.error.unwrap_or_default();
    error.extend(more.clone());
    set_text(unit, id, "error", Some(text(&error)?))
}

/// Stores the strategy of a plan.
pub fn set_strategy(
    unit: &mut UnitOfWork<'_>,
    id: PlanId,
    strategy: Option<&cleveragents_domain::PlanStrategy>,
) -> Result<(), Error> {
    let strategy = strategy.map(text).transpose()?;
    set_text(unit, id, "strategy", strategy)
}

/// Stores the estimate of a plan's effort and cost.
pub fn set_estimate(unit: &mut UnitOfWork<'_>, id: PlanId, estimate: &Value) -> Result<(), Error> {
    set_text(unit, id, "estimate", Some(estimate.to_string()))
}

/// Adds a field to the report of a plan. Returns `false` when the plan does not exist.
pub fn extend_report(
    unit: &mut UnitOfWork<'_>,
    id: PlanId,
    field: &str,
    value: Value,
) -> Result<bool, Error> {
    let Some(plan) = locked(unit, id)? else {
        return Ok(false);
    };
    let mut report = plan.report.unwrap_or_else(|| json!({}));
    report[field] = value;
    set_text(unit, id, "report", Some(text(&report)?))?;
    Ok(true)
}

/// Sets the maximum cost of a plan; `None` removes the limit. Returns `false` when the plan does not exist.
pub fn set_max_cost(
    unit: &mut UnitOfWork<'_>,
    id: PlanId,
    limit: Option<MicroUsd>,
) -> Result<bool, Error> {
    let Some(plan) = locked(unit, id)? else {
        return Ok(false);
    };
    let before = plan.inputs.max_cost_micro_usd;
    let inputs = PlanInputs {
        max_cost_micro_usd: limit.map(|limit| limit.0),
        ..plan.inputs
    };
    set_text(unit, id, "made_with", Some(text(&inputs)?))?;
    let payload = json!({"max_cost_micro_usd": limit.map(|limit| limit.0), "before": before});
    emit(unit, EventKind::PlanEdited, id, payload);
    Ok(true)
}

/// Stores the sandbox that a plan works in.
pub fn set_sandbox(unit: &mut UnitOfWork<'_>, id: PlanId, sandbox: &str) -> Result<(), Error> {
    set_text(unit, id, "sandbox", Some(sandbox.to_owned()))
}

/// Stores the root decision of a plan.
pub fn set_root(
    unit: &mut UnitOfWork<'_>,
    id: PlanId,
    root: cleveragents_domain::DecisionId,
) -> Result<(), Error> {
    set_text(unit, id, "decision_root_id", Some(root.to_string()))
}

/// Queues a plan for a worker with its run options; `None` takes it off the queue.
pub fn queue(unit: &mut UnitOfWork<'_>, id: PlanId, options: Option<&Value>) -> Result<(), Error> {
    if let Some(options) = options {
        emit(unit, EventKind::PlanQueued, id, json!({"how": options}));
    }
    set_text(unit, id, "queued_for", options.map(Value::to_string))
}

fn set_text(
    unit: &mut UnitOfWork<'_>,
    id: PlanId,
    column: &'static str,
    value: Option<String>,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        &format!(
            "UPDATE plans SET {column} = ?2, version = version + 1, updated_at = ?3 WHERE plan_id = ?1"
        ),
        params![id, value, now],
    )?;
    Ok(())
}

/// Stores the summed usage of the runs of a plan, including failed and rolled-back ones, and of its child plans.
pub fn record_usage(unit: &mut UnitOfWork<'_>, id: PlanId) -> Result<(), Error> {
    let sum = |column: &str| {
        format!(
            "(SELECT CAST(coalesce(sum({column}), 0) AS BIGINT) FROM runs WHERE run_id IN \
             (SELECT run_id FROM plan_steps WHERE plan_steps.plan_id = ?1 AND run_id IS NOT NULL)) \
             + (SELECT CAST(coalesce(sum({column}), 0) AS BIGINT) FROM plans children \
             WHERE children.parent_plan_id = ?1)"
        )
    };
    unit.execute(
        &format!(
            "UPDATE plans SET input_tokens = {}, output_tokens = {}, cost_micro_usd = {}, model_calls = {}, \
             tool_calls = {} WHERE plan_id = ?1",
            sum("input_tokens"),
            sum("output_tokens"),
            sum("cost_micro_usd"),
            sum("model_calls"),
            sum("tool_calls")
        ),
        params![id],
    )?;
    if has_unpriced(unit, id)? {
        unit.execute(
            "UPDATE plans SET is_cost_partial = 1 WHERE plan_id = ?1",
            params![id],
        )?;
    }
    Ok(())
}

/// Whether a run of a plan called a model whose price is unknown.
pub fn has_unpriced(reader: &mut dyn Reader, id: PlanId) -> Result<bool, Error> {
    let all = reader.query(
        "SELECT run_id FROM plan_steps WHERE plan_id = ?1 AND run_id IS NOT NULL",
        params![id],
    )?;
    for mut row in all {
        if runs::has_unpriced(reader, row.take()?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Requests that the process running a plan stops it. Returns `false` when the plan has ended.
pub fn request_cancel(unit: &mut UnitOfWork<'_>, id: PlanId, reason: &str) -> Result<bool, Error> {
    let Some(plan) = locked(unit, id)? else {
        return Ok(false);
    };
    if plan.stage.is_terminal() {
        return Ok(false);
    }
    unit.execute(
        "UPDATE plans SET is_cancelled = 1, version = version + 1 WHERE plan_id = ?1",
        params![id],
    )?;
    emit(
        unit,
        EventKind::PlanCancelRequested,
        id,
        json!({"reason": reason}),
    );
    Ok(true)
}
