//! Lists and counts plans: pages, filters, unfinished plans of a project or actor, and success rates.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{Plan, PlanId, PlanStage, Timestamp};

use super::plans::{COLUMNS, read};
use super::visible;
use crate::error::Error;
use crate::transaction::Reader;
use crate::value::{Param, params};

/// Summary of a plan for a page of plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPlan {
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
    let mut sql = format!("SELECT {COLUMNS} FROM plans WHERE action <> ''");
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
        let actors = &plan.inputs.actors;
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
        "SELECT {COLUMNS} FROM plans WHERE made_with <> '{{}}' AND stage NOT IN ({}) ORDER BY plan_id",
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
