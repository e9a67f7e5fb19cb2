//! `skill`: what belongs together of tools, and folders of instructions.

mod manage;
mod show;
mod validate;

use std::path::Path;

use cleveragents_application::{SkillService, SkillSource};
use cleveragents_domain::Code;
use cleveragents_skills::Flat;
use serde_json::{Value, json};

use super::read_definition;
use crate::arguments::Skill;
use crate::context::Context;
use crate::output::{CommandError, Report};

/// The short name of a command.
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

pub(super) fn run(context: &Context, command: Skill) -> Result<Report, CommandError> {
    let skills = context.skills()?;
    match command {
        Skill::Add(arguments) => manage::add(context, &skills, &arguments),
        Skill::List => manage::list(context, &skills),
        Skill::Show(skill) => show::show(context, &skills, &skill.name),
        Skill::Tools(skill) => show::tools(context, &skills, &skill.name),
        Skill::Refresh { name } => manage::refresh(context, &skills, name.as_deref()),
        Skill::Validate { path } => validate::run(context, &skills, &path),
        Skill::Remove { skill, yes } => manage::remove(context, &skills, &skill.name, yes),
    }
}

/// A skill as it is given: a folder, its `SKILL.md`, or a YAML file.
fn source(context: &Context, path: &Path) -> Result<SkillSource, CommandError> {
    let base = context.environment.working_folder();
    let place = base.unwrap_or_else(|| Path::new("/")).join(path);
    if path != Path::new("-") {
        let is_document = place
            .file_name()
            .is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"));
        if place.is_dir() {
            return Ok(SkillSource::Folder(tidy(&place)));
        }
        if is_document && let Some(folder) = place.parent() {
            return Ok(SkillSource::Folder(tidy(folder)));
        }
    }
    let text = read_definition(path, "the file of a skill", Code::MalformedSkill)?;
    Ok(SkillSource::File { text, file: place })
}

/// A folder without `.`, `..` and links, so that it has its own name; as it is when it is not there.
fn tidy(folder: &Path) -> std::path::PathBuf {
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Where the tools of a skill come from: one entry a source.
fn tool_sources(flat: &Flat) -> Vec<Value> {
    let mut sources: Vec<(String, Vec<String>)> = Vec::new();
    for tool in &flat.tools {
        let source = tool.source();
        let name = tool.spec.name.to_string();
        match sources.iter_mut().find(|(other, _)| other == source) {
            Some((_, names)) => names.push(name),
            None => sources.push((source.to_owned(), vec![name])),
        }
    }
    let tools = sources
        .into_iter()
        .map(|(source, names)| json!({"source": source, "count": names.len(), "details": names}));
    // What a server offers is known once it is connected to.
    let servers = flat.servers.iter().map(|server| {
        let source = format!("mcp:{}", server.server.name);
        json!({"source": source, "count": Value::Null, "details": []})
    });
    tools.chain(servers).collect()
}

/// The servers of a skill.
fn servers(flat: &Flat) -> Vec<Value> {
    let servers = flat.servers.iter().map(|server| {
        let definition = &server.server.definition;
        let tools = definition.pointer("/tool_filter/include");
        json!({
            "name": server.server.name,
            "status": "declared",
            "tools": tools,
            "from_skill": server.from_skill.as_ref().map(ToString::to_string),
        })
    });
    servers.collect()
}

/// The names of the sources alone, for lists.
fn source_names(flat: &Flat) -> Vec<String> {
    let all = tool_sources(flat);
    let names = all.iter().filter_map(|source| source["source"].as_str());
    names.map(str::to_owned).collect()
}

/// Words one after the other; nothing when there are none.
fn listed(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(", "))
}

/// The service, with the folder of skills in the home.
impl Context {
    pub(crate) fn skills(&self) -> Result<SkillService, CommandError> {
        Ok(SkillService::new(self.engine()?, self.home.skills()))
    }
}
