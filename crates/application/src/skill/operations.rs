//! The operations on skills.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::collections::BTreeMap;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{DefinitionFileError, Timestamp};
use cleveragents_models::Redactor;
use cleveragents_skills::{AgentSkill, Definition, FlatTool, FlattenedSkill};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::SkillError;
use super::service::{KnownSkill, SkillOrigin};
use crate::definition::{remove_request, show_request};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, RemovedDefinition,
    Requirement, Resolver, confirm_removal, redacted,
};

/// The operations on skills.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<ListSkills>(),
    OperationEntry::new::<ShowSkill>(),
    OperationEntry::new::<ListSkillTools>(),
    OperationEntry::new::<RemoveSkill>(),
];

/// Kind of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillKind {
    /// A YAML file that combines tools.
    Collection,
    /// A folder with a `SKILL.md`.
    AgentSkill,
}

impl SkillKind {
    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Collection => "collection",
            Self::AgentSkill => "agent_skill",
        }
    }
}

impl From<&Definition> for SkillKind {
    fn from(definition: &Definition) -> Self {
        match definition {
            Definition::Collection(_) => Self::Collection,
            Definition::Agent(_) => Self::AgentSkill,
        }
    }
}

/// A skill that another one includes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct IncludedSkill {
    pub name: String,
    /// Always `resolved`: if an include cannot be found, the whole skill is invalid.
    pub status: String,
}

pub fn included_skills(flat: &FlattenedSkill) -> Vec<IncludedSkill> {
    let includes = flat.includes.iter().map(|name| IncludedSkill {
        name: name.to_string(),
        status: "resolved".to_owned(),
    });
    includes.collect()
}

/// The tools of a skill that come from one source.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillToolSource {
    /// For example `builtin`, `custom`, `agent_skill` or `mcp:SERVER`.
    pub source: String,
    /// `null` for an MCP server, whose tools are unknown until it is connected.
    pub count: Option<u64>,
    /// The names of the tools.
    pub details: Vec<String>,
}

pub fn tool_sources(flat: &FlattenedSkill) -> Vec<SkillToolSource> {
    let mut sources: Vec<SkillToolSource> = Vec::new();
    for tool in &flat.tools {
        let name = tool.spec.name.to_string();
        match sources
            .iter_mut()
            .find(|other| other.source == tool.source())
        {
            Some(known) => known.details.push(name),
            None => sources.push(SkillToolSource {
                source: tool.source().to_owned(),
                count: None,
                details: vec![name],
            }),
        }
    }
    for source in &mut sources {
        source.count = Some(source.details.len() as u64);
    }
    sources.extend(flat.servers.iter().map(|server| SkillToolSource {
        source: format!("mcp:{}", server.server.name),
        count: None,
        details: Vec::new(),
    }));
    sources
}

/// An MCP server that a skill names.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillServer {
    pub name: String,
    /// `declared`: the server is started when an agent uses the skill.
    pub status: String,
    /// The tools that the skill takes from the server; `null` means all.
    pub tools: Option<Value>,
    /// The included skill that names the server.
    pub from_skill: Option<String>,
}

/// The MCP servers of a skill.
pub fn skill_servers(flat: &FlattenedSkill) -> Vec<SkillServer> {
    let servers = flat.servers.iter().map(|server| SkillServer {
        name: server.server.name.clone(),
        status: "declared".to_owned(),
        tools: server
            .server
            .definition
            .pointer("/tool_filter/include")
            .cloned(),
        from_skill: server.from_skill.as_ref().map(ToString::to_string),
    });
    servers.collect()
}

fn source_names(flat: &FlattenedSkill) -> Vec<String> {
    let sources = tool_sources(flat).into_iter();
    sources.map(|source| source.source).collect()
}

/// Lists registered skills and the skills in the folder of skills, by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListSkills {}

/// The response of `registry/skill/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillList {
    pub skills: Vec<ListedSkill>,
    /// Skill folders in the project of the working folder that are not registered. Set by the front end that runs
    /// there.
    #[serde(default)]
    pub offered: Vec<String>,
    pub summary: SkillListSummary,
}

/// A listed skill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedSkill {
    pub name: String,
    /// Number of tools of the skill, including those of included skills.
    pub tools: Option<u64>,
    pub includes: Option<Vec<String>>,
    pub sources: Option<Vec<String>>,
    pub description: Option<String>,
    pub kind: Option<SkillKind>,
    pub origin: ListedSkillOrigin,
    /// The file or folder of the skill.
    pub config: String,
    /// Reason why the skill cannot be used.
    pub problem: Option<String>,
}

/// Source of a listed skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListedSkillOrigin {
    Registered,
    /// The skill is in the folder of skills.
    Found,
}

/// Totals of listed skills.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillListSummary {
    pub total: u64,
    /// The tools of all skills together.
    pub tools: u64,
    /// The number of skills that cannot be used.
    pub broken: u64,
    /// The number of folders in `offered`.
    #[serde(default)]
    pub offered: u64,
}

