//! The fields of a skill file, before references and variables are resolved.

use std::fmt;

use cleveragents_domain::yaml;
use cleveragents_tools::custom::{Header, Inline, Override};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

/// A skill file with its wrapper.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrappedDefinition {
    pub(super) cleveragents: Option<Header>,
    /// The definition of the skill.
    pub(super) skill: CollectionFile,
}

/// A skill file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = aliases)]
pub(super) struct CollectionFile {
    pub(super) cleveragents: Option<Header>,
    /// Name: `namespace/name`.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// Purpose of the skill.
    #[schemars(with = "String")]
    pub(super) description: Spanned<String>,
    /// Tools, by name.
    #[serde(default)]
    #[schemars(with = "Vec<ToolForm>")]
    pub(super) tools: Vec<Spanned<ToolEntry>>,
    /// Other skills whose tools are included.
    #[serde(default)]
    #[schemars(with = "Vec<IncludeForm>")]
    pub(super) includes: Vec<Spanned<IncludeEntry>>,
    /// Tools defined in this file, with the same fields as a tool file; the name is optional.
    #[serde(
        default,
        alias = "anonymousTools",
        alias = "inline_tools",
        alias = "inlineTools"
    )]
    pub(super) anonymous_tools: Vec<Inline>,
    /// Groups of built-in tools.
    #[serde(default)]
    #[schemars(with = "Vec<GroupForm>")]
    pub(super) builtins: Vec<Spanned<GroupEntry>>,
    #[serde(default, alias = "mcpServers")]
    #[schemars(with = "ServersForm")]
    pub(super) mcp_servers: Servers,
    /// Folders with a `SKILL.md`, or parents of such folders, relative to the folder of this file.
    #[serde(
        default,
        alias = "agentSkills",
        alias = "agent_skill_folders",
        alias = "agentSkillFolders",
        alias = "agent_skills_dirs",
        alias = "agentSkillsDirs"
    )]
    #[schemars(with = "Vec<String>")]
    pub(super) agent_skills: Vec<Spanned<String>>,
}

/// Adds the aliases of fields to the JSON schema.
fn aliases(schema: &mut Schema) {
    if let Some(schema) = schema.as_object_mut() {
        yaml::add_aliases(
            schema,
            &[
                (
                    "anonymous_tools",
                    &["anonymousTools", "inline_tools", "inlineTools"],
                ),
                ("mcp_servers", &["mcpServers"]),
                (
                    "agent_skills",
                    &[
                        "agentSkills",
                        "agent_skill_folders",
                        "agentSkillFolders",
                        "agent_skills_dirs",
                        "agentSkillsDirs",
                    ],
                ),
            ],
        );
    }
}

/// Deserializes a text or a map. A text is equivalent to a map with only a name.
struct TextOrMap<T> {
    expected: &'static str,
    named: fn(String) -> T,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrMap<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        Ok((self.named)(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// A tool with its overrides.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolMap {
    /// Name of the tool.
    pub(super) name: String,
    /// Overrides of the tool's capability, which can only make it stricter.
    pub(super) r#override: Option<Override>,
}

/// A tool: its name, or a map.
pub(super) struct ToolEntry(pub(super) ToolMap);

impl<'de> Deserialize<'de> for ToolEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let either = TextOrMap {
            expected: "the name of a tool, or a map with `name` and `override`",
            named: |name| ToolMap {
                name,
                r#override: None,
            },
        };
        deserializer.deserialize_any(either).map(Self)
    }
}

/// An included skill with overrides of its tools.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = include_aliases)]
pub(super) struct IncludeMap {
    /// Name of the skill.
    pub(super) name: String,
    /// Overrides for some of its tools.
    #[serde(default, alias = "toolOverrides")]
    #[schemars(with = "Vec<ToolOverride>")]
    pub(super) tool_overrides: Vec<Spanned<ToolOverride>>,
}

fn include_aliases(schema: &mut Schema) {
    if let Some(schema) = schema.as_object_mut() {
        yaml::add_aliases(schema, &[("tool_overrides", &["toolOverrides"])]);
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolOverride {
    /// Name of the tool.
    pub(super) tool: String,
    /// Overrides, which can only make the tool stricter.
    pub(super) r#override: Override,
}

/// A skill: its name, or a map.
pub(super) struct IncludeEntry(pub(super) IncludeMap);

impl<'de> Deserialize<'de> for IncludeEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let either = TextOrMap {
            expected: "the name of a skill, or a map with `name` and `tool_overrides`",
            named: |name| IncludeMap {
                name,
                tool_overrides: Vec::new(),
            },
        };
        deserializer.deserialize_any(either).map(Self)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupMap {
    /// `file`, `directory`, `git`, `shell` or `conversation`.
    pub(super) group: String,
}

/// A group of built-in tools: its name, or a map.
pub(super) struct GroupEntry(pub(super) GroupMap);

impl<'de> Deserialize<'de> for GroupEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let either = TextOrMap {
            expected: "the name of a group, or a map with `group`",
            named: |group| GroupMap { group },
        };
        deserializer.deserialize_any(either).map(Self)
    }
}

/// The servers of a skill: a list of maps with a `name`, or a map of maps.
#[derive(Default)]
pub(super) struct Servers(pub(super) Vec<(Option<String>, Spanned<Value>)>);

impl<'de> Deserialize<'de> for Servers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListOrMap;
        impl<'de> Visitor<'de> for ListOrMap {
            type Value = Servers;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of servers, or a map of them")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Servers, A::Error> {
                let mut servers = Vec::new();
                while let Some(server) = items.next_element()? {
                    servers.push((None, server));
                }
                Ok(Servers(servers))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Servers, A::Error> {
                let mut servers = Vec::new();
                while let Some((name, server)) = map.next_entry()? {
                    servers.push((Some(name), server));
                }
                Ok(Servers(servers))
            }
        }
        deserializer.deserialize_any(ListOrMap)
    }
}

/// The text form and the map form of each entry, for the JSON schema.
mod forms {
    #![expect(
        dead_code,
        reason = "the two forms exist in the schema; both are parsed into one type"
    )]

    use std::collections::BTreeMap;

    use schemars::JsonSchema;
    use serde_json::Value;

    use super::{GroupMap, IncludeMap, ToolMap};

    #[derive(JsonSchema)]
    #[schemars(untagged)]
    pub(in super::super) enum ToolForm {
        Name(String),
        Map(Box<ToolMap>),
    }

    #[derive(JsonSchema)]
    #[schemars(untagged)]
    pub(in super::super) enum IncludeForm {
        Name(String),
        Map(IncludeMap),
    }

    #[derive(JsonSchema)]
    #[schemars(untagged)]
    pub(in super::super) enum GroupForm {
        Name(String),
        Map(GroupMap),
    }

    #[derive(JsonSchema)]
    #[schemars(untagged)]
    pub(in super::super) enum ServersForm {
        List(Vec<BTreeMap<String, Value>>),
        Map(BTreeMap<String, BTreeMap<String, Value>>),
    }
}

use forms::{GroupForm, IncludeForm, ServersForm, ToolForm};
