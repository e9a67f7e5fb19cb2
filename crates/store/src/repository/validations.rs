//! Attachments of validations to resources, and validation results of plans.

use cleveragents_domain::{
    Attachment, EventKind, NewEvent, PlanId, ProjectId, ResourceId, Timestamp, ValidationMode,
    ValidationResult, ValidationScope,
};
use serde_json::json;

use super::{json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! attachment_columns {
    () => {
        "attachment_id, validation, resource_id, project_id, plan_id, arguments, created_at"
    };
}

fn read_attachment(mut row: Row) -> Result<Attachment, Error> {
    Ok(Attachment {
        id: row.take()?,
        validation: row.take()?,
        resource: row.take()?,
        project: row.take()?,
        plan: row.take()?,
        arguments: stored_json("the arguments of a validation", &row.take::<String>()?)?,
        created_at: row.take()?,
    })
}

/// Attaches a validation to a resource. Returns `false` when the same attachment with the same arguments already
/// exists. The stored creation time is the time of the unit of work.
pub fn attach(unit: &mut UnitOfWork<'_>, new: &Attachment) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        concat!(
            "INSERT INTO validation_attachments (",
            attachment_columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING"
        ),
        params![
            new.id,
            &new.validation,
            new.resource,
            new.project,
            new.plan,
            json_text(&new.arguments),
            now,
        ],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ValidationAttached, new);
    }
    Ok(touched > 0)
}

/// Detaches a validation. Returns `false` when it is no longer attached.
pub fn detach(unit: &mut UnitOfWork<'_>, attachment: &Attachment) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM validation_attachments WHERE attachment_id = ?1",
        params![attachment.id],
    )?;
    if touched > 0 {
        announce(unit, EventKind::ValidationDetached, attachment);
    }
    Ok(touched > 0)
}

fn announce(unit: &mut UnitOfWork<'_>, kind: EventKind, attachment: &Attachment) {
    unit.emit(NewEvent {
        kind,
        subject: attachment.id.to_string(),
        payload: json!({
            "validation": attachment.validation,
            "resource_id": attachment.resource,
            "scope": attachment.scope(),
        }),
    });
}

/// Attachments whose id starts with `prefix`, at most `limit`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<Attachment>, Error> {
    let last = format!("{prefix:Z<26}");
    reader
        .query(
            concat!(
                "SELECT ",
                attachment_columns!(),
                " FROM validation_attachments WHERE attachment_id >= ?1 AND attachment_id <= ?2 \
                 ORDER BY attachment_id LIMIT ?3"
            ),
            params![prefix, last, limit],
        )?
        .into_iter()
        .map(read_attachment)
        .collect()
}

/// Filter for attachments; all given conditions must match.
#[derive(Debug, Clone, Default)]
pub struct AttachmentFilter {
    /// Only attachments of this validation.
    pub validation: Option<String>,
    /// Only attachments to this resource.
    pub resource: Option<ResourceId>,
    /// Only attachments in this project.
    pub project: Option<ProjectId>,
    /// Only attachments in this plan.
    pub plan: Option<PlanId>,
}

impl AttachmentFilter {
    fn matches(&self, attachment: &Attachment) -> bool {
        fn allows<T: PartialEq>(condition: Option<&T>, actual: Option<&T>) -> bool {
            condition.is_none() || condition == actual
        }
        allows(self.validation.as_ref(), Some(&attachment.validation))
            && allows(self.resource.as_ref(), Some(&attachment.resource))
            && allows(self.project.as_ref(), attachment.project.as_ref())
            && allows(self.plan.as_ref(), attachment.plan.as_ref())
    }
}

