//! [`Toolset`]: the registered tools, skills and MCP servers that agents can use. Creating a toolset
//! does not start servers.
//!
//! [`Toolset::connect`] reads the skills and starts the MCP servers that an actor needs, and adds the
//! tools of both to one registry. The servers run until the [`ConnectedTools`] are dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_actors::{Actor, Agent, NodeKind};
use cleveragents_domain::{Code, Hint, Placeholder, hint, suggest};
use cleveragents_mcp::{FileTokens, Options, ServerDefinition, Servers, Variables, namespace};
use cleveragents_models::{Catalogue, ModelName};
use cleveragents_store::Engine;
use cleveragents_tools::{Registry, ToolName, ToolPattern};

use super::AgentRequest;
use crate::actor::{ActorWorld, ReferableNames};
use crate::mcp::McpService;
use crate::operation::OperationError;
use crate::plan::built_in_actors;
use crate::run::ToolSources;
use crate::skill::{SkillService, SkillTools};
use crate::tool::{LeftOut, ToolService};

/// The namespace of the tools that list and read resources and prompts of all servers.
const MCP_NAMESPACE: &str = "mcp";

/// Warns the user about tools and servers that are left out of a toolset.
pub type WarningHandler = Arc<dyn Fn(&Hint) + Send + Sync>;

/// The registered tools, skills and MCP servers.
pub struct Toolset {
    registry: Arc<Registry>,
    skills: SkillService,
    servers: Vec<ServerDefinition>,
    referable_names: ReferableNames,
    is_model: Box<dyn Fn(&str) -> bool + Send + Sync>,
    variables: Variables,
    server_options: Options,
    warn: WarningHandler,
}

/// The skills and MCP servers that an agent needs, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolRequirements {
    pub skills: BTreeSet<String>,
    /// MCP servers.
    pub servers: BTreeSet<String>,
}

/// Sources of a toolset.
pub struct ToolsetOptions<'a> {
    /// The database.
    pub engine: &'a Arc<Engine>,
    /// The models that actors may name.
    pub catalogue: &'a Catalogue,
    /// The data folder of the program, with its skills, prompts and sign-in tokens.
    pub home: &'a Path,
    /// The folder in which MCP servers start.
    pub working_folder: &'a Path,
    /// Values of `${VARIABLE}` in definitions.
    pub variables: &'a Variables,
    /// Warns the user about omitted tools and servers.
    pub warn: &'a WarningHandler,
}

impl Toolset {
    /// Reads the registered tools, skills and servers. Does not start servers.
    pub fn new(options: &ToolsetOptions<'_>) -> Result<Self, OperationError> {
        let engine = options.engine;
        let variables = options.variables;
        let tools = ToolService::new(Arc::clone(engine));
        let callable = tools.registry(&**variables)?;
        for LeftOut { name, why } in &callable.left_out {
            (options.warn)(&hint!(
                "the tool {} is left out, its file cannot be read: {}\n  fix it with {}, or {}",
                name,
                why,
                suggest::tool_add_update(Placeholder("FILE")),
                suggest::tool_remove(name)
            ));
        }
        let registry = Arc::new(callable.registry);
        let skills = SkillService::new(Arc::clone(engine), options.home.join("skills"));
        let known = skills.known(&**variables)?;
        let servers: Vec<ServerDefinition> = McpService::new(Arc::clone(engine))
            .list()?
            .into_iter()
            .filter_map(|server| server.definition.ok())
            .collect();
        let referable_names = ReferableNames {
            tools: registry.list().map(|spec| spec.name.clone()).collect(),
            skills: known.into_iter().map(|skill| skill.name).collect(),
            servers: servers.iter().map(|server| server.name.clone()).collect(),
            built_in: built_in_actors(&options.home.join("prompts")),
            server_namespaces: servers
                .iter()
                .map(|server| namespace(&server.name))
                .collect(),
        };
        let providers = options.catalogue.providers();
        Ok(Self {
            registry,
            skills,
            servers,
            referable_names,
            is_model: Box::new(move |name| {
                let name = name.parse::<ModelName>();
                name.is_ok_and(|name| providers.iter().any(|known| known == name.provider()))
            }),
            variables: Arc::clone(variables),
            server_options: mcp_server_options(
                options.working_folder,
                options.home,
                Arc::clone(variables),
            ),
            warn: Arc::clone(options.warn),
        })
    }