impl ListedSkill {
    fn new(
        skill: &KnownSkill,
        flat: &Result<FlattenedSkill, Box<DefinitionFileError>>,
        secrets: &Redactor,
    ) -> Self {
        let definition = skill.definition.as_ref().ok();
        let problem = flat.as_ref().err().map(ToString::to_string);
        let flat = flat.as_ref().ok();
        let includes =
            |flat: &FlattenedSkill| flat.includes.iter().map(ToString::to_string).collect();
        Self {
            name: skill.name.clone(),
            tools: flat.map(|flat| flat.tools.len() as u64),
            includes: flat.map(includes),
            sources: flat.map(source_names),
            description: definition
                .map(|definition| secrets.text(definition.description()).into_owned()),
            kind: definition.map(SkillKind::from),
            origin: match skill.origin {
                SkillOrigin::Registered(_) => ListedSkillOrigin::Registered,
                SkillOrigin::Found(_) => ListedSkillOrigin::Found,
            },
            config: skill.place(),
            problem: problem.map(|problem| secrets.text(&problem).into_owned()),
        }
    }
}

impl Operation for ListSkills {
    const NAME: &'static str = "registry/skill/list";
    const SUMMARY: &'static str = "List skills";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = SkillList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<SkillList, OperationError> {
        let secrets = context.redactor()?;
        let (service, variables) = (context.skills(), context.variables());
        let mut known = service.known(variables)?;
        known.retain(|skill| context.may_read(Scope::Registry, &skill.name));
        let flat = service.flat_of_all(&known, variables)?;
        let skills: Vec<ListedSkill> = known
            .iter()
            .zip(&flat)
            .map(|(skill, flat)| ListedSkill::new(skill, flat, &secrets))
            .collect();
        let broken = skills.iter().filter(|skill| skill.problem.is_some());
        Ok(SkillList {
            summary: SkillListSummary {
                total: skills.len() as u64,
                tools: skills.iter().filter_map(|skill| skill.tools).sum(),
                broken: broken.count() as u64,
                offered: 0,
            },
            skills,
            offered: Vec::new(),
        })
    }
}

/// Shows a skill: its tools, servers and instructions, and its users.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowSkill {
    pub name: String,
    /// Include `tools`: all tools of the skill, with those of included skills.
    #[serde(default)]
    pub all_tools: bool,
}

/// The response of `registry/skill/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillDetails {
    pub skill: SkillInfo,
    pub includes: Vec<IncludedSkill>,
    /// The tools that the skill itself names.
    pub direct_tools: Vec<SkillTool>,
    /// All tools of the skill; only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<SkillTool>>,
    pub tool_sources: Vec<SkillToolSource>,
    pub mcp_servers: Vec<SkillServer>,
    pub agent_skills: Vec<AgentSkillInfo>,
    /// The skills and actors that use the skill.
    pub referenced_by: Vec<String>,
    pub capability_summary: SkillCapabilitySummary,
}

/// A skill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillInfo {
    pub name: String,
    pub description: String,
    /// The file or folder of the skill.
    pub config: String,
    pub kind: SkillKind,
    /// `null` for a skill that is not registered. The same holds for `updated` and `version`.
    pub created: Option<Timestamp>,
    pub updated: Option<Timestamp>,
    pub version: Option<u64>,
}

/// A tool of a skill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct SkillTool {
    pub name: String,
    pub source: String,
    /// The included skill that the tool comes from.
    pub from_skill: Option<String>,
    pub read_only: bool,
    pub writes: bool,
    pub checkpoint: bool,
    pub requires_approval: bool,
    /// Whether a skill restricts the tool further.
    pub overridden: bool,
}

impl From<&FlatTool> for SkillTool {
    fn from(tool: &FlatTool) -> Self {
        let capability = &tool.spec.capability;
        Self {
            name: tool.spec.name.to_string(),
            source: tool.source().to_owned(),
            from_skill: tool.from_skill.as_ref().map(ToString::to_string),
            read_only: !capability.is_writing(),
            writes: capability.is_writing(),
            checkpoint: capability.checkpointable,
            requires_approval: capability.needs_approval,
            overridden: !tool.changes.is_empty(),
        }
    }
}

/// A folder of instructions that belongs to a skill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AgentSkillInfo {
    pub name: String,
    pub description: String,
    pub folder: String,
    pub license: Option<String>,
    pub compatibility: Option<String>,
    pub metadata: BTreeMap<String, String>,
    /// Tools that the skill requests. This grants no permission.
    pub allowed_tools: Vec<String>,
    /// The number of steps.
    pub steps: u64,
    /// The files of the skill except `SKILL.md`, relative to its folder.
    pub files: Vec<String>,
    /// Deviations from the format that other programs may not accept.
    pub departures: Vec<String>,
}

