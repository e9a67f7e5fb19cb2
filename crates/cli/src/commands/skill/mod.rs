//! `skill`: groups of tools, and folders of instructions.

mod manage;
mod show;
mod validate;

use std::path::Path;

use cleveragents_application::skill_operations::SkillToolSource;
use cleveragents_application::{SkillService, SkillSource};
use cleveragents_domain::DefinitionKind;

use super::definition::read_text_of;
use crate::arguments::Skill;
use crate::context::Context;
use crate::output::{CommandError, Report};

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(super) const fn name(command: &Skill) -> &'static str {
    match command {
        Skill::Add(_) => "skill add",
        Skill::List => "skill list",
        Skill::Show(_) => "skill show",
        Skill::Tools(_) => "skill tools",
        Skill::Refresh { .. } => "skill refresh",
        Skill::Validate { .. } => "skill validate",
        Skill::Remove { .. } => "skill remove",
    }
}

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &["skill list", "skill remove", "skill show", "skill tools"];

pub(super) fn run(context: &Context, command: Skill) -> Result<Report, CommandError> {
    match command {
        Skill::Add(arguments) => manage::add(context, &context.skills()?, &arguments),
        Skill::List => manage::list(context),
        Skill::Show(skill) => show::show(context, skill.name),
        Skill::Tools(skill) => show::tools(context, skill.name),
        Skill::Refresh { name } => manage::refresh(context, &context.skills()?, name.as_deref()),
        Skill::Validate { path } => validate::run(context, &context.skills()?, &path),
        Skill::Remove { skill, deletion } => manage::remove(context, &skill.name, deletion),
    }
}

/// Reads the source of a skill: a folder, its `SKILL.md`, or a YAML file.
fn source(context: &Context, path: &Path) -> Result<SkillSource, CommandError> {
    let base = context.environment.working_folder();
    let location = base.unwrap_or_else(|| Path::new("/")).join(path);
    if path != Path::new("-") {
        let is_document = location
            .file_name()
            .is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"));
        if location.is_dir() {
            return Ok(SkillSource::Folder(canonical_folder(&location)));
        }
        if is_document && let Some(folder) = location.parent() {
            return Ok(SkillSource::Folder(canonical_folder(folder)));
        }
    }
    let text = read_text_of(path, DefinitionKind::Skill)?;
    Ok(SkillSource::File {
        text,
        file: location,
    })
}

/// Canonical path of a folder; unchanged if the folder does not exist.
fn canonical_folder(folder: &Path) -> std::path::PathBuf {
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Names of the sources of a skill's tools.
fn source_names(sources: &[SkillToolSource]) -> Vec<String> {
    let names = sources.iter().map(|source| source.source.clone());
    names.collect()
}

/// Comma-separated words; `None` if there are none.
fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(", "))
}

/// Access to the skill service, which also reads the folder `skills` in the home folder.
impl Context {
    pub(crate) fn skills(&self) -> Result<SkillService, CommandError> {
        Ok(SkillService::new(self.engine()?, self.home.skills()))
    }
}
