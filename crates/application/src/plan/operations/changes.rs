//! `plan/diff` and `plan/artifacts`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cleveragents_domain::identity::Permission;
use cleveragents_domain::{Code, Plan, PlanId, hint, suggest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find_chosen, project_names, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::{AppliedCommit, ChangeStatus, FileChange, Hunk, PlanChanges, UndoneApply};

/// Shows what a plan changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowPlanDiff {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
    /// Only paths and numbers of lines, without the patch.
    #[serde(default)]
    pub stat: bool,
    /// Only the changes since the last correction: the discarded work, and the work that replaced it.
    #[serde(default)]
    pub correction: bool,
}

/// The response of `plan/diff`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanDiff {
    pub diff_summary: DiffSummary,
    pub files: Vec<ChangedFile>,
    /// New files that no file tool wrote, as `part/path`.
    pub made_by_commands: Vec<String>,
    /// The number of changed paths that stay in the sandbox: by-products and files that git ignores.
    pub by_products: usize,
    /// The hunks of each file; `null` when the patch was not requested.
    pub patch_preview: Option<Vec<FilePreview>>,
    /// The patch as text; bytes that are not UTF-8 are replaced. `null` when it was not requested
    /// or the content was deleted.
    pub patch: Option<String>,
    /// The bytes of a patch that is not UTF-8, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_base64: Option<String>,
    pub risk_assessment: RiskAssessment,
    /// True if a process is using the sandbox; then it may contain changes that are not recorded yet.
    pub is_moving: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<IncompleteChanges>,
    /// The commits of an applied plan, whose lines the patch contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<AppliedCommit>,
    /// The undo of the apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<UndoneApply>,
}

/// The size of a change. Numbers of lines are `null` when the content was deleted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiffSummary {
    pub plan: PlanId,
    /// The names of the plan's projects, joined by commas.
    pub project: Option<String>,
    pub files_changed: usize,
    pub insertions: Option<usize>,
    pub deletions: Option<usize>,
    /// For example `+3 lines`.
    pub net_change: Option<String>,
}

/// A changed path.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    /// The part of the sandbox.
    pub part: String,
    pub path: String,
    /// For example `+8 -2`; `null` for folders, binary files and deleted content.
    pub change: Option<String>,
    pub status: ChangeStatus,
    pub is_folder: bool,
    /// Size in bytes, now or before the deletion.
    pub size: u64,
    /// True for a new file that no file tool wrote.
    pub is_made_by_command: bool,
}

/// The hunks of one file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FilePreview {
    /// The part of the sandbox.
    pub part: String,
    pub file: String,
    pub hunks: Vec<Hunk>,
}

/// Indicators of the risk of a change.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RiskAssessment {
    /// Number of changed test files, as a sentence; `null` if nothing changed.
    pub test_coverage: Option<String>,
    pub validations: ValidationCount,
}

/// Results of validations.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationCount {
    pub ran: usize,
    pub passed: usize,
}

/// Reason why changes or their lines may be missing; absent when the change is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IncompleteChanges {
    /// The plan has no sandbox: nothing was executed yet.
    NoSandbox,
    /// A process works in the sandbox.
    InUse,
    /// The plan is finished, and the lines were deleted with its sandbox.
    PlanOver,
    /// The sandbox is not active, and the lines were deleted with it.
    SandboxClosed,
}

impl IncompleteChanges {
    fn detect(plan: &Plan, changes: &PlanChanges) -> Option<Self> {
        if !changes.has_sandbox {
            return Some(Self::NoSandbox);
        }
        if changes.is_moving {
            return Some(Self::InUse);
        }
        let has_lost_lines = changes.patch.is_none() && !changes.files.is_empty();
        has_lost_lines.then(|| {
            if plan.stage.is_terminal() {
                Self::PlanOver
            } else {
                Self::SandboxClosed
            }
        })
    }
}

impl From<&FileChange> for ChangedFile {
    fn from(file: &FileChange) -> Self {
        Self {
            part: file.part.clone(),
            path: file.path.clone(),
            change: file.lines(),
            status: file.status,
            is_folder: file.is_folder,
            size: file.size,
            is_made_by_command: file.is_made_by_command,
        }
    }
}

impl Operation for ShowPlanDiff {
    const NAME: &'static str = "plan/diff";
    const SUMMARY: &'static str = "Show what a plan changes";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanDiff;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanDiff, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let plans = context.plans();
        let since = if self.correction {
            last_correction(context, &plan)?
        } else {
            0
        };
        let mut changes = plans.changes_since(&plan, since)?;
        let validations = plans.validations(plan.id)?;
        let passed = validations.iter().filter(|stored| stored.result.passed);
        let risk_assessment = RiskAssessment {
            test_coverage: test_coverage(&changes),
            validations: ValidationCount {
                ran: validations.len(),
                passed: passed.count(),
            },
        };
        let incomplete = IncompleteChanges::detect(&plan, &changes);
        let has_lines = changes.patch.is_some();
        let diff_summary = DiffSummary {
            plan: plan.id,
            project: project_names(&plan),
            files_changed: changes.file_count(),
            insertions: has_lines.then(|| changes.insertions()),
            deletions: has_lines.then(|| changes.deletions()),
            net_change: has_lines.then(|| net_change(&changes)),
        };
        let files = changes.files.iter().map(ChangedFile::from).collect();
        let made_by_commands = changes.made_by_commands();
        let patch = changes.patch.take().filter(|_| !self.stat);
        let patch_preview = patch.is_some().then(|| preview(changes.files));
        let (patch, patch_base64) = match patch.map(String::from_utf8) {
            None => (None, None),
            Some(Ok(text)) => (Some(text), None),
            Some(Err(error)) => (
                Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
                Some(BASE64.encode(error.as_bytes())),
            ),
        };
        Ok(PlanDiff {
            diff_summary,
            files,
            made_by_commands,
            by_products: changes.by_products,
            patch_preview,
            patch,
            patch_base64,
            risk_assessment,
            is_moving: changes.is_moving,
            incomplete,
            applied: AppliedCommit::of_plan(&plan),
            undone: UndoneApply::of_plan(&plan),
        })
    }
}