impl From<&AgentSkill> for AgentSkillInfo {
    fn from(skill: &AgentSkill) -> Self {
        Self {
            name: skill.name.clone(),
            description: skill.description.clone(),
            folder: skill.folder.display().to_string(),
            license: skill.license.clone(),
            compatibility: skill.compatibility.clone(),
            metadata: skill.metadata.clone(),
            allowed_tools: skill.allowed_tools.clone(),
            steps: skill.steps.len() as u64,
            files: skill.files().unwrap_or_default(),
            departures: skill.deviations.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Number of a skill's tools by capability.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillCapabilitySummary {
    pub total_tools: u64,
    pub read_only: u64,
    pub writes: u64,
    pub checkpointable: u64,
    pub idempotent: u64,
    pub has_side_effects: u64,
    pub requires_approval: u64,
}

impl From<&FlattenedSkill> for SkillCapabilitySummary {
    fn from(flat: &FlattenedSkill) -> Self {
        let summary = flat.summary();
        Self {
            total_tools: summary.total as u64,
            read_only: summary.read_only as u64,
            writes: summary.writes as u64,
            checkpointable: summary.checkpointable as u64,
            idempotent: summary.idempotent as u64,
            has_side_effects: summary.side_effects as u64,
            requires_approval: summary.needs_approval as u64,
        }
    }
}

impl Operation for ShowSkill {
    const NAME: &'static str = "registry/skill/show";
    const SUMMARY: &'static str = "Show a skill with its tools and users";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = SkillDetails;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.name, NamedKind::Definition)
    }

    fn run(self, context: &OperationContext) -> Result<SkillDetails, OperationError> {
        let secrets = context.redactor()?;
        let (service, variables) = (context.skills(), context.variables());
        let found = service.find(&self.name, variables)?;
        let flat = service.flat(&found.name, variables)?;
        let config = found.place();
        let definition = found.definition.map_err(SkillError::from)?;
        let users = service.used_by(&found.name, variables)?;
        let stored = match found.origin {
            SkillOrigin::Registered(stored) => Some(stored),
            SkillOrigin::Found(_) => None,
        };
        let direct = flat.tools.iter().filter(|tool| tool.from_skill.is_none());
        let agent_skills = flat
            .agent_skills
            .iter()
            .map(|(skill, _)| redacted(&secrets, &AgentSkillInfo::from(skill)));
        Ok(SkillDetails {
            includes: included_skills(&flat),
            direct_tools: direct.map(SkillTool::from).collect(),
            tools: self
                .all_tools
                .then(|| flat.tools.iter().map(SkillTool::from).collect()),
            tool_sources: tool_sources(&flat),
            mcp_servers: skill_servers(&flat),
            agent_skills: agent_skills.collect::<Result<_, _>>()?,
            referenced_by: users,
            capability_summary: SkillCapabilitySummary::from(&flat),
            skill: SkillInfo {
                name: found.name,
                description: secrets.text(definition.description()).into_owned(),
                config,
                kind: SkillKind::from(&definition),
                created: stored.as_ref().map(|stored| stored.created_at),
                updated: stored.as_ref().map(|stored| stored.updated_at),
                version: stored.map(|stored| stored.version),
            },
        })
    }
}

/// The response of `registry/skill/tools`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillToolList {
    pub tools: Vec<SkillTool>,
    /// MCP servers of the skill. Their tools are unknown until they are connected, so `tools` omits them.
    pub mcp_servers: Vec<SkillServer>,
    pub summary: SkillToolSummary,
}

/// Totals of the tools of a skill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillToolSummary {
    pub total: u64,
    pub read_only: u64,
    pub writes: u64,
}

show_request! {
    /// Lists the tools of a skill, including those of included skills.
    ListSkillTools("registry/skill/tools", "List the tools of a skill") -> SkillToolList;
    run: list_tools;
}

fn list_tools(context: &OperationContext, name: &str) -> Result<SkillToolList, OperationError> {
    let flat = context.skills().flat(name, context.variables())?;
    let summary = flat.summary();
    Ok(SkillToolList {
        tools: flat.tools.iter().map(SkillTool::from).collect(),
        mcp_servers: skill_servers(&flat),
        summary: SkillToolSummary {
            total: summary.total as u64,
            read_only: summary.read_only as u64,
            writes: summary.writes as u64,
        },
    })
}

remove_request! {
    /// Removes a registered skill that nothing uses.
    RemoveSkill("registry/skill/remove", "Remove a registered skill");
    run: remove;
}

fn remove(
    context: &OperationContext,
    name: &str,
    yes: bool,
) -> Result<RemovedDefinition, OperationError> {
    let (skills, variables) = (context.skills(), context.variables());
    let found = skills.find(name, variables)?;
    confirm_removal(&found.name, yes)?;
    let removed = skills.remove(&found.name, variables)?;
    Ok(RemovedDefinition {
        config: removed.place(),
        removed: removed.name,
    })
}
