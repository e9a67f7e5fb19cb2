//! [`PlanChanges`]: the paths and lines that an apply of a plan would change.

mod patch;

use std::path::Path;

use cleveragents_domain::{FileKind, FileState, Plan, SandboxState};
use cleveragents_sandbox::Change;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AppliedCommit, PlanQueries, PlanQueryError};
use crate::sandbox::{MemberChanges, SandboxDiff, SandboxError, SandboxView};

pub use patch::Hunk;

/// The status of a changed path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeStatus {
    /// Created.
    Added,
    /// Changed content.
    Modified,
    Deleted,
    /// Only its permissions changed.
    Mode,
}

impl ChangeStatus {
    /// The status as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Mode => "mode",
        }
    }

    fn compare(before: Option<FileState>, after: Option<FileState>) -> Self {
        match (before, after) {
            (None, _) => Self::Added,
            (Some(_), None) => Self::Deleted,
            (Some(before), Some(after)) if before.same_content(&after) => Self::Mode,
            _ => Self::Modified,
        }
    }
}

/// One changed path.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// The part of the sandbox.
    pub part: String,
    /// Path relative to the part.
    pub path: String,
    pub status: ChangeStatus,
    /// True for a folder, which has no lines.
    pub is_folder: bool,
    /// Current size in bytes, or the size before the deletion.
    pub size: u64,
    /// Number of added lines; `None` for a folder, a binary file, or if no lines were read.
    pub insertions: Option<usize>,
    /// Number of deleted lines; `None` when `insertions` is `None`.
    pub deletions: Option<usize>,
    pub hunks: Vec<Hunk>,
    /// True for a new file that no file tool wrote.
    pub is_made_by_command: bool,
}

impl FileChange {
    /// True if the name or the folder is that of a test.
    pub fn is_test(&self) -> bool {
        if self.is_folder {
            return false;
        }
        let lower = self.path.to_lowercase();
        let (folders, file) = lower.rsplit_once('/').unwrap_or(("", &lower));
        let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
        let in_tests = folders
            .split('/')
            .any(|folder| matches!(folder, "test" | "tests" | "__tests__" | "spec" | "specs"));
        in_tests
            || stem.starts_with("test_")
            || stem.ends_with("_test")
            || stem.ends_with("_spec")
            || stem == "tests"
            || file.contains(".test.")
            || file.contains(".spec.")
    }

    /// Numbers of added and deleted lines as `+8 -2`; `None` if they are unknown.
    pub fn lines(&self) -> Option<String> {
        Some(format!("+{} -{}", self.insertions?, self.deletions?))
    }
}

#[derive(Debug, Default)]
pub struct PlanChanges {
    /// The changed paths, ordered by part.
    pub files: Vec<FileChange>,
    /// The patches of all parts, concatenated; `None` if no lines were read, such as after the sandbox was deleted.
    pub patch: Option<Vec<u8>>,
    /// True if a process is using the sandbox: then it may contain changes that are not recorded yet.
    pub is_moving: bool,
    /// True if the plan has a sandbox.
    pub has_sandbox: bool,
    /// Number of changed paths that an apply leaves in the sandbox: by-products, and files that git ignores.
    pub by_products: usize,
}

impl PlanChanges {
    /// The number of changed files, without folders.
    pub fn file_count(&self) -> usize {
        self.files.iter().filter(|file| !file.is_folder).count()
    }

    /// New files that no file tool wrote, as `part/path`. The user should check them before an apply: a command
    /// created them, perhaps by accident.
    pub fn made_by_commands(&self) -> Vec<String> {
        self.files
            .iter()
            .filter(|file| file.is_made_by_command)
            .map(|file| format!("{}/{}", file.part, file.path))
            .collect()
    }

    /// Total number of added lines.
    pub fn insertions(&self) -> usize {
        self.files.iter().filter_map(|file| file.insertions).sum()
    }

    /// Total number of deleted lines.
    pub fn deletions(&self) -> usize {
        self.files.iter().filter_map(|file| file.deletions).sum()
    }

    /// Number of changed test files.
    pub fn tests(&self) -> usize {
        self.files.iter().filter(|file| file.is_test()).count()
    }
}

/// Selects if changed lines are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// Reads paths and lines.
    With,
    /// Reads only paths.
    Without,
}

impl PlanQueries {
    /// The changes of a plan, with every line. Returns the recorded changes instead of reading the sandbox if a process
    /// works in the sandbox, or if the sandbox is not active or is on another machine. The lines of an applied plan
    /// come from its commits.
    pub fn changes(&self, plan: &Plan) -> Result<PlanChanges, PlanQueryError> {
        self.changes_since(plan, 0)
    }

    /// Like [`Self::changes`], but since a position of the history of the plan's sandbox.
    pub fn changes_since(&self, plan: &Plan, from: u64) -> Result<PlanChanges, PlanQueryError> {
        let Some(view) = self.sandbox(plan)? else {
            return Ok(PlanChanges::default());
        };
        if view.sandbox.state != SandboxState::Active {
            let mut changes = self.recorded(&view, from, Lines::Without, false)?;
            if from == 0 {
                add_committed_lines(&mut changes, &AppliedCommit::of_plan(plan));
            }
            return Ok(changes);
        }
        match self.sandboxes.open(&view.sandbox.name) {
            Ok(mut open) => {
                let diff = self.sandboxes.diff_since(&mut open, from)?;
                plan_changes(&open.view, &diff, Lines::With, false)
            }
            Err(error) if error.is_held() => self.recorded(&view, from, Lines::With, true),
            // The files of the sandbox exist, but not on this machine.
            Err(SandboxError::Elsewhere { .. }) => self.recorded(&view, from, Lines::Without, true),
            Err(error) => Err(error.into()),
        }
    }

