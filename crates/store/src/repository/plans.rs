//! Plans. The stage of a plan only changes through a statement that names the stage it was read in, so of two
//! concurrent transitions the second one fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cleveragents_domain::identity::{LOCAL_NAMESPACE, Namespaces};
use cleveragents_domain::{
    AutomationProfile, EventKind, MadeWith, MicroUsd, NewEvent, Plan, PlanActors, PlanId,
    PlanProfile, PlanStage, StageTransition, Timestamp, TokenUsage, Tokens, Version, Waiting,
};
use serde_json::{Map, Value, json};

use super::{runs, stored_json, visible};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Param, Row, params};

macro_rules! columns {
    () => {
        "plan_id, name, action, parent_plan_id, root_plan_id, stage, attempt, description, \
         definition_of_done, made_with, strategy, estimate, waiting, error, sandbox, decision_root_id, \
         reversion_count, report, is_cancelled, queued_for, input_tokens, output_tokens, cost_micro_usd, \
         model_calls, tool_calls, is_cost_partial, version, created_at, updated_at, started_at, completed_at"
    };
}

fn json_of<T: serde::de::DeserializeOwned>(
    row: &mut Row,
    what: &'static str,
) -> Result<Option<T>, Error> {
    row.take::<Option<String>>()?
        .map(|text| stored_json(what, &text))
        .transpose()
}

