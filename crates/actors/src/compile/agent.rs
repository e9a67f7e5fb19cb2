//! What files say about models: [`Settings`], and how those of a node, an actor and a graph are laid over
//! each other.

use std::sync::Arc;

use jsonschema::PatternOptions;
use serde_json::{Map, Value};

use super::resolver::{Supply, Trail};
use super::{Compiler, Found};
use crate::expression::Template;
use crate::file::{
    At, Complaint, Fields, MEMORY, TOOL_CALL, TOOL_SOURCE, Tree, list, map, text, unexpected,
};
use crate::graph::{Actor, ActorKind, Agent, Memory, NodeKind, ResponseFormat, Role};

/// What is said about a model in one place; nothing where nothing is said.
#[derive(Default, Clone)]
pub(super) struct Settings {
    model: Option<String>,
    system_prompt: Option<Template>,
    temperature: Option<f64>,
    max_output_tokens: Option<u32>,
    reasoning_effort: Option<String>,
    tools: Option<Vec<String>>,
    skills: Option<Vec<String>>,
    mcp_servers: Option<Vec<String>>,
    pub(super) response_format: Option<(Option<String>, Value, bool)>,
    memory: Option<Memory>,
    context_view: Option<String>,
    options: Map<String, Value>,
}

impl Settings {
    /// These, and what only the others say.
    pub(super) fn or(self, others: Self) -> Self {
        let mut options = others.options;
        options.extend(self.options);
        // Who names tools anywhere means all of them.
        let names_tools =
            self.tools.is_some() || self.skills.is_some() || self.mcp_servers.is_some();
        let (tools, skills, mcp_servers) = if names_tools {
            (self.tools, self.skills, self.mcp_servers)
        } else {
            (others.tools, others.skills, others.mcp_servers)
        };
        Self {
            model: self.model.or(others.model),
            system_prompt: self.system_prompt.or(others.system_prompt),
            temperature: self.temperature.or(others.temperature),
            max_output_tokens: self.max_output_tokens.or(others.max_output_tokens),
            reasoning_effort: self.reasoning_effort.or(others.reasoning_effort),
            tools,
            skills,
            mcp_servers,
            response_format: self.response_format.or(others.response_format),
            memory: self.memory.or(others.memory),
            context_view: self.context_view.or(others.context_view),
            options,
        }
    }

    /// Those of an agent that is known already.
    fn of(agent: &Agent) -> Self {
        let some = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
        Self {
            model: agent.model.clone(),
            system_prompt: agent.system_prompt.clone(),
            temperature: agent.temperature,
            max_output_tokens: agent.max_output_tokens,
            reasoning_effort: agent.reasoning_effort.clone(),
            tools: some(&agent.tools),
            skills: some(&agent.skills),
            mcp_servers: some(&agent.mcp_servers),
            response_format: agent
                .response_format
                .clone()
                .map(|format| (Some(format.name), format.schema, format.strict)),
            memory: Some(agent.memory),
            context_view: agent.context_view.clone(),
            options: agent.options.clone(),
        }
    }

    fn finish(self, name: &str) -> Agent {
        let format_name = || {
            let safe = |letter: char| {
                if letter.is_ascii_alphanumeric() || letter == '-' {
                    letter
                } else {
                    '_'
                }
            };
            name.chars().map(safe).take(64).collect()
        };
        Agent {
            name: name.to_owned(),
            model: self.model,
            system_prompt: self.system_prompt,
            temperature: self.temperature,
            max_output_tokens: self.max_output_tokens,
            reasoning_effort: self.reasoning_effort,
            tools: self.tools.unwrap_or_default(),
            skills: self.skills.unwrap_or_default(),
            mcp_servers: self.mcp_servers.unwrap_or_default(),
            response_format: self
                .response_format
                .map(|(name, schema, strict)| ResponseFormat {
                    name: name.unwrap_or_else(format_name),
                    schema,
                    strict,
                }),
            memory: self.memory.unwrap_or_default(),
            context_view: self.context_view,
            options: self.options,
        }
    }
}

/// The fields that say something about a model.
const OWN: &[&str] = &[
    "provider",
    "model",
    "system_prompt",
    "temperature",
    "max_output_tokens",
    "reasoning_effort",
    "top_p",
    "tools",
    "skills",
    "mcp_servers",
    "tool_sources",
    "response_format",
    "memory",
    "context_view",
    "options",
];

/// Whether a field says something about a model.
pub(super) fn is_about_models(field: &str) -> bool {
    OWN.contains(&field)
}