    /// Built-in and registered tools, without the tools of skills and servers.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The tools, skills, servers, models and variables that actor files may refer to.
    pub fn actor_world(&self) -> ActorWorld<'_> {
        ActorWorld {
            referable_names: &self.referable_names,
            is_model: &*self.is_model,
            variables: &*self.variables,
        }
    }

    /// The skills and servers of an actor and of its subgraphs.
    pub(crate) fn requirements(&self, actor: &Actor) -> ToolRequirements {
        let mut needs = ToolRequirements::default();
        for_each_node(actor, &mut |kind| {
            let tools: Vec<&String> = match kind {
                NodeKind::Agent(node) => {
                    needs.skills.extend(node.agent.skills.iter().cloned());
                    needs.servers.extend(node.agent.mcp_servers.iter().cloned());
                    node.agent.tools.iter().collect()
                }
                NodeKind::Tool(node) => node.calls.iter().map(|call| &call.tool).collect(),
                _ => Vec::new(),
            };
            for tool in tools {
                needs.servers.extend(self.server_of(tool));
            }
        });
        needs
    }

    /// The name of the server that a tool belongs to.
    pub fn server_of(&self, tool: &str) -> Option<String> {
        let space = tool.split_once('/')?.0;
        let mut servers = self.servers.iter();
        let server = servers.find(|server| namespace(&server.name) == space)?;
        Some(server.name.clone())
    }

    /// Reads the required skills and starts the required servers.
    pub(crate) fn connect(
        &self,
        needs: &ToolRequirements,
    ) -> Result<ConnectedTools, OperationError> {
        let skills: Vec<String> = needs.skills.iter().cloned().collect();
        let skill_tools = self
            .skills
            .assemble_tools(&skills, &self.registry, &*self.variables)?;
        let mut definitions: BTreeMap<String, ServerDefinition> = BTreeMap::new();
        for name in &needs.servers {
            let server = self.servers.iter().find(|server| server.name == *name);
            let Some(server) = server else {
                let message = format!("there is no MCP server named `{name}`");
                return Err(OperationError::new(Code::McpServerNotFound, message)
                    .with_hint(hint!("{} lists the servers", suggest::mcp_list())));
            };
            definitions.insert(name.clone(), server.clone());
        }
        for server in skill_tools.servers() {
            let definition = self.of_skill(&server.server.name, &server.server.definition)?;
            definitions
                .entry(definition.name.clone())
                .or_insert(definition);
        }
        let mut connected = ConnectedTools {
            registry: Arc::clone(&self.registry),
            deferred: BTreeSet::new(),
            skill_tools,
            by_server: BTreeMap::new(),
            servers: None,
        };
        connected.start_servers(definitions, &self.server_options, &*self.warn)?;
        Ok(connected)
    }

    /// The server that a skill defines, or the registered server that the skill only names.
    fn of_skill(
        &self,
        name: &str,
        definition: &serde_json::Value,
    ) -> Result<ServerDefinition, OperationError> {
        let is_name_only = definition
            .as_object()
            .is_none_or(|fields| !fields.contains_key("command") && !fields.contains_key("url"));
        let registered = self.servers.iter().find(|server| server.name == name);
        if let (true, Some(registered)) = (is_name_only, registered) {
            return Ok(registered.clone());
        }
        let mut definition = definition.clone();
        if let Some(fields) = definition.as_object_mut() {
            fields.insert("name".to_owned(), name.into());
        }
        let invalid = |why: String| {
            let message = format!("the MCP server `{name}` of a skill cannot be used: {why}");
            OperationError::new(Code::InvalidMcp, message)
                .with_hint("correct `mcp_servers` in the file of the skill")
        };
        let definition: ServerDefinition =
            serde_json::from_value(definition).map_err(|error| invalid(error.to_string()))?;
        definition.checked().map_err(|error| invalid(error.message))
    }
}

/// Calls `visit` with every node of an actor, including nodes inside maps and subgraphs.
pub fn for_each_node<'a>(actor: &'a Actor, visit: &mut dyn FnMut(&'a NodeKind)) {
    for node in &actor.graph.nodes {
        let mut kind = &node.kind;
        loop {
            visit(kind);
            match kind {
                NodeKind::Map(map) => kind = &map.each,
                NodeKind::Subgraph(subgraph) => {
                    for_each_node(&subgraph.actor, visit);
                    break;
                }
                _ => break,
            }
        }
    }
}

/// The agents of an actor and of its subgraphs, without duplicates.
pub fn agents_of(actor: &Actor) -> Vec<&Agent> {
    let mut agents: Vec<&Agent> = Vec::new();
    for_each_node(actor, &mut |kind| {
        if let NodeKind::Agent(node) = kind
            && !agents
                .iter()
                .any(|known| std::ptr::eq(*known, &raw const *node.agent))
        {
            agents.push(&node.agent);
        }
    });
    agents
}

/// The folder that contains the private home folders of MCP servers.
pub fn mcp_server_homes(home: &Path) -> PathBuf {
    home.join("mcp-homes")
}

/// The start options of MCP servers: working folder, variables, private home folders and the folder of
/// the sign-in tokens.
pub fn mcp_server_options(folder: &Path, home: &Path, variables: Variables) -> Options {
    Options {
        variables,
        tokens: Some(Arc::new(FileTokens::new(home.join("mcp")))),
        homes: Some(mcp_server_homes(home)),
        ..Options::new(folder)
    }
}

