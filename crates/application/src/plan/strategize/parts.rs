//! The strategy of an action that divides its task into parts: no strategist decides it.

use cleveragents_domain::{
    ActionPart, ActionParts, PartDivision, PlanStep, PlanStrategy, TreePath,
};
use cleveragents_tools::ports::Workspace as _;
use globset::GlobBuilder;
use ignore::WalkBuilder;

use super::division::{DividedFile, divide};
use crate::count::counted;
use crate::tool::SandboxWorkspace;

/// A folder or file of the sandbox.
struct SandboxPath {
    /// Path, with the part of the sandbox if it has several.
    path: String,
    is_folder: bool,
    size: u64,
}

/// The strategy of a plan whose action divides the task.
pub(super) fn strategy(
    parts: &ActionParts,
    workspace: &SandboxWorkspace,
) -> Result<PlanStrategy, String> {
    let (rule, steps) = match &parts.division {
        PartDivision::List(list) => ("the list of the action".to_owned(), listed(list)),
        PartDivision::Paths(pattern) => {
            let rule = format!("a part for each match of `{pattern}`");
            (rule, matching(pattern, workspace)?)
        }
        PartDivision::Bounds(bounds) => {
            let files: Vec<DividedFile> = paths(workspace)?
                .into_iter()
                .filter(|path| !path.is_folder)
                .map(|path| DividedFile {
                    path: path.path,
                    size: path.size,
                })
                .collect();
            if files.is_empty() {
                return Err("there is nothing to divide: the sandbox has no files".to_owned());
            }
            let rule = format!(
                "folders with at most {} and {} in each part, and at most {} in each plan",
                counted(u64::from(bounds.max_files), "file"),
                counted(bounds.max_tokens, "token"),
                counted(u64::from(bounds.max_parts), "part"),
            );
            (rule, divide(&files, bounds))
        }
    };
    Ok(PlanStrategy {
        summary: format!("The task is divided by the action: {rule}."),
        steps,
        children: Some(parts.children.clone()),
        ..PlanStrategy::default()
    })
}

fn listed(list: &[ActionPart]) -> Vec<PlanStep> {
    let steps = list.iter().map(|part| PlanStep {
        title: part.title.clone(),
        description: match part.description.trim() {
            "" => format!("Do this part of the task: {}", part.title),
            description => description.to_owned(),
        },
        files: part.files.clone(),
        after: part.after.clone(),
        child_plan: true,
        ..PlanStep::default()
    });
    steps.collect()
}

/// A step for each folder or file that a pattern matches. `*` does not match `/`; a pattern that ends with `/` matches
/// only folders.
fn matching(pattern: &str, workspace: &SandboxWorkspace) -> Result<Vec<PlanStep>, String> {
    let only_folders = pattern.ends_with('/');
    let pattern = pattern.trim_end_matches('/');
    let matcher = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("the pattern `{pattern}` of the parts is invalid: {error}"))?
        .compile_matcher();
    let mut steps = Vec::new();
    for path in paths(workspace)? {
        if !matcher.is_match(&path.path) || (only_folders && !path.is_folder) {
            continue;
        }
        let files = if path.is_folder {
            format!("{}/**", path.path)
        } else {
            path.path.clone()
        };
        steps.push(PlanStep {
            description: format!(
                "Do the task in `{}`, and change nothing outside it.",
                path.path
            ),
            title: path.path,
            files: vec![files],
            child_plan: true,
            ..PlanStep::default()
        });
    }
    if steps.is_empty() {
        return Err(format!(
            "no folder or file matches the pattern `{pattern}` of the parts"
        ));
    }
    Ok(steps)
}

/// The folders and files of a sandbox in the order of their paths, without those that git ignores.
fn paths(workspace: &SandboxWorkspace) -> Result<Vec<SandboxPath>, String> {
    let several = workspace.parts().len() > 1;
    let mut found = Vec::new();
    for part in workspace.parts() {
        let root = part.root.path();
        let walk = WalkBuilder::new(root)
            .hidden(false)
            .require_git(false)
            .git_global(false)
            .parents(false)
            .follow_links(false)
            .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
            .build();
        for entry in walk {
            let entry = entry.map_err(|error| error.to_string())?;
            let Ok(relative) = entry.path().strip_prefix(root) else {
                continue;
            };
            let Some(path) = relative
                .to_str()
                .and_then(|text| text.parse::<TreePath>().ok())
            else {
                continue;
            };
            let kind = entry.file_type();
            let is_folder = kind.is_some_and(|kind| kind.is_dir());
            if !is_folder && !kind.is_some_and(|kind| kind.is_file()) {
                continue;
            }
            found.push(SandboxPath {
                path: if several {
                    format!("{}/{path}", part.alias)
                } else {
                    path.to_string()
                },
                is_folder,
                size: entry.metadata().map_or(0, |metadata| metadata.len()),
            });
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}