impl<'c> Compiler<'c> {
    /// The agent that an actor's fields describe, or the actor that they do nothing but name.
    pub(super) fn agent_of(
        &self,
        fields: &Fields<'c>,
        trail: &Trail<'_>,
        name: &str,
    ) -> Result<Found, Complaint> {
        let own = self.settings(fields)?;
        // A model that the whole file names holds for actors that name none.
        let below = Settings {
            model: model(&self.top)?,
            ..Settings::default()
        };
        self.laid_over(fields, own, below, trail, Some(name))
    }

    /// The agent of a node in a graph. What the graph says holds for agents that say nothing else; a
    /// named one only takes its model from there.
    pub(super) fn agent_in(
        &self,
        fields: &Fields<'c>,
        defaults: &Settings,
        trail: &Trail<'_>,
        name: &str,
    ) -> Result<Found, Complaint> {
        let own = self.settings(fields)?;
        if fields.get("actor").is_none() {
            let mut defaults = defaults.clone();
            // The form of the graph's answer is not that of every node.
            defaults.response_format = None;
            return Ok(Found::Agent(Arc::new(own.or(defaults).finish(name))));
        }
        let defaults = Settings {
            model: defaults.model.clone(),
            ..Settings::default()
        };
        self.laid_over(fields, own, defaults, trail, None)
    }

    /// What is said here over what the named actor says over what lies below. A definition has a name
    /// of its own; a node only uses somebody.
    fn laid_over(
        &self,
        fields: &Fields<'c>,
        own: Settings,
        below: Settings,
        trail: &Trail<'_>,
        name: Option<&str>,
    ) -> Result<Found, Complaint> {
        let Some(named) = fields.text("actor")? else {
            let agent = own.or(below).finish(name.unwrap_or_default());
            return Ok(Found::Agent(Arc::new(agent)));
        };
        let is_changed = fields.written().any(|(field, _)| is_about_models(field));
        match self.refer(&named, trail)? {
            Found::Agent(agent) if !is_changed && agent.model.is_some() && name.is_none() => {
                Ok(Found::Agent(agent))
            }
            Found::Agent(agent) => {
                let settings = own.or(Settings::of(&agent)).or(below);
                let name = name.unwrap_or(&agent.name);
                Ok(Found::Agent(Arc::new(settings.finish(name))))
            }
            Found::Actor(actor) if !is_changed => Ok(Found::Actor(actor)),
            Found::Actor(_) => {
                let changed = fields
                    .written()
                    .find(|(field, _)| is_about_models(field))
                    .map_or(&named, |(_, written)| written);
                let message = format!(
                    "`{}` cannot be changed from here: `{}` is more than a model",
                    changed.value, named.value
                );
                let fix = format!("leave it out, or change `{}` itself", named.value);
                Err(Complaint::rule(changed.place, message, fix))
            }
        }
    }

    pub(super) fn settings(&self, fields: &Fields<'c>) -> Result<Settings, Complaint> {
        let mut settings = Settings {
            model: model(fields)?,
            system_prompt: self.template(fields, "system_prompt")?,
            temperature: temperature(fields)?,
            max_output_tokens: fields.count("max_output_tokens")?.map(tokens).transpose()?,
            reasoning_effort: fields.text("reasoning_effort")?.map(|text| text.value),
            response_format: fields
                .get("response_format")
                .map(response_format)
                .transpose()?,
            memory: self.memory(fields)?,
            context_view: fields.word("context_view", VIEWS)?.map(str::to_owned),
            ..Settings::default()
        };
        self.supplies(fields, &mut settings)?;
        if let Some(options) = fields.get("options") {
            read_options(options, &mut settings)?;
        }
        if let Some(top_p) = fields.number("top_p")? {
            settings
                .options
                .insert("top_p".to_owned(), top_p.value.into());
        }
        Ok(settings)
    }

    /// Tools, skills and servers; each must exist.
    fn supplies(&self, fields: &Fields<'c>, settings: &mut Settings) -> Result<(), Complaint> {
        let mut given: Vec<(Supply, At<String>)> = Vec::new();
        match fields.get("tools") {
            Some(tree) if matches!(tree.value, Tree::List(_)) => {
                for item in list(tree)? {
                    let name = match &item.value {
                        Tree::Map(_) => {
                            let call = self.open(item, &TOOL_CALL)?;
                            text(call.needed("tool", "a tool")?)?
                        }
                        _ => text(item)?,
                    };
                    given.push((Supply::Tool, name));
                }
                settings.tools = Some(Vec::new());
            }
            Some(one) => given.push((Supply::Tool, text(one)?)),
            None => {}
        }
        for (field, kind) in [
            ("skills", Supply::Skill),
            ("mcp_servers", Supply::McpServer),
        ] {
            given.extend(fields.texts(field)?.into_iter().map(|name| (kind, name)));
        }
        for source in fields.get("tool_sources").map_or(Ok(&[][..]), list)? {
            let source = self.open(source, &TOOL_SOURCE)?;
            let mut name = text(source.needed("name", "a source of tools")?)?;
            let kind = source.word("type", SOURCES)?.unwrap_or(Source::Tool);
            let kind = match kind {
                Source::Skill => Supply::Skill,
                Source::McpServer => Supply::McpServer,
                Source::Tool => Supply::Tool,
                Source::Builtin => {
                    if !name.value.contains('/') {
                        name.value = format!("builtin/{}", name.value);
                    }
                    Supply::Tool
                }
            };
            given.push((kind, name));
        }
        for (kind, name) in given {
            self.require(kind, &name)?;
            let list = match kind {
                Supply::Tool => &mut settings.tools,
                Supply::Skill => &mut settings.skills,
                Supply::McpServer => &mut settings.mcp_servers,
            };
            list.get_or_insert_default().push(name.value);
        }
        Ok(())
    }

