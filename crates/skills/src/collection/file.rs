//! Parses a skill from YAML. References are not resolved here.

use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::yaml::{self, Expand, Fault, Variables};
use cleveragents_domain::{DefinitionFault, DefinitionFileError, DefinitionKind, Name, nearest};
use cleveragents_tools::custom::{CustomTool, Inline};
use cleveragents_tools::{CapabilityChange, Category, Tool as _, ToolName};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::entries::{CollectionFile, GroupMap, IncludeMap, Servers, ToolMap, WrappedDefinition};
use super::{Include, Place, Server, Skill, SkillToolUse};

/// Maximum size of a skill file, in bytes.
const MAX_FILE_SIZE: usize = 1 << 20;

/// Groups of built-in tools, with their aliases.
const GROUPS: [(Category, &[&str]); 5] = [
    (
        Category::FileOperations,
        &["file", "files", "file_operations"],
    ),
    (
        Category::DirectoryOperations,
        &["directory", "directories", "dir", "directory_operations"],
    ),
    (Category::GitOperations, &["git", "git_operations"]),
    (Category::ShellOperations, &["shell", "shell_operations"]),
    (Category::Conversation, &["conversation"]),
];

/// Reads a skill from the text of its file. `variables` returns the values of `${NAME}`; variables in
/// definitions of servers are not replaced, because they may be secrets.
pub fn read(
    text: &str,
    file: &Path,
    variables: Variables<'_>,
) -> Result<Skill, DefinitionFileError> {
    read_definition(text)
        .and_then(|definition| definition.finish(&Expand { text, variables }, file))
        .map_err(|fault| fault.in_file(file, DefinitionKind::Skill, text))
}

fn read_definition(text: &str) -> Result<CollectionFile, DefinitionFault> {
    if text.len() > MAX_FILE_SIZE {
        let message = format!("the file is larger than {MAX_FILE_SIZE} bytes");
        return Err(Fault::new(message)
            .fixed_by("split it into several skills, and include them")
            .into());
    }
    let probe: Value = yaml::read(text)?;
    let Some(top) = probe.as_object() else {
        let message = "the file does not contain a map with `name`, `description` and the other fields of a skill";
        return Err(Fault::new(message)
            .fixed_by("write `name: …`, `description: …` and `tools: […]`, each on its own line")
            .into());
    };
    let (header, mut definition) = if top.contains_key("skill") {
        let wrapped: WrappedDefinition = yaml::read(text)?;
        (wrapped.cleveragents, wrapped.skill)
    } else {
        (None, yaml::read::<CollectionFile>(text)?)
    };
    let header = header.or_else(|| definition.cleveragents.take());
    yaml::check_version(header.as_ref().and_then(|header| header.version.as_ref()))?;
    Ok(definition)
}

fn place<T>(value: &Spanned<T>) -> Place {
    (value.referenced.line(), value.referenced.column())
}

impl CollectionFile {
    fn finish(mut self, expand: &Expand<'_>, file: &Path) -> Result<Skill, DefinitionFault> {
        expand.text(&mut self.name.value)?;
        expand.text(&mut self.description.value)?;
        let name = skill_name(&self.name)?;
        name.require_free_namespace().map_err(|error| {
            DefinitionFault::rule(
                Fault::at(&self.name, error.to_string()),
                "choose another namespace, such as `local/`",
            )
        })?;
        if self.description.value.trim().is_empty() {
            return Err(DefinitionFault::rule(
                Fault::at(&self.description, "the description is empty"),
                "describe in one sentence what the skill is for",
            ));
        }
        let empty_error = Fault::at(&self.name, "the skill is empty");
        let skill = Skill {
            description: self.description.value,
            includes: each(self.includes, |entry| include(entry.0, expand))?,
            tools: each(self.tools, |entry| tool_use(entry.0, expand))?,
            groups: self
                .builtins
                .into_iter()
                .map(|entry| group(entry, expand))
                .collect::<Result<_, _>>()?,
            anonymous: anonymous(self.anonymous_tools, &name, expand, file)?,
            servers: servers(self.mcp_servers)?,
            folders: self
                .agent_skills
                .into_iter()
                .map(|mut entry| {
                    expand.text(&mut entry.value)?;
                    let folder = file.parent().unwrap_or_else(|| Path::new(""));
                    // Removes `.` components.
                    let path = folder.join(&entry.value).components().collect();
                    Ok((path, place(&entry)))
                })
                .collect::<Result<_, DefinitionFault>>()?,
            file: file.to_owned(),
            name,
        };
        let counts = [
            skill.includes.len(),
            skill.tools.len(),
            skill.groups.len(),
            skill.anonymous.len(),
            skill.servers.len(),
            skill.folders.len(),
        ];
        if counts.iter().all(|count| *count == 0) {
            return Err(DefinitionFault::rule(
                empty_error,
                "add `tools`, `includes`, `builtins`, `anonymous_tools`, `mcp_servers` or `agent_skills`",
            ));
        }
        Ok(skill)
    }
}

/// Converts every entry of a list, and adds the position to errors without one.
fn each<E, T: WithPlace>(
    entries: Vec<Spanned<E>>,
    convert: impl Fn(E) -> Result<T, DefinitionFault>,
) -> Result<Vec<T>, DefinitionFault> {
    let converted = entries.into_iter().map(|entry| {
        let place = place(&entry);
        let converted = convert(entry.value).map_err(|fault| fault.at_place(place))?;
        Ok(converted.at_place(place))
    });
    converted.collect()
}

/// A value with its position in the file.
trait WithPlace {
    fn at_place(self, place: Place) -> Self;
}

