//! The built-in tools as declared to models: few, with names and arguments that models know.
//!
//! A [`ModelTool`] combines one or several built-in tools: `git` combines five of them by its argument `command`.
//! Files, rules, stored rows and the command line use the names `builtin/…`. [`ModelTool::translate`] converts a
//! model's call to a call of one built-in tool, so that the capability and the rules of that tool apply. All texts for
//! models use [`model_name`] and [`with_model_names`].

mod aliases;
mod table;
mod translate;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

pub(crate) use aliases::{normalize, properties_of};

use crate::builtin::NAMES;
use crate::name::ToolName;
use crate::registry::compile;
use crate::spec::ToolSpec;

/// A tool as it is declared to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// Name in the model's calls.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON schema of the arguments.
    pub input_schema: Value,
}

impl From<&ToolSpec> for Declaration {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            name: separate_name(&spec.name),
            description: with_model_names(&spec.description),
            input_schema: spec.input_schema.clone(),
        }
    }
}

/// A tool declared to models, which combines one or several built-in tools.
#[derive(Debug)]
pub(crate) struct ModelTool {
    pub(crate) name: &'static str,
    about: &'static str,
    backings: &'static [BackingTool],
    required: &'static [&'static str],
    properties: &'static [Property],
}

/// A built-in tool behind a [`ModelTool`].
#[derive(Debug)]
struct BackingTool {
    tool: &'static str,
    /// Sentence that the description contains when this tool is available.
    about: &'static str,
    /// Whether the model tool is declared when only this tool is available.
    is_enough: bool,
}

/// An argument of a [`ModelTool`].
#[derive(Debug)]
struct Property {
    name: &'static str,
    kind: Kind,
    about: &'static str,
    /// Declared only when one of these built-in tools is available; empty means always.
    tools: &'static [&'static str],
    /// Whether the argument is declared to models. Undeclared arguments are accepted too, because models know them from
    /// other programs.
    is_declared: bool,
}

/// The editing tool that is declared to a model, because models are trained on different formats. A model can also
/// call the tool that is not declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EditTool {
    /// `edit_file`: search and replace.
    #[default]
    EditFile,
    ApplyPatch,
}

/// The selection of the built-in tools that are declared to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolOffer {
    /// The editing tool to declare.
    pub edit: EditTool,
    /// Whether to omit tools that the shell or the editing tool can replace. These tools can still be called.
    pub is_compact: bool,
}

/// Tools that the shell can replace.
const REPLACED_BY_SHELL: [&str; 6] = [
    "search",
    "find_files",
    "list_dir",
    "delete_file",
    "move_file",
    "git",
];

impl ToolOffer {
    /// Returns whether a model tool is declared. `is_available` receives the name of a model tool.
    fn declares(self, tool: &str, is_available: &dyn Fn(&str) -> bool) -> bool {
        match tool {
            "edit_file" => self.edit == EditTool::EditFile || !is_available("apply_patch"),
            "apply_patch" => self.edit == EditTool::ApplyPatch || !is_available("edit_file"),
            "read_output" => !is_available("read_file"),
            // The strategy of a plan is its checklist.
            "update_plan" => !self.is_compact,
            "write_file" => {
                !self.is_compact || !is_available("edit_file") && !is_available("apply_patch")
            }
            tool if REPLACED_BY_SHELL.contains(&tool) => !self.is_compact || !is_available("shell"),
            _ => true,
        }
    }
}

/// The type of an argument.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    /// Non-empty text.
    FilledText,
    Texts,
    Flag,
    /// Integer with this minimum.
    From(u64),
    /// Integer between minimum and maximum.
    Range(u64, u64),
    /// List of replacements in a file.
    Edits,
    /// Entries of a checklist.
    Checklist,
    /// Name of a git command; each is a built-in tool `git-NAME`.
    GitCommand,
}