/// The tools of a run or a conversation. Dropping the value stops the servers.
pub struct ConnectedTools {
    pub(crate) registry: Arc<Registry>,
    pub(crate) deferred: BTreeSet<ToolName>,
    skill_tools: SkillTools,
    by_server: BTreeMap<String, Result<Vec<ToolName>, String>>,
    /// Kept because dropping it stops the servers.
    servers: Option<Servers>,
}

impl ConnectedTools {
    fn start_servers(
        &mut self,
        definitions: BTreeMap<String, ServerDefinition>,
        options: &Options,
        warn: &dyn Fn(&Hint),
    ) -> Result<(), OperationError> {
        let mut registry = self.skill_tools.registry.narrowed(|_| true);
        if definitions.is_empty() {
            self.registry = Arc::new(registry);
            return Ok(());
        }
        let servers = Servers::new(options.clone()).map_err(|error| {
            OperationError::internal("MCP servers cannot be started").caused_by(error)
        })?;
        let names: Vec<String> = definitions.keys().cloned().collect();
        for definition in definitions.into_values() {
            servers.add(definition, None)?;
        }
        let offer = servers.offer();
        for (server, error) in &offer.failed {
            warn(&hint!("the MCP server {} is left out: {}", server, error));
            self.by_server
                .insert(server.clone(), Err(error.to_string()));
        }
        for tool in &offer.left_out {
            warn(&hint!(
                "the tool {} of the MCP server {} is left out: {}",
                &tool.tool,
                &tool.server,
                &tool.why
            ));
        }
        let mut added = Vec::new();
        for tool in offer.tools {
            let name = tool.spec().name.clone();
            match registry.add(tool) {
                Ok(()) => added.push(name),
                Err(error) => warn(&hint!("the tool {} is left out: {}", name, error)),
            }
        }
        for server in names {
            let space = namespace(&server);
            let server_tools = added
                .iter()
                .filter(|name| name.namespace() == space || name.namespace() == MCP_NAMESPACE);
            let server_tools = server_tools.cloned().collect();
            self.by_server.entry(server).or_insert(Ok(server_tools));
        }
        self.deferred = offer.deferred;
        self.registry = Arc::new(registry);
        self.servers = Some(servers);
        Ok(())
    }

    /// The description of all connected skills for a model; `None` when there are none.
    pub(crate) fn announcement(&self) -> Option<String> {
        Some(self.skill_tools.announcement(None)).filter(|text| !text.is_empty())
    }
}

/// The tools that every agent of a request has in addition to its own.
pub(super) fn extra_tools(
    connected: &ConnectedTools,
    request: &AgentRequest<'_>,
) -> Result<Vec<ToolName>, OperationError> {
    let mut extra = Vec::new();
    for pattern in request.extra_tools {
        let pattern: ToolPattern = pattern.parse().map_err(OperationError::from_service)?;
        let all = connected.registry.list().map(|spec| spec.name.clone());
        let matching: Vec<_> = all.filter(|name| pattern.matches(name)).collect();
        if matching.is_empty() {
            return Err(OperationError::new(
                Code::ToolNotFound,
                format!("no tool matches `{pattern}`"),
            )
            .with_hint(hint!("{} lists all tools", suggest::tool_list())));
        }
        extra.extend(matching);
    }
    let missing = |code| move |why: String| OperationError::new(code, why);
    for skill in &request.requirements.skills {
        let tools = connected.skill(skill);
        extra.extend(tools.map_err(missing(Code::SkillNotFound))?);
    }
    for server in &request.requirements.servers {
        let tools = connected.server(server);
        extra.extend(tools.map_err(missing(Code::McpUnreachable))?);
    }
    Ok(extra)
}

impl ToolSources for ConnectedTools {
    fn skill(&self, name: &str) -> Result<Vec<ToolName>, String> {
        let mut tools = self
            .skill_tools
            .tools(name)
            .ok_or_else(|| format!("there is no skill named `{name}`"))?;
        for server in self.skill_tools.servers_of(name) {
            tools.extend(self.server(&server)?);
        }
        Ok(tools)
    }

    fn server(&self, name: &str) -> Result<Vec<ToolName>, String> {
        match self.by_server.get(name) {
            Some(Ok(tools)) => Ok(tools.clone()),
            Some(Err(why)) => Err(why.clone()),
            None => Err(format!("there is no MCP server named `{name}`")),
        }
    }

    fn disclosure(&self, skills: &[String]) -> Option<String> {
        if skills.is_empty() {
            return None;
        }
        Some(self.skill_tools.announcement(Some(skills))).filter(|text| !text.is_empty())
    }
}
