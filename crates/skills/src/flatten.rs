//! [`flatten`]: resolves a skill and all included skills to one list of tools.
//!
//! The order is fixed: includes, in the order of the file, then named tools, groups and the tools
//! of the file itself. When a tool occurs twice, the nearer definition takes precedence: the skill
//! itself over its includes, a later include over an earlier one. Overrides can only make a tool
//! stricter, and the overrides of all occurrences apply together.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::yaml::Fault;
use cleveragents_domain::{
    DefinitionFault, DefinitionFileError, DefinitionKind, Hint, Name, hint, nearest, suggest,
};
use cleveragents_tools::{CapabilityChange, Registry, RegistryError, Source, Tool as _, ToolSpec};

use crate::agent::{self, AgentSkill};
use crate::collection::{Include, Place, Skill, SkillToolUse};
use crate::flat::{Definition, FlatServer, FlatTool, FlattenedSkill, Library, Origin};

/// Maximum nesting of includes.
const MAX_DEPTH: usize = 32;

/// Resolves the tools, servers and agent skills of a skill. `library` contains all skills, including this one; `tools`
/// contains all registered tools.
pub fn flatten(
    name: &Name,
    library: &Library,
    tools: &Registry,
) -> Result<FlattenedSkill, DefinitionFileError> {
    let mut flattener = Flattener {
        library,
        tools,
        resolved: HashMap::new(),
        path: Vec::new(),
    };
    let mut flat = FlattenedSkill::clone(&*flattener.skill(name)?);
    let agent_skills: Vec<AgentSkill> = flat
        .agent_skills
        .iter()
        .map(|(skill, _)| skill.clone())
        .collect();
    for tool in agent::tools(&agent_skills) {
        flat.tools.push(FlatTool {
            spec: tool.spec().clone(),
            origin: Origin::Agent,
            from_skill: None,
            changes: Vec::new(),
        });
    }
    Ok(flat)
}

struct Flattener<'a> {
    library: &'a Library,
    tools: &'a Registry,
    /// Resolved skills: each is resolved once, even if several skills include it.
    resolved: HashMap<Name, Arc<FlattenedSkill>>,
    /// The skills on the path to the current skill, each with the position where it includes the next one.
    path: Vec<(&'a Skill, Place)>,
}

fn rule_error(
    file: &Path,
    place: Place,
    message: String,
    fix: impl Into<Hint>,
) -> DefinitionFileError {
    let fault = Fault {
        place: Some(place),
        ..Fault::new(message)
    };
    DefinitionFault::rule(fault, fix).in_file(file, DefinitionKind::Skill, "")
}

impl<'a> Flattener<'a> {
    fn skill(&mut self, name: &Name) -> Result<Arc<FlattenedSkill>, DefinitionFileError> {
        if let Some(resolved) = self.resolved.get(name) {
            return Ok(Arc::clone(resolved));
        }
        let flat = match self.library.get(name) {
            Some(Definition::Collection(skill)) => self.collection(skill)?,
            Some(Definition::Agent(skill)) => FlattenedSkill {
                agent_skills: vec![((**skill).clone(), None)],
                ..FlattenedSkill::default()
            },
            None => FlattenedSkill::default(),
        };
        let flat = Arc::new(flat);
        self.resolved.insert(name.clone(), Arc::clone(&flat));
        Ok(flat)
    }

    fn collection(&mut self, skill: &'a Skill) -> Result<FlattenedSkill, DefinitionFileError> {
        let mut flat = FlattenedSkill::default();
        for include in &skill.includes {
            self.path.push((skill, include.place));
            self.include(skill, include, &mut flat)?;
            self.path.pop();
        }
        for tool_use in &skill.tools {
            flat.push(self.named_tool(skill, tool_use)?, skill, tool_use.place)?;
        }
        for (category, place) in &skill.groups {
            let tools = self
                .tools
                .list()
                .filter(|spec| spec.source == Source::Builtin && spec.category == *category);
            for spec in tools {
                flat.push(registered(spec), skill, *place)?;
            }
        }
        for tool in &skill.anonymous {
            let flat_tool = FlatTool {
                spec: tool.spec().clone(),
                origin: Origin::Anonymous(Arc::clone(tool)),
                from_skill: None,
                changes: Vec::new(),
            };
            flat.push(flat_tool, skill, (1, 1))?;
        }
        for server in &skill.servers {
            flat.servers
                .retain(|other| other.server.name != server.name);
            flat.servers.push(FlatServer {
                server: server.clone(),
                file: skill.file.clone(),
                from_skill: None,
            });
        }
        for (folder, place) in &skill.folders {
            for agent_skill in agent_skills(skill, folder, *place)? {
                flat.push_agent(agent_skill, None);
            }
        }
        Ok(flat)
    }