/// Length of the history of the sandbox before the last correction that is in effect.
fn last_correction(context: &OperationContext, plan: &Plan) -> Result<u64, OperationError> {
    let corrections = context.plans().corrections(plan.id)?;
    let last = corrections.iter().rev().find(|made| !made.is_undone);
    last.and_then(|made| made.position).ok_or_else(|| {
        let message = format!("plan {} has no correction that discarded work", plan.id);
        OperationError::new(Code::PlanNotReady, message)
            .with_hint(hint!("{} lists its decisions", suggest::plan_tree(plan.id)))
    })
}

fn preview(files: Vec<FileChange>) -> Vec<FilePreview> {
    files
        .into_iter()
        .filter(|file| !file.hunks.is_empty())
        .map(|file| FilePreview {
            part: file.part,
            file: file.path,
            hunks: file.hunks,
        })
        .collect()
}

fn net_change(changes: &PlanChanges) -> String {
    let (added, deleted) = (changes.insertions(), changes.deletions());
    let (sign, lines) = match added.checked_sub(deleted) {
        Some(lines) => ('+', lines),
        None => ('-', deleted - added),
    };
    format!("{sign}{lines} line{}", plural(lines))
}

const fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Number of changed test files, as a sentence; `None` if no file changed.
fn test_coverage(changes: &PlanChanges) -> Option<String> {
    (!changes.files.is_empty()).then(|| match changes.tests() {
        0 => "no test file changed".to_owned(),
        count => format!("{count} test file{} changed", plural(count)),
    })
}

/// Lists the paths that a plan wrote.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListArtifacts {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
}

/// The response of `plan/artifacts`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanArtifacts {
    pub plan_id: PlanId,
    pub artifacts: Vec<Artifact>,
    pub summary: ArtifactSummary,
    /// The number of artifacts by name or id of the plan.
    pub by_plan: BTreeMap<String, usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<IncompleteChanges>,
}

/// A path that a plan wrote.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// The part of the sandbox.
    pub part: String,
    pub path: String,
    #[serde(rename = "type")]
    pub kind: ArtifactKind,
    /// Size in bytes, now or before the deletion.
    pub size: u64,
    /// For example `+8 -2`; `null` for binary files and deleted content.
    pub change: Option<String>,
}

/// Change of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    Write,
    Edit,
    Delete,
}

impl ArtifactKind {
    /// The value in responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Delete => "delete",
        }
    }
}

impl From<ChangeStatus> for ArtifactKind {
    fn from(status: ChangeStatus) -> Self {
        match status {
            ChangeStatus::Added => Self::Write,
            ChangeStatus::Modified | ChangeStatus::Mode => Self::Edit,
            ChangeStatus::Deleted => Self::Delete,
        }
    }
}

/// Totals of the artifacts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactSummary {
    pub total: usize,
    pub writes: usize,
    pub edits: usize,
    pub deletes: usize,
    /// Bytes of all paths that were not deleted.
    pub total_size: u64,
}

impl Operation for ListArtifacts {
    const NAME: &'static str = "plan/artifacts";
    const SUMMARY: &'static str = "List the paths that a plan wrote";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanArtifacts;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanArtifacts, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let mut changes = context.plans().changes(&plan)?;
        // Folders are listed only through their files.
        changes.files.retain(|file| !file.is_folder);
        let incomplete = IncompleteChanges::detect(&plan, &changes);
        let artifacts: Vec<Artifact> = changes
            .files
            .into_iter()
            .map(|file| Artifact {
                change: file.lines(),
                part: file.part,
                path: file.path,
                kind: file.status.into(),
                size: file.size,
            })
            .collect();
        let count = |kind| {
            artifacts
                .iter()
                .filter(|artifact| artifact.kind == kind)
                .count()
        };
        let remaining = artifacts
            .iter()
            .filter(|artifact| artifact.kind != ArtifactKind::Delete);
        let summary = ArtifactSummary {
            total: artifacts.len(),
            writes: count(ArtifactKind::Write),
            edits: count(ArtifactKind::Edit),
            deletes: count(ArtifactKind::Delete),
            total_size: remaining.map(|artifact| artifact.size).sum(),
        };
        let name = plan.name.unwrap_or_else(|| plan.id.to_string());
        Ok(PlanArtifacts {
            plan_id: plan.id,
            by_plan: [(name, artifacts.len())].into(),
            artifacts,
            summary,
            incomplete,
        })
    }
}