    fn memory(&self, fields: &Fields<'c>) -> Result<Option<Memory>, Complaint> {
        let Some(tree) = fields.get("memory") else {
            return Ok(None);
        };
        let memory = self.open(tree, &MEMORY)?;
        let max_messages = memory.count("max_messages")?;
        Ok(Some(Memory {
            enabled: memory.flag("enabled")?.unwrap_or(true),
            max_messages: max_messages
                .map(|count| usize::try_from(count.value).unwrap_or(usize::MAX)),
            max_tokens: memory.count("max_tokens")?.map(|count| count.value),
        }))
    }
}

#[derive(Clone, Copy)]
enum Source {
    Skill,
    McpServer,
    Tool,
    Builtin,
}

const SOURCES: &[(&str, Source)] = &[
    ("skill", Source::Skill),
    ("agent_skill", Source::Skill),
    ("mcp", Source::McpServer),
    ("mcp_server", Source::McpServer),
    ("tool", Source::Tool),
    ("builtin", Source::Builtin),
];

/// The views of a project's context, with the names that they had.
const VIEWS: &[(&str, &str)] = &[
    ("strategize", "strategize"),
    ("execute", "execute"),
    ("apply", "apply"),
    ("default", "default"),
    ("strategist", "strategize"),
    ("executor", "execute"),
    ("reviewer", "apply"),
    ("full", "default"),
];

/// The model as `provider/model`. A provider that is named wins over the one in the model's name.
fn model(fields: &Fields<'_>) -> Result<Option<String>, Complaint> {
    let provider = fields.text("provider")?;
    let Some(model) = fields.text("model")? else {
        return match provider {
            None => Ok(None),
            Some(provider) => {
                let message = format!("`{}` has many models, and none is named", provider.value);
                Err(Complaint::rule(provider.place, message, "add `model: …`"))
            }
        };
    };
    match provider {
        Some(provider) => {
            let provider = provider.value.to_lowercase();
            let prefix = format!("{provider}/");
            Ok(Some(if model.value.starts_with(&prefix) {
                model.value
            } else {
                prefix + &model.value
            }))
        }
        None if model
            .value
            .split_once('/')
            .is_some_and(|(before, after)| !before.is_empty() && !after.is_empty()) =>
        {
            Ok(Some(model.value))
        }
        None => {
            let message = format!("nobody knows whose model `{}` is", model.value);
            let fix = format!("write `provider/{}`, or add `provider: …`", model.value);
            Err(Complaint::rule(model.place, message, fix))
        }
    }
}

fn temperature(fields: &Fields<'_>) -> Result<Option<f64>, Complaint> {
    let Some(temperature) = fields.number("temperature")? else {
        return Ok(None);
    };
    if !(0.0..=2.0).contains(&temperature.value) {
        let message = format!("a temperature of {} is not possible", temperature.value);
        let fix = "write a number from 0 to 2";
        return Err(Complaint::rule(temperature.place, message, fix));
    }
    Ok(Some(temperature.value))
}

fn tokens(count: At<u64>) -> Result<u32, Complaint> {
    u32::try_from(count.value)
        .ok()
        .filter(|tokens| *tokens > 0)
        .ok_or_else(|| {
            let message = format!("an answer of {} tokens is not possible", count.value);
            Complaint::rule(count.place, message, "write how many tokens, at least 1")
        })
}

