//! [`Settings`]: the model settings at one place of a file.

use cleveragents_domain::DefinitionFault;
use jsonschema::PatternOptions;
use serde_json::{Map, Value};

use super::Compiler;
use super::argument::template_in;
use super::resolver::ToolSource;
use crate::expression::Template;
use crate::file::{
    Fields, MEMORY, TOOL_CALL, TOOL_SOURCE, Tree, WithPosition, broken_rule, list, map, text,
    unexpected,
};
use crate::graph::{Agent, Memory, ResponseFormat};

/// Model settings at one place; `None` where nothing is set.
#[derive(Default, Clone)]
pub(super) struct Settings {
    pub(super) model: Option<String>,
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
    /// Fills missing settings from `others`.
    pub(super) fn or(self, others: Self) -> Self {
        let mut options = others.options;
        options.extend(self.options);
        // Naming any tool, skill or server replaces all inherited tools, skills and servers.
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

    pub(super) fn only_model(model: Option<String>) -> Self {
        Self {
            model,
            ..Self::default()
        }
    }

    /// Settings of a compiled agent.
    pub(super) fn from_agent(agent: &Agent) -> Self {
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

    pub(super) fn finish(self, name: &str) -> Agent {
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
            remote: None,
        }
    }
}
impl<'c> Compiler<'c> {
    /// Reads the model settings of an actor, a node or a graph.
    pub(super) fn settings(&self, fields: &Fields<'c>) -> Result<Settings, DefinitionFault> {
        let mut settings = Settings {
            model: model(fields)?,
            system_prompt: template_in(fields, "system_prompt")?,
            temperature: temperature(fields)?,
            max_output_tokens: fields
                .count("max_output_tokens")?
                .as_ref()
                .map(tokens)
                .transpose()?,
            reasoning_effort: fields.text("reasoning_effort")?.map(|text| text.value),
            response_format: fields
                .get("response_format")
                .map(response_format)
                .transpose()?,
            memory: self.memory(fields)?,
            context_view: fields.word("context_view", VIEWS)?.map(str::to_owned),
            ..Settings::default()
        };
        self.tool_sources(fields, &mut settings)?;
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

    /// Reads tools, skills and servers, and fails when any of them does not exist.
    fn tool_sources(
        &self,
        fields: &Fields<'c>,
        settings: &mut Settings,
    ) -> Result<(), DefinitionFault> {
        let mut given: Vec<(ToolSource, WithPosition<String>)> = Vec::new();
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
                    given.push((ToolSource::Tool, name));
                }
                settings.tools = Some(Vec::new());
            }
            Some(single_tool) => given.push((ToolSource::Tool, text(single_tool)?)),
            None => {}
        }
        for (field, kind) in [
            ("skills", ToolSource::Skill),
            ("mcp_servers", ToolSource::McpServer),
        ] {
            given.extend(fields.texts(field)?.into_iter().map(|name| (kind, name)));
        }
        for source in fields.get("tool_sources").map_or(Ok(&[][..]), list)? {
            let source = self.open(source, &TOOL_SOURCE)?;
            let mut name = text(source.needed("name", "a source of tools")?)?;
            let kind = source.word("type", SOURCES)?.unwrap_or(Source::Tool);
            let kind = match kind {
                Source::Skill => ToolSource::Skill,
                Source::McpServer => ToolSource::McpServer,
                Source::Tool => ToolSource::Tool,
                Source::Builtin => {
                    if !name.value.contains('/') {
                        name.value = format!("builtin/{}", name.value);
                    }
                    ToolSource::Tool
                }
            };
            given.push((kind, name));
        }
        for (kind, name) in given {
            self.require(kind, &name)?;
            let list = match kind {
                ToolSource::Tool => &mut settings.tools,
                ToolSource::Skill => &mut settings.skills,
                ToolSource::McpServer => &mut settings.mcp_servers,
            };
            list.get_or_insert_default().push(name.value);
        }
        Ok(())
    }

    fn memory(&self, fields: &Fields<'c>) -> Result<Option<Memory>, DefinitionFault> {
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

/// Views of a project's context, with their legacy names.
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

/// The model as `provider/model`. `provider` overrides the provider in the model's name.
pub(super) fn model(fields: &Fields<'_>) -> Result<Option<String>, DefinitionFault> {
    let provider = fields.text("provider")?;
    let Some(model) = fields.text("model")? else {
        return match provider {
            None => Ok(None),
            Some(provider) => {
                let message = format!("`provider: {}` requires a `model`", provider.value);
                Err(broken_rule(provider.place, message, "add `model: …`"))
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
            let message = format!("the provider of the model `{}` is unknown", model.value);
            let fix = format!("write `provider/{}`, or add `provider: …`", model.value);
            Err(broken_rule(model.place, message, fix))
        }
    }
}

fn temperature(fields: &Fields<'_>) -> Result<Option<f64>, DefinitionFault> {
    fields
        .number("temperature")?
        .as_ref()
        .map(checked_temperature)
        .transpose()
}

fn checked_temperature(temperature: &WithPosition<f64>) -> Result<f64, DefinitionFault> {
    if !(0.0..=2.0).contains(&temperature.value) {
        let message = format!("a temperature of {} is out of range", temperature.value);
        let fix = "write a number from 0 to 2";
        return Err(broken_rule(temperature.place, message, fix));
    }
    Ok(temperature.value)
}

fn tokens(count: &WithPosition<u64>) -> Result<u32, DefinitionFault> {
    u32::try_from(count.value)
        .ok()
        .filter(|tokens| *tokens > 0)
        .ok_or_else(|| {
            let message = format!("an answer of {} tokens is out of range", count.value);
            broken_rule(count.place, message, "write a number of tokens, at least 1")
        })
}

/// Reads `options`. An option with a field of its own is treated like that field; API keys and base URLs are refused.
fn read_options(tree: &WithPosition<Tree>, settings: &mut Settings) -> Result<(), DefinitionFault> {
    for (name, value) in map(tree)? {
        let word = name.value.to_lowercase();
        if word.contains("api_key") || word.contains("secret") || word.contains("password") {
            return Err(broken_rule(
                name.place,
                format!("`{}` does not belong in a file", name.value),
                "remove it: keys come from the environment or the keyring (docs/reference/models.md)",
            ));
        }
        if word.ends_with("api_base") || word == "base_url" {
            return Err(broken_rule(
                name.place,
                format!("`{}` cannot be set here", name.value),
                "define the provider in models.yaml (docs/reference/models.md)",
            ));
        }
        let number = match &value.value {
            Tree::Number(number) => number.as_f64(),
            _ => None,
        };
        let wrong = || unexpected(value, "a number", "write a number");
        match name.value.as_str() {
            "temperature" => {
                let given = WithPosition::new(number.ok_or_else(wrong)?, value.place);
                let given = checked_temperature(&given)?;
                settings.temperature.get_or_insert(given);
            }
            "max_tokens" | "max_output_tokens" => {
                let given = match &value.value {
                    Tree::Number(number) => number.as_u64().ok_or_else(wrong)?,
                    _ => return Err(wrong()),
                };
                let given = tokens(&WithPosition::new(given, value.place))?;
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

/// Reads a JSON schema, plain or in the wrapper that providers use.
fn response_format(
    tree: &WithPosition<Tree>,
) -> Result<(Option<String>, Value, bool), DefinitionFault> {
    let wrong = |why: String| {
        let fix = "write a JSON schema: `{type: object, properties: {…}, required: […]}`";
        broken_rule(tree.place, why, fix)
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
                    "a `json_schema` requires the field `schema`".to_owned(),
                ));
            }
            (name, inner["schema"].clone(), strict)
        }
        _ => {
            let why = "the type of a response format must be `object` or `json_schema`";
            return Err(wrong(why.to_owned()));
        }
    };
    jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex())
        .build(&schema)
        .map_err(|error| wrong(format!("this is not a valid JSON schema: {error}")))?;
    Ok((name, schema, strict))
}