impl ModelTool {
    /// Finds a tool by its name, or by a name that models know from other programs.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        let name = name.trim().to_ascii_lowercase();
        let known = table::OTHER_NAMES
            .iter()
            .find(|(other, _)| *other == name)
            .map_or(name.as_str(), |(_, name)| name);
        table::TOOLS.iter().find(|tool| tool.name == known)
    }

    /// Returns whether the tool is declared when these built-in tools, given by short name, are available.
    pub(crate) fn is_declared(&self, is_available: &dyn Fn(&str) -> bool) -> bool {
        let mut sufficient = self.backings.iter().filter(|backing| backing.is_enough);
        sufficient.any(|backing| is_available(backing.tool))
    }

    fn stands_for(&self, tool: &str) -> bool {
        self.backings.iter().any(|backing| backing.tool == tool)
    }

    fn declaration(&self, is_available: &dyn Fn(&str) -> bool) -> Declaration {
        let mut description = self.about.to_owned();
        for backing in self.backings {
            if !backing.about.is_empty() && is_available(backing.tool) {
                if !description.is_empty() {
                    description.push(' ');
                }
                description.push_str(backing.about);
            }
        }
        Declaration {
            name: self.name.to_owned(),
            description,
            input_schema: without_bounds(
                self.schema(is_available, |property| property.is_declared),
            ),
        }
    }

    /// The schema of the selected arguments that apply to the available built-in tools.
    fn schema(
        &self,
        is_available: &dyn Fn(&str) -> bool,
        is_selected: impl Fn(&Property) -> bool,
    ) -> Value {
        let mut properties = Map::new();
        for property in self
            .properties
            .iter()
            .filter(|property| is_selected(property))
        {
            let tools = property.tools;
            if tools.is_empty() || tools.iter().any(|tool| is_available(tool)) {
                let commands = || {
                    let tools = self.backings.iter().map(|backing| backing.tool);
                    tools
                        .filter(|tool| is_available(tool))
                        .filter_map(|tool| tool.strip_prefix("git-"))
                        .collect()
                };
                properties.insert(property.name.to_owned(), property.schema(commands));
            }
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema
    }

    /// The schema that validates calls, and its validator.
    pub(crate) fn checks(&self) -> &'static (Value, Validator) {
        static CHECKS: LazyLock<BTreeMap<&'static str, (Value, Validator)>> = LazyLock::new(|| {
            let checks = table::TOOLS.iter().map(|tool| {
                let mut schema = tool.schema(&|_| true, |_| true);
                schema["additionalProperties"] = Value::Bool(false);
                if tool.name == "edit_file" {
                    // Only `path` is always required: a call has either `edits`, or one edit at the top level. The
                    // translation reports missing arguments.
                    schema["required"] = json!(["path"]);
                }
                let validator = compile(&schema).expect("the schemas of model tools are valid");
                (tool.name, (schema, validator))
            });
            checks.collect()
        });
        CHECKS
            .get(self.name)
            .expect("every model tool of the table has a validator")
    }
}

/// Removes limits on lengths and numbers from a schema. Providers ignore most of these limits, and calls are
/// validated against the complete schema.
pub fn without_bounds(mut schema: Value) -> Value {
    remove_bounds(&mut schema);
    schema
}

fn remove_bounds(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    fields.retain(|name, value| {
        let is_bound = matches!(
            name.as_str(),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minimum" | "maximum"
        );
        // Keep a property with the name of a bound, such as `maximum`: its value is a schema, which is an object.
        !is_bound || value.is_object()
    });
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(remove_bounds);
            }
            (_, value) => remove_bounds(value),
        }
    }
}

impl Property {
    fn schema(&self, commands: impl FnOnce() -> Vec<&'static str>) -> Value {
        let mut schema = match self.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::FilledText => json!({"type": "string", "minLength": 1}),
            Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::From(minimum) => json!({"type": "integer", "minimum": minimum}),
            Kind::Range(minimum, maximum) => {
                json!({"type": "integer", "minimum": minimum, "maximum": maximum})
            }
            Kind::Edits => json!({"type": "array", "minItems": 1, "items": {
                "type": "object",
                "properties": {
                    "old_string": {"type": "string"},
                    "new_string": {"type": "string"},
                    "replace_all": {"type": "boolean"},
                },
                "required": ["old_string", "new_string"],
            }}),
            Kind::Checklist => json!({"type": "array", "minItems": 1, "items": {
                "type": "object",
                "properties": {
                    "step": {"type": "string"},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                },
                "required": ["step", "status"],
            }}),
            Kind::GitCommand => json!({"type": "string", "enum": commands()}),
        };
        if !self.about.is_empty() {
            schema["description"] = self.about.into();
        }
        schema
    }
}

