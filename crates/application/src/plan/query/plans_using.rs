//! Unfinished plans that use a tool or an MCP server: through an actor, through a skill or tool that the actor names,
//! or through a step.
//!
//! Plans keep copies of their action and automation profile, and a resource cannot be removed while a project links it.
//! Actors, and everything that actors name, are looked up whenever a plan continues, so removing
//! one of them would make the plan fail.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::yaml;
use cleveragents_domain::{Hint, Name, Plan, PlanId, hint, suggest};
use cleveragents_mcp::namespace;
use cleveragents_store::definitions::{self, DefinitionKind};
use cleveragents_store::{Error, Reader, plans};
use cleveragents_tools::ToolName;
use serde_json::Value;

/// A definition that a plan may depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlanDependency<'a> {
    /// A tool of the user, by its full name.
    Tool(&'a str),
    /// An MCP server, by its name.
    Server(&'a str),
}

/// The unfinished plans that use a tool or server, oldest first. Patterns such as `local/*` do not count: an actor with
/// such a pattern also works if no tool matches.
pub(crate) fn active_plans_using(
    reader: &mut dyn Reader,
    used: PlanDependency<'_>,
) -> Result<Vec<PlanId>, Error> {
    let plans = plans::active(reader)?;
    if plans.is_empty() {
        return Ok(Vec::new());
    }
    let definitions = Definitions::read(reader)?;
    let depends = |plan: &&Plan| in_steps(plan, used) || definitions.used_by(plan, used);
    Ok(plans.iter().filter(depends).map(|plan| plan.id).collect())
}

/// The hint to finish the plans that still use a tool or server, so that it can be removed; `None` without plans.
pub(crate) fn finish_hint(plans: &[PlanId]) -> Option<Hint> {
    let plan = plans.first()?;
    Some(hint!(
        "apply them, or cancel them with {}",
        suggest::plan_cancel(plan)
    ))
}

/// True if a text names the dependency: a tool by any of its spellings, a server by one of its tools.
fn is_named_in(text: &str, used: PlanDependency<'_>) -> bool {
    let Ok(tool) = ToolName::from_wire(text.trim()) else {
        return false;
    };
    match used {
        PlanDependency::Tool(name) => tool.canonical().to_string() == name,
        PlanDependency::Server(server) => tool.namespace() == namespace(server),
    }
}

/// True if a step of the plan calls the dependency, or if the plan's task or definition of done names the
/// dependency in backquotes.
fn in_steps(plan: &Plan, used: PlanDependency<'_>) -> bool {
    let steps = plan.strategy.iter().flat_map(|strategy| &strategy.steps);
    let called = steps.filter_map(|step| step.call.as_ref());
    let quoted = [&plan.definition_of_done, &plan.description]
        .into_iter()
        .flat_map(|text| text.split('`').skip(1).step_by(2));
    called
        .map(|call| call.tool.as_str())
        .chain(quoted)
        .any(|tool| is_named_in(tool, used))
}

/// The definitions of actors, skills and tools, by their full names.
struct Definitions {
    actors: BTreeMap<String, Value>,
    skills: BTreeMap<String, Value>,
    tools: BTreeMap<String, Value>,
}

impl Definitions {
    fn read(reader: &mut dyn Reader) -> Result<Self, Error> {
        // An unreadable definition has no dependencies.
        let read = |text: &str| yaml::read::<Value>(text).unwrap_or_default();
        let mut load = |kind| -> Result<BTreeMap<String, Value>, Error> {
            let stored = definitions::list(reader, kind)?.into_iter();
            Ok(stored
                .map(|stored| (stored.name, read(&stored.definition)))
                .collect())
        };
        Ok(Self {
            actors: load(DefinitionKind::Actor)?,
            skills: load(DefinitionKind::Skill)?,
            tools: load(DefinitionKind::Tool)?,
        })
    }

    /// True if the actors of a plan name the dependency, directly or through skills and tools.
    fn used_by(&self, plan: &Plan, used: PlanDependency<'_>) -> bool {
        let actors = &plan.inputs.actors;
        let optional = [&actors.estimation, &actors.invariant, &actors.review];
        let required = [&actors.strategy, &actors.execution];
        let mut open: Vec<&Value> = Vec::new();
        let mut seen = BTreeSet::new();
        for name in required.into_iter().chain(optional.into_iter().flatten()) {
            open.extend(self.definitions_named(name, &mut seen));
        }
        while let Some(file) = open.pop() {
            let mut is_used = false;
            visit_texts(file, None, &mut |text, key| {
                let is_server = match used {
                    PlanDependency::Server(server) => {
                        text == server && matches!(key, Some("mcp_servers" | "name"))
                    }
                    PlanDependency::Tool(_) => false,
                };
                is_used |= is_server || is_named_in(text, used);
                open.extend(self.definitions_named(text, &mut seen));
            });
            if is_used {
                return true;
            }
        }
        false
    }

    /// The actor, skill and tool with this name; empty if the name was visited before.
    fn definitions_named<'a>(&'a self, name: &str, seen: &mut BTreeSet<String>) -> Vec<&'a Value> {
        let full_name = name
            .parse::<Name>()
            .map_or_else(|_| name.to_owned(), |name| name.to_string());
        let all = [&self.actors, &self.skills, &self.tools];
        let definitions: Vec<&Value> = all
            .iter()
            .filter_map(|files| files.get(&full_name))
            .collect();
        if definitions.is_empty() || !seen.insert(full_name) {
            return Vec::new();
        }
        definitions
    }
}

/// Calls `visit` with each text of a definition and the key of that text. Keys of maps count as texts.
fn visit_texts<'a>(
    value: &'a Value,
    key: Option<&str>,
    visit: &mut dyn FnMut(&'a str, Option<&str>),
) {
    match value {
        Value::String(text) => visit(text, key),
        Value::Array(items) => items.iter().for_each(|item| visit_texts(item, key, visit)),
        Value::Object(fields) => {
            for (name, inner) in fields {
                visit(name, key);
                visit_texts(inner, Some(name), visit);
            }
        }
        _ => {}
    }
}
