//! Unfinished plans that use a tool or an MCP server: through their actors, the skills and tools
//! that those name, or a step.
//!
//! Plans keep copies of their action and automation profile, and projects hold their resources.
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

/// Something that a plan may depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlanDependency<'a> {
    /// A tool of the user, by its whole name.
    Tool(&'a str),
    /// An MCP server.
    Server(&'a str),
}

/// The unfinished plans that use something, oldest first. Patterns such as `local/*` do not count:
/// an actor that names one can work without a single tool.
pub(crate) fn active_plans_using(
    reader: &mut dyn Reader,
    used: PlanDependency<'_>,
) -> Result<Vec<PlanId>, Error> {
    let plans = plans::active(reader)?;
    if plans.is_empty() {
        return Ok(Vec::new());
    }
    let files = Files::read(reader)?;
    let needs_it = |plan: &&Plan| in_steps(plan, used) || files.use_it(plan, used);
    Ok(plans.iter().filter(needs_it).map(|plan| plan.id).collect())
}

/// The recovery for plans that still use something.
pub(crate) fn finish_hint(plans: &[PlanId]) -> Option<Hint> {
    let plan = plans.first()?;
    Some(hint!(
        "apply them, or cancel them with {}",
        suggest::plan_cancel(plan)
    ))
}

/// Whether a text names the used thing: a tool by any of its spellings, a server by one of its
/// tools.
fn names(text: &str, used: PlanDependency<'_>) -> bool {
    let Ok(tool) = ToolName::from_wire(text.trim()) else {
        return false;
    };
    match used {
        PlanDependency::Tool(name) => tool.canonical().to_string() == name,
        PlanDependency::Server(server) => tool.namespace() == namespace(server),
    }
}

/// Whether a step of the plan, or an instruction of its definition of done or task, calls it.
fn in_steps(plan: &Plan, used: PlanDependency<'_>) -> bool {
    let steps = plan.strategy.iter().flat_map(|strategy| &strategy.steps);
    let called = steps.filter_map(|step| step.call.as_ref());
    let quoted = [&plan.definition_of_done, &plan.description]
        .into_iter()
        .flat_map(|text| text.split('`').skip(1).step_by(2));
    called
        .map(|call| call.tool.as_str())
        .chain(quoted)
        .any(|tool| names(tool, used))
}

/// The definitions of actors, skills and tools, by their whole names.
struct Files {
    actors: BTreeMap<String, Value>,
    skills: BTreeMap<String, Value>,
    tools: BTreeMap<String, Value>,
}

impl Files {
    fn read(reader: &mut dyn Reader) -> Result<Self, Error> {
        // An unreadable definition names nothing.
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

    /// Whether the actors of a plan name it, directly or indirectly.
    fn use_it(&self, plan: &Plan, used: PlanDependency<'_>) -> bool {
        let actors = &plan.made_with.actors;
        let optional = [&actors.estimation, &actors.invariant, &actors.review];
        let required = [&actors.strategy, &actors.execution];
        let mut open: Vec<&Value> = Vec::new();
        let mut seen = BTreeSet::new();
        for name in required.into_iter().chain(optional.into_iter().flatten()) {
            open.extend(self.files_of(name, &mut seen));
        }
        while let Some(file) = open.pop() {
            let mut found = false;
            each_text(file, None, &mut |text, key| {
                let is_server = match used {
                    PlanDependency::Server(server) => {
                        text == server && matches!(key, Some("mcp_servers" | "name"))
                    }
                    PlanDependency::Tool(_) => false,
                };
                found |= is_server || names(text, used);
                open.extend(self.files_of(text, &mut seen));
            });
            if found {
                return true;
            }
        }
        false
    }

    /// The definitions that a name can mean and that were not visited yet.
    fn files_of<'a>(&'a self, name: &str, seen: &mut BTreeSet<String>) -> Vec<&'a Value> {
        let whole = name
            .parse::<Name>()
            .map_or_else(|_| name.to_owned(), |name| name.to_string());
        let all = [&self.actors, &self.skills, &self.tools];
        let found: Vec<&Value> = all.iter().filter_map(|files| files.get(&whole)).collect();
        if found.is_empty() || !seen.insert(whole) {
            return Vec::new();
        }
        found
    }
}

/// Calls a function with each text of a definition and its key, keys of maps included.
fn each_text<'a>(value: &'a Value, key: Option<&str>, see: &mut dyn FnMut(&'a str, Option<&str>)) {
    match value {
        Value::String(text) => see(text, key),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, key, see)),
        Value::Object(fields) => {
            for (name, inner) in fields {
                see(name, key);
                each_text(inner, Some(name), see);
            }
        }
        _ => {}
    }
}