/// Declarations for the model: built-in tools combined into model tools, all others unchanged.
pub(crate) fn declarations<'s>(
    specs: impl Iterator<Item = &'s ToolSpec>,
    offer: ToolOffer,
) -> Vec<Declaration> {
    let specs: Vec<&ToolSpec> = specs.collect();
    let is_available = |tool: &str| {
        specs
            .iter()
            .any(|spec| spec.name.is_builtin() && spec.name.short() == tool)
    };
    let merged: Vec<&ModelTool> = table::TOOLS
        .iter()
        .filter(|tool| tool.is_declared(&is_available))
        .collect();
    let is_merged = |spec: &ToolSpec| {
        spec.name.is_builtin() && merged.iter().any(|tool| tool.stands_for(spec.name.short()))
    };
    let others = specs.iter().filter(|spec| !is_merged(spec));
    let is_known = |name: &str| merged.iter().any(|tool| tool.name == name);
    merged
        .iter()
        .filter(|tool| offer.declares(tool.name, &is_known))
        .map(|tool| tool.declaration(&is_available))
        .chain(others.map(|spec| Declaration::from(*spec)))
        .collect()
}

/// The name of a tool in texts that a model reads: `read_file`, `git commit`, `local_S_count`.
pub(crate) fn model_name(tool: &ToolName) -> String {
    if !tool.is_builtin() {
        return tool.wire_name();
    }
    let short = tool.short();
    if let Some(command) = short.strip_prefix("git-") {
        return format!("git {command}");
    }
    table::TOOLS
        .iter()
        .find(|model_tool| model_tool.stands_for(short))
        .map_or_else(|| separate_name(tool), |tool| tool.name.to_owned())
}

/// The name of a tool that is declared separately, not as part of a model tool.
pub(crate) fn separate_name(tool: &ToolName) -> String {
    if tool.is_builtin() {
        tool.short().replace('-', "_")
    } else {
        tool.wire_name()
    }
}

/// Replaces names of built-in tools in a text by the names that models know.
pub fn with_model_names(text: &str) -> String {
    const PREFIX: &str = "builtin/";
    let mut replaced = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(at) = remaining.find(PREFIX) {
        let (before, name) = (&remaining[..at], &remaining[at + PREFIX.len()..]);
        replaced.push_str(before);
        let length = name
            .find(|letter: char| {
                !letter.is_ascii_lowercase() && !letter.is_ascii_digit() && letter != '-'
            })
            .unwrap_or(name.len());
        let short = &name[..length];
        let known = NAMES.iter().find(|known| **known == short);
        if let Some(known) = known {
            replaced.push_str(&model_name(&ToolName::builtin(known)));
        } else {
            replaced.push_str(PREFIX);
            replaced.push_str(short);
        }
        remaining = &name[length..];
    }
    replaced.push_str(remaining);
    replaced
}

/// The tool that a call would run, for display: the built-in tool that a model tool selects by the arguments, or else
/// the tool with that name. `None` when the name is invalid.
pub fn called_tool(name: &str, arguments: &str) -> Option<ToolName> {
    resolve_call(name, arguments).map(|(tool, _)| tool)
}

/// The tool that a call would run, and the arguments in the form of that tool. Arguments that cannot be converted are
/// returned unchanged; the call itself reports the error.
pub fn resolve_call(name: &str, arguments: &str) -> Option<(ToolName, Value)> {
    let given: Value = serde_json::from_str(arguments).unwrap_or_default();
    if let Some(tool) = ModelTool::find(name) {
        let mut arguments = given.clone();
        let _explained_when_called = tool.normalize_arguments(&mut arguments);
        let selected = ToolName::builtin(tool.select_tool(&arguments));
        return Some(match tool.translate(arguments) {
            Ok(call) => (ToolName::builtin(call.tool), call.arguments),
            Err(_) => (selected, given),
        });
    }
    if !name.contains("_S_")
        && let Ok(built_in) = format!("{}/{}", ToolName::BUILTIN, name.trim()).parse::<ToolName>()
        && (NAMES.contains(&built_in.canonical().short()) || name == "search_tools")
    {
        return Some((built_in.canonical(), given));
    }
    let tool = ToolName::from_wire(name.trim()).ok()?;
    Some((tool.canonical(), given))
}

#[cfg(test)]
mod tests;
