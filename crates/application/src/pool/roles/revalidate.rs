//! Validates an approved change again when other merges moved its base: together with them, it may fail.

use std::collections::BTreeSet;

use cleveragents_domain::{MergeOutcome, Plan};
use cleveragents_tools::ports::Workspace as _;

use super::change_check::FileVersions;
use super::driver::RoleDriver;
use super::gates::run_gates;
use super::hunt::base_commit;
use super::proof::{remove_file, write_text};
use super::sandbox_changes::changed_files;
use crate::operation::OperationError;
use crate::tool::SandboxWorkspace;

impl RoleDriver<'_> {
    /// The reason why the change of a plan may not be merged into the present base; `None` if it may. A base that did not
    /// move needs no check: the gates of the attempt ran on it. Resources that are no repositories have no base to
    /// compare.
    pub(super) fn refusal_on_present_base(
        &self,
        change: &Plan,
    ) -> Result<Option<MergeOutcome>, OperationError> {
        let workspace = self.plans.open_workspace(change, self.cancel)?;
        let base = base_commit(&workspace);
        let files = changed_files(&workspace)?;
        drop(workspace);
        if base.is_empty() {
            return Ok(None);
        }
        let present = self.plans.base_workspace(change, self.cancel)?;
        match present.workspace() {
            Some(workspace) => self.validate_in(workspace, change, &base, &files),
            None => Err(OperationError::internal(
                "a temporary sandbox of the present base is closed",
            )),
        }
    }

    /// Validates the changed files in a sandbox of the present base, if it moved from `base`.
    fn validate_in(
        &self,
        workspace: &SandboxWorkspace,
        change: &Plan,
        base: &str,
        files: &[FileVersions],
    ) -> Result<Option<MergeOutcome>, OperationError> {
        let present = base_commit(workspace);
        if present == base {
            return Ok(None);
        }
        let paths = overlapping(workspace, base, &present, files)?;
        if !paths.is_empty() {
            // The next attempt starts from the present base.
            return Ok(Some(MergeOutcome::Conflict { paths }));
        }
        for file in files {
            write_change(workspace, file)?;
        }
        let gates = run_gates(self.plans, change, workspace, self.cancel)?;
        let failing: Vec<String> = gates
            .iter()
            .filter(|gate| !gate.passed)
            .map(|gate| {
                let code = gate.exit_code.map(|code| format!("exit code {code}"));
                format!(
                    "gates_passed: {} fails on the base that other merges moved ({})",
                    gate.name,
                    code.unwrap_or_else(|| "it did not run".to_owned())
                )
            })
            .collect();
        Ok((!failing.is_empty()).then_some(MergeOutcome::Refused { failing }))
    }
}

/// The changed files that other merges changed too.
fn overlapping(
    workspace: &SandboxWorkspace,
    base: &str,
    present: &str,
    files: &[FileVersions],
) -> Result<Vec<String>, OperationError> {
    let failed = |reason: String| {
        OperationError::internal(format!("the moved base cannot be compared: {reason}"))
    };
    let [part] = workspace.parts() else {
        return Err(failed("the sandbox has several parts".to_owned()));
    };
    let git = workspace
        .git(&part.alias)
        .map_err(|error| failed(error.to_string()))?;
    let git = git.ok_or_else(|| failed("its resource is no repository".to_owned()))?;
    let arguments = ["diff", "--name-only", "--no-renames", "-z", base, present];
    let output = git
        .try_run(&arguments)
        .map_err(|error| failed(error.to_string()))?;
    if output.code != Some(0) {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let moved: BTreeSet<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    let own = files.iter().map(|file| file.path.as_str());
    Ok(own
        .filter(|path| moved.contains(path))
        .map(str::to_owned)
        .collect())
}

/// Writes the changed version of a file into a sandbox.
fn write_change(workspace: &SandboxWorkspace, file: &FileVersions) -> Result<(), OperationError> {
    let failed = |reason: String| {
        let message = format!("`{}` cannot be validated on the present base", file.path);
        OperationError::internal(format!("{message}: {reason}"))
    };
    if file.is_binary {
        return Err(failed("it is not a text".to_owned()));
    }
    let written = match &file.after {
        Some(content) => write_text(workspace, &file.path, content),
        None => remove_file(workspace, &file.path),
    };
    written.map_err(|error| failed(error.to_string()))
}