    /// The recorded paths that a plan changed. Reads no files and takes no lease.
    pub fn recorded_changes(&self, plan: &Plan) -> Result<PlanChanges, PlanQueryError> {
        match self.sandbox(plan)? {
            Some(view) => self.recorded(&view, 0, Lines::Without, false),
            None => Ok(PlanChanges::default()),
        }
    }

    fn recorded(
        &self,
        view: &SandboxView,
        from: u64,
        lines: Lines,
        is_moving: bool,
    ) -> Result<PlanChanges, PlanQueryError> {
        let diff = self.sandboxes.recorded(view, from)?;
        plan_changes(view, &diff, lines, is_moving)
    }
}

/// Adds the lines of an apply, if its commits contain the changes of all parts.
fn add_committed_lines(changes: &mut PlanChanges, commits: &[AppliedCommit]) {
    let is_committed = |file: &FileChange| commits.iter().any(|commit| commit.part == file.part);
    if commits.is_empty() || !changes.files.iter().all(is_committed) {
        return;
    }
    let has_several_parts = commits.len() > 1;
    let mut all = Vec::new();
    for commit in commits {
        let folder = has_several_parts.then_some(commit.part.as_str());
        let Some(patch) = commit.patch(folder) else {
            return;
        };
        let mut by_path = patch::sections(&patch, folder);
        for file in &mut changes.files {
            if file.part != commit.part || file.is_folder {
                continue;
            }
            let Some(section) = by_path.remove(std::ffi::OsStr::new(&file.path)) else {
                continue;
            };
            if !section.is_binary {
                (file.insertions, file.deletions) =
                    (Some(section.insertions), Some(section.deletions));
            }
            file.hunks = section.hunks;
        }
        all.extend_from_slice(&patch);
    }
    changes.patch = Some(all);
}

/// True for the change of a folder.
pub(in crate::plan) fn is_folder(change: &Change) -> bool {
    let state = change.after.or(change.before);
    state.is_some_and(|state| state.kind() == FileKind::Directory)
}

/// Converts a diff into changes, with every line.
pub(in crate::plan) fn counted(
    view: &SandboxView,
    diff: &SandboxDiff,
) -> Result<PlanChanges, PlanQueryError> {
    plan_changes(view, diff, Lines::With, false)
}

fn plan_changes(
    view: &SandboxView,
    diff: &SandboxDiff,
    lines: Lines,
    is_moving: bool,
) -> Result<PlanChanges, PlanQueryError> {
    let temporary = view.folders().state();
    let mut changes = PlanChanges {
        has_sandbox: true,
        is_moving,
        patch: (lines == Lines::With).then(Vec::new),
        ..PlanChanges::default()
    };
    for part in &diff.parts {
        let patch = match lines {
            Lines::With if !part.changes.is_empty() => part_patch(diff, part, &temporary)?,
            _ => Vec::new(),
        };
        changes.by_products += part.by_products.len();
        let patch_folder = (diff.parts.len() > 1).then_some(part.member.alias.as_str());
        let mut by_path = patch::sections(&patch, patch_folder);
        for change in &part.changes {
            let state = change.after.or(change.before);
            let is_folder = is_folder(change);
            let section = by_path.remove(change.path.as_path().as_os_str());
            let line_counts = section
                .as_ref()
                .filter(|section| !section.is_binary)
                .map(|section| (section.insertions, section.deletions))
                // An empty file has a section without hunks, and counts as zero lines.
                .filter(|_| !is_folder);
            changes.files.push(FileChange {
                part: part.member.alias.clone(),
                path: change.path.to_string(),
                status: ChangeStatus::compare(change.before, change.after),
                is_folder,
                size: state.map_or(0, |state| state.size),
                insertions: line_counts.map(|(insertions, _)| insertions),
                deletions: line_counts.map(|(_, deletions)| deletions),
                hunks: section.map_or_else(Vec::new, |section| section.hunks),
                is_made_by_command: part.made_by_commands.contains(&change.path),
            });
        }
        if let Some(patches) = &mut changes.patch {
            patches.extend_from_slice(&patch);
        }
    }
    Ok(changes)
}

fn part_patch(
    diff: &SandboxDiff,
    part: &MemberChanges,
    temporary: &Path,
) -> Result<Vec<u8>, PlanQueryError> {
    Ok(diff.patch(part, temporary)?)
}

#[cfg(test)]
mod tests {
    use super::{ChangeStatus, FileChange};

    #[test]
    fn tests_are_recognized_by_name_and_folder() {
        let is_test = |path: &str| {
            FileChange {
                part: String::new(),
                path: path.to_owned(),
                status: ChangeStatus::Added,
                is_folder: false,
                size: 0,
                insertions: None,
                deletions: None,
                hunks: Vec::new(),
                is_made_by_command: false,
            }
            .is_test()
        };
        for test in [
            "tests/a.rs",
            "src/__tests__/a.ts",
            "test_login.py",
            "pkg/login_test.go",
            "a.spec.ts",
            "src/book/tests.rs",
        ] {
            assert!(is_test(test), "{test}");
        }
        for other in ["src/attest.rs", "contest/a.py", "latest.md", "src/lib.rs"] {
            assert!(!is_test(other), "{other}");
        }
    }
}
