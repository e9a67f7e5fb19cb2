//! `skill validate`: checks a file or folder without registering it, and lists all its problems.

use std::path::Path;

use cleveragents_application::skill_operations::SkillKind;
use cleveragents_application::{SkillService, SkillSource};
use cleveragents_domain::DefinitionFileError;
use cleveragents_skills::agent::inspect;
use serde_json::{Value, json};

use super::source;
use crate::context::Context;
use crate::output::{CommandError, Panel, Report, hint_text, path_text};

pub(super) fn run(
    context: &Context,
    skills: &SkillService,
    path: &Path,
) -> Result<Report, CommandError> {
    let source = source(context, path)?;
    if let SkillSource::Folder(folder) = &source {
        let inspection = inspect(folder);
        let problems: Vec<&DefinitionFileError> = inspection
            .errors
            .iter()
            .chain(&inspection.deviations)
            .collect();
        if let Some(first) = problems.first() {
            return Err(invalid_skill(first, &problems));
        }
    }
    let (definition, resolved) = skills.check(&source, &context.variables())?;
    let name = definition.name().to_string();
    let kind = SkillKind::from(&definition);
    Ok(Report::new("skill validate")
        .data(json!({
            "valid": true,
            "name": name,
            "kind": kind,
            "total_tools": resolved.tools.len(),
        }))
        .panel(
            Panel::new("Skill")
                .row("Name", name)
                .row("Kind", kind.as_str()),
        )
        .ok("Skill valid"))
}

/// Error of the first problem, with all problems in its details.
fn invalid_skill(first: &DefinitionFileError, all: &[&DefinitionFileError]) -> CommandError {
    let error = CommandError::from(first.clone());
    let problem = |problem: &&DefinitionFileError| {
        json!({
            "file": path_text(&problem.file),
            "line": problem.line,
            "column": problem.column,
            "message": problem.message,
            "fix": hint_text(&problem.fix),
        })
    };
    let problems: Vec<Value> = all.iter().map(problem).collect();
    error.with_details(json!({
        "file": path_text(&first.file),
        "line": first.line,
        "column": first.column,
        "problems": problems,
    }))
}