fn read(mut row: Row) -> Result<Plan, Error> {
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
        made_with: {
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
fn no_inputs() -> MadeWith {
    MadeWith {
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
    /// Id of the new plan.
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
    pub made_with: MadeWith,
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
            made_with: no_inputs(),
        }
    }

    /// Namespace of the first project, or of the action.
    fn namespace(&self) -> &str {
        namespace_of(&self.action, &self.made_with)
    }
}

/// Namespace of a plan: that of its first project, or of its action.
pub fn belongs_to(plan: &Plan) -> &str {
    namespace_of(&plan.action, &plan.made_with)
}

fn namespace_of<'a>(action: &'a str, made_with: &'a MadeWith) -> &'a str {
    let first = made_with.projects.first();
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
            text(&new.made_with)?,
            now,
            new.namespace()
        ],
    )?;
    for (number, project) in (0_u64..).zip(&new.made_with.projects) {
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

/// Summary of a plan for a page of plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPlan {
    /// Plan id.
    pub id: PlanId,
    /// Name chosen by the user.
    pub name: Option<String>,
    /// Action it was created from.
    pub action: String,
    /// Namespace of its first project, or of its action.
    pub namespace: String,
    /// Phase and state, as `phase/state`.
    pub stage: String,
    /// Whether the plan waits for input from a user.
    pub is_waiting: bool,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// Plans in visible namespaces, newest first, older than `before`. Plans created meanwhile do not shift the following
/// pages.
pub fn page(
    reader: &mut dyn Reader,
    namespaces: &Namespaces,
    before: Option<PlanId>,
    limit: u64,
) -> Result<Vec<ListedPlan>, Error> {
    let before = before.map(|id| id.to_string()).unwrap_or_default();
    reader
        .query(
            "SELECT plan_id, name, action, namespace, stage, CASE WHEN waiting IS NULL THEN 0 ELSE 1 END, \
             created_at, updated_at FROM plans WHERE action <> '' AND (?2 = '' OR plan_id < ?2) \
             AND (?1 = '*' OR (?1 = '-' AND namespace <> 'local') OR REPLACE(?1, ',' || namespace || ',', '') <> ?1) \
             ORDER BY plan_id DESC LIMIT ?3",
            params![visible(namespaces), before, limit],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(ListedPlan {
                id: row.take()?,
                name: row.take()?,
                action: row.take()?,
                namespace: row.take()?,
                stage: row.take()?,
                is_waiting: row.take::<u64>()? != 0,
                created_at: row.take()?,
                updated_at: row.take()?,
            })
        })
        .collect()
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

/// Filter for listing plans.
#[derive(Debug, Clone, Default)]
pub struct PlanFilter {
    /// Only plans in these stages; all when empty.
    pub stages: Vec<PlanStage>,
    /// Only plans that work on this project.
    pub project: Option<String>,
    /// Only plans of a project that links a resource at this location.
    pub location: Option<String>,
    /// Only plans created from this action.
    pub action: Option<String>,
    /// Only children of this plan; without it, only plans that are no child plans, unless `with_children` is set.
    pub parent: Option<PlanId>,
    /// Whether child plans are listed too.
    pub with_children: bool,
    /// Only plans that do, or do not, wait for a user; both when `None`.
    pub waits: Option<bool>,
    /// Only plans that are queued for a worker.
    pub is_queued: bool,
    /// Maximum number of plans.
    pub limit: Option<u64>,
}

/// Lists plans, newest first.
pub fn list(reader: &mut dyn Reader, filter: &PlanFilter) -> Result<Vec<Plan>, Error> {
    let mut sql = concat!("SELECT ", columns!(), " FROM plans WHERE action <> ''").to_owned();
    let stages: Vec<String> = filter.stages.iter().map(ToString::to_string).collect();
    let mut values: Vec<Param<'_>> = Vec::new();
    if !stages.is_empty() {
        let placeholders: Vec<String> = (1..=stages.len())
            .map(|number| format!("?{number}"))
            .collect();
        let _written = write!(sql, " AND stage IN ({})", placeholders.join(", "));
        values.extend(stages.iter().map(Param::from));
    }
    if let Some(project) = &filter.project {
        values.push(project.into());
        let _written = write!(
            sql,
            " AND plan_id IN (SELECT plan_id FROM plan_projects WHERE project = ?{})",
            values.len()
        );
    }
    if let Some(location) = &filter.location {
        values.push(location.into());
        let _written = write!(
            sql,
            " AND plan_id IN (SELECT linked.plan_id FROM plan_projects linked \
             JOIN projects ON projects.name = linked.project \
             JOIN project_links ON project_links.project_id = projects.project_id \
             JOIN resources ON resources.resource_id = project_links.resource_id \
             WHERE resources.location = ?{})",
            values.len()
        );
    }
    if let Some(action) = &filter.action {
        values.push(action.into());
        let _written = write!(sql, " AND action = ?{}", values.len());
    }
    if let Some(parent) = filter.parent {
        values.push(parent.into());
        let _written = write!(sql, " AND parent_plan_id = ?{}", values.len());
    } else if !filter.with_children && !filter.is_queued {
        sql.push_str(" AND parent_plan_id IS NULL");
    }
    match filter.waits {
        // A finished plan no longer waits, even if it still has a stored question.
        Some(true) => sql.push_str(
            " AND waiting IS NOT NULL AND stage <> 'apply/applied' AND state <> 'cancelled'",
        ),
        Some(false) => {
            sql.push_str(
                " AND (waiting IS NULL OR stage = 'apply/applied' OR state = 'cancelled')",
            );
        }
        None => {}
    }
    if filter.is_queued {
        sql.push_str(" AND queued_for IS NOT NULL");
    }
    sql.push_str(" ORDER BY plan_id DESC");
    if let Some(limit) = filter.limit {
        values.push(limit.into());
        let _written = write!(sql, " LIMIT ?{}", values.len());
    }
    reader.query(&sql, &values)?.into_iter().map(read).collect()
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
/// transition is not allowed from its present stage.
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
    let before = plan.made_with.max_cost_micro_usd;
    let made_with = MadeWith {
        max_cost_micro_usd: limit.map(|limit| limit.0),
        ..plan.made_with
    };
    set_text(unit, id, "made_with", Some(text(&made_with)?))?;
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

/// Plans of a project that have not ended, oldest first.
pub fn active_of_project(reader: &mut dyn Reader, project: &str) -> Result<Vec<PlanId>, Error> {
    let mut rows = reader.query(
        "SELECT plans.plan_id, stage FROM plans JOIN plan_projects ON plan_projects.plan_id = plans.plan_id \
         WHERE project = ?1 ORDER BY plans.plan_id",
        params![project],
    )?;
    let mut active = Vec::new();
    for row in &mut rows {
        let (plan, stage): (PlanId, String) = (row.take()?, row.take()?);
        if PlanStage::from_stored(&stage).is_none_or(|stage| !stage.is_terminal()) {
            active.push(plan);
        }
    }
    Ok(active)
}

/// Plans that use an actor and have not ended, oldest first. `is_actor` decides whether a stored actor name refers to
/// the actor.
pub fn active_of_actor(
    reader: &mut dyn Reader,
    is_actor: &dyn Fn(&str) -> bool,
) -> Result<Vec<PlanId>, Error> {
    let uses_actor = |plan: &Plan| {
        let actors = &plan.made_with.actors;
        let optional = [&actors.estimation, &actors.invariant, &actors.review];
        let required = [&actors.strategy, &actors.execution];
        let mut names = required.into_iter().chain(optional.into_iter().flatten());
        names.any(|name| is_actor(name))
    };
    let active = active(reader)?.into_iter().filter(uses_actor);
    Ok(active.map(|plan| plan.id).collect())
}

/// Plans that have not ended, oldest first. Excludes plans that were stored before plans had inputs.
pub fn active(reader: &mut dyn Reader) -> Result<Vec<Plan>, Error> {
    let terminal: Vec<String> = PlanStage::ALL
        .iter()
        .filter(|stage| stage.is_terminal())
        .map(|stage| format!("'{stage}'"))
        .collect();
    let sql = format!(
        "SELECT {} FROM plans WHERE made_with <> '{{}}' AND stage NOT IN ({}) ORDER BY plan_id",
        columns!(),
        terminal.join(", ")
    );
    reader.query(&sql, &[])?.into_iter().map(read).collect()
}

/// Number of applied plans of an action, and number of its plans that are applied, constrained or errored.
pub fn record_of_action(reader: &mut dyn Reader, action: &str) -> Result<(u64, u64), Error> {
    count_pair(
        reader,
        "SELECT coalesce(sum(CASE WHEN stage = 'apply/applied' THEN 1 ELSE 0 END), 0), \
         coalesce(sum(CASE WHEN stage IN ('apply/applied', 'apply/constrained', 'strategize/errored', \
         'execute/errored', 'apply/errored') THEN 1 ELSE 0 END), 0) FROM plans \
         WHERE action = ?1 AND parent_plan_id IS NULL",
        action,
    )
}

/// Number of plans applied to a project, and number of all its plans.
pub fn record_of_project(reader: &mut dyn Reader, project: &str) -> Result<(u64, u64), Error> {
    count_pair(
        reader,
        "SELECT coalesce(sum(CASE WHEN stage = 'apply/applied' THEN 1 ELSE 0 END), 0), count(*) FROM plans \
         JOIN plan_projects ON plan_projects.plan_id = plans.plan_id \
         WHERE project = ?1 AND parent_plan_id IS NULL",
        project,
    )
}

fn count_pair(reader: &mut dyn Reader, sql: &str, key: &str) -> Result<(u64, u64), Error> {
    match reader.query_first(sql, params![key])? {
        Some(mut row) => Ok((row.take()?, row.take()?)),
        None => Ok((0, 0)),
    }
}

/// Number of plans created from each action.
pub fn count_by_action(reader: &mut dyn Reader) -> Result<BTreeMap<String, u64>, Error> {
    reader
        .query(
            "SELECT action, COUNT(*) FROM plans WHERE action <> '' AND parent_plan_id IS NULL GROUP BY action",
            &[],
        )?
        .into_iter()
        .map(|mut row| Ok((row.take()?, row.take()?)))
        .collect()
}

/// Action and projects of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanSources {
    /// Plan id.
    pub plan: PlanId,
    /// Name of its action; empty when it has none.
    pub action: String,
    /// Names of its projects, in the order given.
    pub projects: Vec<String>,
}

/// Sources of the plans whose ids start with `prefix`.
pub fn sources(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<PlanSources>, Error> {
    let last = format!("{prefix:Z<26}");
    let rows = reader.query(
        "SELECT plan_id, action FROM plans WHERE plan_id >= ?1 AND plan_id <= ?2 \
         ORDER BY plan_id LIMIT ?3",
        params![prefix, last, limit],
    )?;
    let mut sources = Vec::with_capacity(rows.len());
    for mut row in rows {
        let (plan, action): (PlanId, String) = (row.take()?, row.take()?);
        let projects = reader
            .query(
                "SELECT project FROM plan_projects WHERE plan_id = ?1 ORDER BY number",
                params![plan],
            )?
            .into_iter()
            .map(|mut row| row.take())
            .collect::<Result<_, Error>>()?;
        sources.push(PlanSources {
            plan,
            action,
            projects,
        });
    }
    Ok(sources)
}