impl WithPlace for SkillToolUse {
    fn at_place(self, place: Place) -> Self {
        Self { place, ..self }
    }
}

impl WithPlace for Include {
    fn at_place(self, place: Place) -> Self {
        Self { place, ..self }
    }
}

fn skill_name(text: &Spanned<String>) -> Result<Name, DefinitionFault> {
    let fix = "write `namespace/name`, such as `local/files`";
    let wrong = |message: String| DefinitionFault::rule(Fault::at(text, message), fix);
    let name: Name = text
        .value
        .parse()
        .map_err(|error: cleveragents_domain::NameError| wrong(error.to_string()))?;
    if name.name().contains(['.', ':', '/', '@']) {
        return Err(wrong(format!(
            "`{}` is not the name of a skill",
            text.value
        )));
    }
    Ok(name)
}

fn tool_name(text: &str) -> Result<ToolName, DefinitionFault> {
    text.parse().map(|name: ToolName| name.canonical()).map_err(
        |error: cleveragents_tools::ToolNameError| {
            DefinitionFault::rule(
                Fault::new(error.to_string()),
                "write the name of a tool, such as `builtin/file-read`",
            )
        },
    )
}

fn tool_use(mut entry: ToolMap, expand: &Expand<'_>) -> Result<SkillToolUse, DefinitionFault> {
    expand.text(&mut entry.name)?;
    let change = entry
        .r#override
        .map(|change| change.resolve(expand))
        .transpose()?;
    Ok(SkillToolUse {
        tool: tool_name(&entry.name)?,
        change: change.unwrap_or_default(),
        place: (1, 1),
    })
}

fn include(mut entry: IncludeMap, expand: &Expand<'_>) -> Result<Include, DefinitionFault> {
    expand.text(&mut entry.name)?;
    let skill = entry
        .name
        .parse()
        .map_err(|error: cleveragents_domain::NameError| {
            DefinitionFault::rule(
                Fault::new(error.to_string()),
                "write the name of a skill, such as `local/files`",
            )
        })?;
    let overrides = each(entry.tool_overrides, |mut entry| {
        expand.text(&mut entry.tool)?;
        Ok(SkillToolUse {
            tool: tool_name(&entry.tool)?,
            change: entry.r#override.resolve(expand)?,
            place: (1, 1),
        })
    })?;
    Ok(Include {
        skill,
        overrides,
        place: (1, 1),
    })
}

fn group(
    entry: Spanned<super::entries::GroupEntry>,
    expand: &Expand<'_>,
) -> Result<(Category, Place), DefinitionFault> {
    let place = place(&entry);
    let GroupMap { mut group } = entry.value.0;
    expand.text(&mut group)?;
    let matching = GROUPS
        .iter()
        .find(|(_, names)| names.contains(&group.as_str()));
    matching
        .map(|(category, _)| (*category, place))
        .ok_or_else(|| {
            let names = GROUPS.iter().map(|(_, names)| names[0]);
            let fix = match nearest::best(&group, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write one of {}", names.collect::<Vec<_>>().join(", ")),
            };
            let fault = Fault::new(format!("group `{group}` of built-in tools does not exist"));
            DefinitionFault::rule(fault, fix).at_place(place)
        })
}

fn anonymous(
    entries: Vec<Inline>,
    skill: &Name,
    expand: &Expand<'_>,
    file: &Path,
) -> Result<Vec<Arc<CustomTool>>, DefinitionFault> {
    let mut tools: Vec<Arc<CustomTool>> = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let default_name = format!("{}/{}-{}", skill.namespace(), skill.name(), index + 1);
        let place = entry.place();
        let tool = entry.finish(&default_name, expand, file)?;
        let name = &tool.spec().name;
        if tools.iter().any(|other| other.spec().name == *name) {
            let fault = Fault::new(format!("there are two tools named `{name}` in this skill"));
            return Err(DefinitionFault::rule(fault, "rename one of them").at_place(place));
        }
        tools.push(Arc::new(tool));
    }
    Ok(tools)
}

fn servers(entries: Servers) -> Result<Vec<Server>, DefinitionFault> {
    let mut servers: Vec<Server> = Vec::new();
    for (name, entry) in entries.0 {
        let place = place(&entry);
        let wrong = |message: String, fix: &str| {
            Err(DefinitionFault::rule(Fault::new(message), fix).at_place(place))
        };
        let Value::Object(mut definition) = entry.value else {
            return wrong(
                "a server is not a map".to_owned(),
                "write `name: …` and `command: …` or `url: …`, each on its own line",
            );
        };
        if let Some(name) = name {
            definition.insert("name".to_owned(), Value::String(name));
        }
        let Some(name) = definition
            .get("name")
            .and_then(Value::as_str)
            .map(str::to_owned)
        else {
            return wrong("the server has no `name`".to_owned(), "add `name: …`");
        };
        if servers.iter().any(|server| server.name == name) {
            return wrong(
                format!("there are two servers named `{name}`"),
                "rename one of them",
            );
        }
        if !definition.contains_key("command") && !definition.contains_key("url") {
            let message = format!("the server `{name}` has neither a `command` nor a `url`");
            return wrong(
                message,
                "add `command` to start it, or `url` to connect to it",
            );
        }
        servers.push(Server {
            name,
            definition: Value::Object(definition),
            place,
        });
    }
    Ok(servers)
}

impl SkillToolUse {
    /// Whether the skill overrides any capability of the tool.
    pub fn has_override(&self) -> bool {
        self.change != CapabilityChange::default()
    }
}