    fn include(
        &mut self,
        skill: &Skill,
        include: &Include,
        flat: &mut FlattenedSkill,
    ) -> Result<(), DefinitionFileError> {
        let name = &include.skill;
        let wrong = |message, fix: Hint| rule_error(&skill.file, include.place, message, fix);
        if let Some(start) = self.path.iter().position(|(other, _)| other.name == *name) {
            let cycle = self.path[start..].iter().map(|(skill, _)| &skill.name);
            let cycle: Vec<String> = cycle.chain([name]).map(ToString::to_string).collect();
            let message = format!("the includes form a cycle: {}", cycle.join(" → "));
            // Report the error in the file of the skill that the caller asked to resolve.
            let (first, place) = self.path[0];
            let fix = "remove one of these includes";
            return Err(rule_error(&first.file, place, message, fix));
        }
        if self.path.len() > MAX_DEPTH {
            let message = format!("skills are nested more than {MAX_DEPTH} levels deep");
            return Err(wrong(message, "reduce the nesting".into()));
        }
        if !self.library.contains_key(name) {
            let known: Vec<String> = self.library.keys().map(ToString::to_string).collect();
            let known = known
                .iter()
                .map(String::as_str)
                .filter(|known| *known != skill.name.to_string());
            let fix = match nearest::best(&name.to_string(), known) {
                Some(near) => hint!("did you mean `{}`?", near),
                None => hint!(
                    "add that skill first; {} lists all skills",
                    suggest::skill_list()
                ),
            };
            return Err(wrong(format!("skill `{name}` does not exist"), fix));
        }
        let included = self.skill(name)?;
        for inner in included.includes.iter().chain([name]) {
            flat.includes.retain(|other| other != inner);
            flat.includes.push(inner.clone());
        }
        let mut tools = included.tools.clone();
        for change in &include.overrides {
            let Some(tool) = tools.iter_mut().find(|tool| tool.spec.name == change.tool) else {
                let names: Vec<String> = tools
                    .iter()
                    .map(|tool| tool.spec.name.to_string())
                    .collect();
                let near =
                    nearest::best(&change.tool.to_string(), names.iter().map(String::as_str));
                let fix = near.map_or_else(
                    || hint!("{} lists its tools", suggest::skill_tools(name)),
                    |near| hint!("did you mean `{}`?", near),
                );
                let message = format!("the skill `{name}` has no tool `{}`", change.tool);
                return Err(rule_error(&skill.file, change.place, message, fix));
            };
            tool.change(change.change.clone(), skill, change.place)?;
        }
        for mut tool in tools {
            tool.from_skill.get_or_insert_with(|| name.clone());
            flat.push(tool, skill, include.place)?;
        }
        for server in &included.servers {
            flat.servers
                .retain(|other| other.server.name != server.server.name);
            let mut server = server.clone();
            server.from_skill.get_or_insert_with(|| name.clone());
            flat.servers.push(server);
        }
        for (agent, from) in &included.agent_skills {
            let from = from.clone().unwrap_or_else(|| name.clone());
            flat.push_agent(agent.clone(), Some(from));
        }
        Ok(())
    }

    fn named_tool(
        &self,
        skill: &Skill,
        tool_use: &SkillToolUse,
    ) -> Result<FlatTool, DefinitionFileError> {
        let spec = self
            .tools
            .get(&tool_use.tool.to_string())
            .map_err(|error| {
                let near = match &error {
                    RegistryError::NotFound { nearest, .. } => nearest.first(),
                    _ => None,
                };
                let fix = near.map_or_else(
                    || {
                        hint!(
                            "add that tool first; {} lists all tools",
                            suggest::tool_list()
                        )
                    },
                    |near| hint!("did you mean `{}`?", near),
                );
                rule_error(&skill.file, tool_use.place, error.to_string(), fix)
            })?;
        let mut tool = registered(spec);
        if tool_use.has_override() {
            tool.change(tool_use.change.clone(), skill, tool_use.place)?;
        }
        Ok(tool)
    }
}

fn registered(spec: &ToolSpec) -> FlatTool {
    FlatTool {
        spec: spec.clone(),
        origin: Origin::Registered,
        from_skill: None,
        changes: Vec::new(),
    }
}

impl FlatTool {
    fn change(
        &mut self,
        change: CapabilityChange,
        skill: &Skill,
        place: Place,
    ) -> Result<(), DefinitionFileError> {
        let changed = change.apply(&self.spec.capability);
        self.spec.capability = changed.map_err(|error| {
            let message = format!("`{}`: {error}", self.spec.name);
            rule_error(
                &skill.file,
                place,
                message,
                "remove that from the override".to_owned(),
            )
        })?;
        self.changes.push(change);
        Ok(())
    }
}

impl FlattenedSkill {
    /// Adds a tool. It replaces an earlier tool with the same name. If both are registered tools, the overrides of the
    /// earlier one are kept.
    fn push(
        &mut self,
        tool: FlatTool,
        skill: &Skill,
        place: Place,
    ) -> Result<(), DefinitionFileError> {
        let position = self
            .tools
            .iter()
            .position(|other| other.spec.name == tool.spec.name);
        let mut tool = tool;
        if let Some(position) = position {
            let old = self.tools.remove(position);
            let is_same_tool = matches!(
                (&old.origin, &tool.origin),
                (Origin::Registered, Origin::Registered)
            );
            if is_same_tool {
                for change in old.changes {
                    if !tool.changes.contains(&change) {
                        tool.change(change, skill, place)?;
                    }
                }
            }
        }
        self.tools.push(tool);
        Ok(())
    }

    fn push_agent(&mut self, skill: AgentSkill, from: Option<Name>) {
        self.agent_skills
            .retain(|(other, _)| other.name != skill.name);
        self.agent_skills.push((skill, from));
    }
}

/// Reads the agent skills at a path that a skill names.
fn agent_skills(
    skill: &Skill,
    folder: &Path,
    place: Place,
) -> Result<Vec<AgentSkill>, DefinitionFileError> {
    let wrong = |message: String| {
        let fix =
            "specify a folder that contains a SKILL.md itself, or has direct subfolders that \
                   contain one"
                .to_owned();
        rule_error(&skill.file, place, message, fix)
    };
    let folders = agent::find(folder)
        .map_err(|error| wrong(format!("`{}` cannot be opened: {error}", folder.display())))?;
    if folders.is_empty() {
        return Err(wrong(format!(
            "there is no SKILL.md in `{}`",
            folder.display()
        )));
    }
    folders
        .iter()
        .map(|folder| AgentSkill::read(folder))
        .collect()
}