/// Options that have a field of their own are taken as if they stood there; keys are refused.
fn read_options(tree: &At<Tree>, settings: &mut Settings) -> Result<(), Complaint> {
    for (name, value) in map(tree)? {
        let word = name.value.to_lowercase();
        if word.contains("api_key") || word.contains("secret") || word.contains("password") {
            return Err(Complaint::rule(
                name.place,
                format!("`{}` does not belong in a file", name.value),
                "leave it out: keys come from the environment or the keyring (docs/models.md)",
            ));
        }
        if word.ends_with("api_base") || word == "base_url" {
            return Err(Complaint::rule(
                name.place,
                format!("`{}` cannot be said here", name.value),
                "describe the provider in models.yaml (docs/models.md)",
            ));
        }
        let number = match &value.value {
            Tree::Number(number) => number.as_f64(),
            _ => None,
        };
        let wrong = || unexpected(value, "a number", "write a number");
        match name.value.as_str() {
            "temperature" => {
                let given = number.ok_or_else(wrong)?;
                settings.temperature.get_or_insert(given);
            }
            "max_tokens" | "max_output_tokens" => {
                let given = match &value.value {
                    Tree::Number(number) => number.as_u64().ok_or_else(wrong)?,
                    _ => return Err(wrong()),
                };
                let given = tokens(At::new(given, value.place))?;
                settings.max_output_tokens.get_or_insert(given);
            }
            "reasoning_effort" => {
                let given = text(value)?.value;
                settings.reasoning_effort.get_or_insert(given);
            }
            _ => {
                settings
                    .options
                    .insert(name.value.clone(), value.value.json());
            }
        }
    }
    Ok(())
}

/// A JSON schema, by itself or in the wrapper that providers use.
fn response_format(tree: &At<Tree>) -> Result<(Option<String>, Value, bool), Complaint> {
    let wrong = |why: String| {
        let fix = "write a JSON schema: `{type: object, properties: {…}, required: […]}`";
        Complaint::rule(tree.place, why, fix)
    };
    map(tree)?;
    let given = tree.value.json();
    let (name, schema, strict) = match given["type"].as_str() {
        Some("object") => (None, given, true),
        Some("json_schema") => {
            let inner = match &given["json_schema"] {
                inner @ Value::Object(_) => inner,
                _ => &given,
            };
            let name = inner["name"].as_str().map(str::to_owned);
            let strict = inner["strict"].as_bool().unwrap_or(true);
            if !inner["schema"].is_object() {
                return Err(wrong(
                    "a `json_schema` has its schema in `schema`".to_owned(),
                ));
            }
            (name, inner["schema"].clone(), strict)
        }
        _ => {
            let why = "the type of a response format is `object` or `json_schema`";
            return Err(wrong(why.to_owned()));
        }
    };
    jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex())
        .build(&schema)
        .map_err(|error| wrong(format!("this is not a JSON schema: {error}")))?;
    Ok((name, schema, strict))
}

/// Fields that only graphs have, at an actor that is none.
pub(super) fn refuse_graph_fields(fields: &Fields<'_>, kind: ActorKind) -> Result<(), Complaint> {
    const GRAPH: &[&str] = &[
        "nodes",
        "edges",
        "entry_node",
        "exit_nodes",
        "route",
        "graph_descriptor",
    ];
    let word = if kind == ActorKind::Llm {
        "llm"
    } else {
        "tool"
    };
    let is_wrong = |field: &str| {
        GRAPH.contains(&field)
            || (kind == ActorKind::Tool && is_about_models(field) && field != "tools")
            || (kind == ActorKind::Llm && field == "arguments")
    };
    match fields.written().find(|(field, _)| is_wrong(field)) {
        None => Ok(()),
        Some((_, written)) => {
            let message = format!(
                "`{}` does not belong to an actor of the type `{word}`",
                written.value
            );
            let fix = "leave it out, or write another `type`";
            Err(Complaint::rule(written.place, message, fix))
        }
    }
}

/// Warns of a role that the actor does not look like.
pub(super) fn check_role(actor: &Actor, warnings: &mut Vec<String>) {
    let Some(role) = actor.role else {
        return;
    };
    let agents: Vec<&Agent> = actor
        .graph
        .nodes
        .iter()
        .filter_map(|node| match &node.kind {
            NodeKind::Agent(node) => Some(&*node.agent),
            _ => None,
        })
        .collect();
    if role == Role::Estimation && !agents.iter().any(|agent| agent.response_format.is_some()) {
        warnings
            .push("an estimation actor answers in numbers: give it a `response_format`".to_owned());
    }
    let fitting = match role {
        Role::Strategy | Role::Estimation | Role::InvariantReconciliation => "strategize",
        Role::Execution => "execute",
        Role::Review => "apply",
    };
    for view in agents
        .iter()
        .filter_map(|agent| agent.context_view.as_deref())
    {
        if view != fitting && view != "default" {
            warnings.push(format!(
                "the role is usually given the context view `{fitting}`, and this asks for `{view}`"
            ));
        }
    }
}
