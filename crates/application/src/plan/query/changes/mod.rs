//! The changes of a plan: path by path, with the lines, as an apply would make them.

mod patch;

use std::path::Path;

use cleveragents_domain::{FileKind, FileState, Plan, SandboxState};
use cleveragents_sandbox::Change;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanQueries, PlanQueryError};
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
    /// Relative to the part.
    pub path: String,
    pub status: ChangeStatus,
    /// Whether it is a folder, which has no lines.
    pub is_folder: bool,
    /// Its size now, or before it was deleted.
    pub size: u64,
    /// Added lines; `None` when its lines are unknown, or it has none.
    pub insertions: Option<usize>,
    /// Deleted lines.
    pub deletions: Option<usize>,
    /// The hunks of the patch.
    pub hunks: Vec<Hunk>,
    /// Whether it is a new file that no file tool wrote.
    pub is_made_by_command: bool,
}

impl FileChange {
    /// Whether it is a test, judging by its name or its folder.
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

    /// The numbers of lines as `+8 -2`; `None` when they are unknown.
    pub fn lines(&self) -> Option<String> {
        Some(format!("+{} -{}", self.insertions?, self.deletions?))
    }
}

#[derive(Debug, Default)]
pub struct PlanChanges {
    /// Path by path, part by part.
    pub files: Vec<FileChange>,
    /// The patch, part after part; `None` when the content was deleted with the sandbox.
    pub patch: Option<Vec<u8>>,
    /// Whether a process works in the sandbox, so that more may have changed than is recorded.
    pub is_moving: bool,
    /// Whether the plan has a sandbox at all.
    pub has_sandbox: bool,
    /// The number of changed paths that stay in the sandbox: by-products, and files that git
    /// ignores.
    pub by_products: usize,
}

impl PlanChanges {
    /// The number of changed files, without folders.
    pub fn file_count(&self) -> usize {
        self.files.iter().filter(|file| !file.is_folder).count()
    }

    /// New files that no file tool wrote, each with its part. The user should check them before an
    /// apply: a command made them, perhaps by accident.
    pub fn made_by_commands(&self) -> Vec<String> {
        self.files
            .iter()
            .filter(|file| file.is_made_by_command)
            .map(|file| format!("{}/{}", file.part, file.path))
            .collect()
    }

    /// Added lines of all paths.
    pub fn insertions(&self) -> usize {
        self.files.iter().filter_map(|file| file.insertions).sum()
    }

    /// Deleted lines of all paths.
    pub fn deletions(&self) -> usize {
        self.files.iter().filter_map(|file| file.deletions).sum()
    }

    /// The number of test files among the paths.
    pub fn tests(&self) -> usize {
        self.files.iter().filter(|file| file.is_test()).count()
    }
}

/// Whether to read the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// With the patch.
    With,
    /// Only the paths.
    Without,
}

impl PlanQueries {
    /// The changes of a plan, with every line. Reads the sandbox unless a process works in it or it
    /// was removed; then returns the recorded changes.
    pub fn changes(&self, plan: &Plan) -> Result<PlanChanges, PlanQueryError> {
        let Some(view) = self.sandbox(plan)? else {
            return Ok(PlanChanges::default());
        };
        if view.sandbox.state != SandboxState::Active {
            return self.recorded(&view, Lines::Without, false);
        }
        match self.sandboxes.open(&view.sandbox.name) {
            Ok(mut open) => {
                let diff = self.sandboxes.diff(&mut open)?;
                plan_changes(&open.view, &diff, Lines::With, false)
            }
            Err(error) if error.is_held() => self.recorded(&view, Lines::With, true),
            // The files of the sandbox exist, but not on this machine.
            Err(SandboxError::Elsewhere { .. }) => self.recorded(&view, Lines::Without, true),
            Err(error) => Err(error.into()),
        }
    }

    /// The recorded paths that a plan changed. Reads no files and takes no lease.
    pub fn recorded_changes(&self, plan: &Plan) -> Result<PlanChanges, PlanQueryError> {
        match self.sandbox(plan)? {
            Some(view) => self.recorded(&view, Lines::Without, false),
            None => Ok(PlanChanges::default()),
        }
    }

    fn recorded(
        &self,
        view: &SandboxView,
        lines: Lines,
        is_moving: bool,
    ) -> Result<PlanChanges, PlanQueryError> {
        let diff = self.sandboxes.recorded(view, 0)?;
        plan_changes(view, &diff, lines, is_moving)
    }
}

/// Whether a change is that of a folder.
pub(in crate::plan) fn is_folder(change: &Change) -> bool {
    let state = change.after.or(change.before);
    state.is_some_and(|state| state.kind() == FileKind::Directory)
}

/// The changes of a diff, with every line.
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
        let beneath = (diff.parts.len() > 1).then_some(part.member.alias.as_str());
        let mut by_path = patch::sections(&patch, beneath);
        for change in &part.changes {
            let state = change.after.or(change.before);
            let is_folder = is_folder(change);
            let section = by_path.remove(change.path.as_path().as_os_str());
            let numbers = section
                .as_ref()
                .filter(|section| !section.is_binary)
                .map(|section| (section.insertions, section.deletions))
                // The section of an empty file has no hunk.
                .filter(|_| !is_folder);
            changes.files.push(FileChange {
                part: part.member.alias.clone(),
                path: change.path.to_string(),
                status: ChangeStatus::compare(change.before, change.after),
                is_folder,
                size: state.map_or(0, |state| state.size),
                insertions: numbers.map(|(insertions, _)| insertions),
                deletions: numbers.map(|(_, deletions)| deletions),
                hunks: section.map_or_else(Vec::new, |section| section.hunks),
                is_made_by_command: part.made_by_commands.contains(&change.path),
            });
        }
        if let Some(whole) = &mut changes.patch {
            whole.extend_from_slice(&patch);
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
    fn tests_are_known_by_their_names_and_folders() {
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