/// Matching attachments, oldest first.
pub fn attachments(
    reader: &mut dyn Reader,
    filter: &AttachmentFilter,
) -> Result<Vec<Attachment>, Error> {
    let all = reader.query(
        concat!(
            "SELECT ",
            attachment_columns!(),
            " FROM validation_attachments ORDER BY attachment_id"
        ),
        &[],
    )?;
    let read = all.into_iter().map(read_attachment);
    let matches = |attachment: &Result<Attachment, Error>| match attachment {
        Ok(attachment) => filter.matches(attachment),
        Err(_) => true,
    };
    read.filter(matches).collect()
}

macro_rules! result_columns {
    () => {
        "validation, mode, attachment_id, resource, scope, scope_target, definition_hash, passed, \
         message, data, output_hash, duration_ms, attempt, position"
    };
}

/// A stored result with its number and time.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredResult {
    /// Number in the plan, from 0.
    pub number: u64,
    pub result: ValidationResult,
    /// Time at which it was stored.
    pub created_at: Timestamp,
}

fn read_result(mut row: Row) -> Result<StoredResult, Error> {
    Ok(StoredResult {
        number: row.take()?,
        created_at: row.take()?,
        result: ValidationResult {
            validation: row.take()?,
            mode: {
                let mode: String = row.take()?;
                ValidationMode::from_stored(&mode).ok_or_else(|| {
                    Error::stored("the mode of a validation", format!("is `{mode}`"))
                })?
            },
            attachment_id: row.take()?,
            resource: row.take()?,
            scope: {
                let scope: String = row.take()?;
                ValidationScope::from_stored(&scope).ok_or_else(|| {
                    Error::stored("the scope of a validation", format!("is `{scope}`"))
                })?
            },
            scope_target: row.take()?,
            definition_hash: row.take()?,
            passed: row.take()?,
            message: row.take()?,
            data: row
                .take::<Option<String>>()?
                .map(|data| stored_json("the data of a validation", &data))
                .transpose()?,
            output: row.take()?,
            duration_ms: row.take()?,
            attempt: row.take()?,
            position: row.take()?,
        },
    })
}

/// Adds a validation result to a plan and returns its number. `None` when the plan does not exist.
pub fn record(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    result: &ValidationResult,
) -> Result<Option<u64>, Error> {
    // The update locks the plan, so that concurrent results are numbered one by one.
    let locked = unit.execute(
        "UPDATE plans SET updated_at = updated_at WHERE plan_id = ?1",
        params![plan],
    )?;
    if locked == 0 {
        return Ok(None);
    }
    let number: u64 = unit
        .query_first(
            "SELECT COALESCE(MAX(number) + 1, 0) FROM validation_results WHERE plan_id = ?1",
            params![plan],
        )?
        .ok_or_else(|| Error::stored("a count", "is missing"))?
        .take()?;
    let now = unit.now();
    unit.execute(
        concat!(
            "INSERT INTO validation_results (plan_id, number, created_at, ",
            result_columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"
        ),
        params![
            plan,
            number,
            now,
            &result.validation,
            result.mode.as_str(),
            result.attachment_id,
            result.resource.as_ref(),
            result.scope.as_str(),
            result.scope_target.as_ref(),
            &result.definition_hash,
            result.passed,
            &result.message,
            result.data.as_ref().map(json_text),
            result.output,
            result.duration_ms,
            result.attempt,
            result.position,
        ],
    )?;
    unit.emit(NewEvent {
        kind: EventKind::ValidationJudged,
        subject: plan.to_string(),
        payload: json!({
            "number": number,
            "validation": result.validation,
            "mode": result.mode,
            "passed": result.passed,
            "attempt": result.attempt,
        }),
    });
    Ok(Some(number))
}

/// Validation results of a plan, oldest first.
pub fn results(reader: &mut dyn Reader, plan: PlanId) -> Result<Vec<StoredResult>, Error> {
    reader
        .query(
            concat!(
                "SELECT number, created_at, ",
                result_columns!(),
                " FROM validation_results WHERE plan_id = ?1 ORDER BY number"
            ),
            params![plan],
        )?
        .into_iter()
        .map(read_result)
        .collect()
}
