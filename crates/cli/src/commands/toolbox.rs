//! [`Toolbox`]: every tool that models and actors may be given, and the models they may ask.
//!
//! A toolbox knows names without starting anything. [`Toolbox::equip`] brings what is needed: it reads
//! skills, connects to servers, and gives the tools of both their places in one registry. Servers run until
//! the [`Equipment`] is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;

use cleveragents_actors::{Actor, Agent, NodeKind};
use cleveragents_domain::{Code, RemoteAgent};
use cleveragents_engine::{
    ActorWorld, Equipped, McpService, ModelSource, SkillService, Supplies, ToolService,
    ToolSources, built_in_actors,
};
use cleveragents_mcp::{FileTokens, Options, ServerDefinition, Servers, namespace};
use cleveragents_models::{Catalogue, Model, ModelName};
use cleveragents_tools::{Registry, ToolName};

use super::tooling;
use crate::context::Context;
use crate::output::{CommandError, visible_lines};

/// The namespace of the tools that are about servers in general.
const ABOUT_SERVERS: &str = "mcp";

/// Gives the values of variables.
type Variables = Box<dyn Fn(&str) -> Option<String>>;

/// What is there, without anything being started for it.
pub(crate) struct Toolbox {
    pub(crate) tools: ToolService,
    registry: Arc<Registry>,
    skills: SkillService,
    servers: Vec<ServerDefinition>,
    supplies: Supplies,
    is_model: Box<dyn Fn(&str) -> bool>,
    variables: Variables,
    options: Options,
}

/// Skills and servers, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    pub(crate) skills: BTreeSet<String>,
    pub(crate) servers: BTreeSet<String>,
}

impl Toolbox {
    pub(crate) fn new(context: &Context) -> Result<Self, CommandError> {
        let engine = context.engine()?;
        let tools = ToolService::new(Arc::clone(&engine));
        let registry = tooling::registry(context, &tools)?;
        let variables = context.variables();
        let skills = context.skills()?;
        let known = skills.known(&variables)?;
        let servers: Vec<ServerDefinition> = McpService::new(engine)
            .list()?
            .into_iter()
            .filter_map(|server| server.definition.ok())
            .collect();
        let supplies = Supplies {
            tools: registry.list().map(|spec| spec.name.clone()).collect(),
            skills: known.into_iter().map(|skill| skill.name).collect(),
            servers: servers.iter().map(|server| server.name.clone()).collect(),
            built_in: built_in_actors(&context.home.path().join("prompts")),
            server_namespaces: servers
                .iter()
                .map(|server| namespace(&server.name))
                .collect(),
        };
        let providers = context.models(None)?.providers();
        Ok(Self {
            tools,
            registry,
            skills,
            servers,
            supplies,
            is_model: Box::new(move |name| {
                let name = name.parse::<ModelName>();
                name.is_ok_and(|name| providers.iter().any(|known| known == name.provider()))
            }),
            variables: Box::new(variables),
            options: server_options(context),
        })
    }

    /// The tools that need neither a skill nor a server.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What actors are compiled with.
    pub(crate) fn world<'a>(
        &'a self,
        variables: &'a dyn Fn(&str) -> Option<String>,
    ) -> ActorWorld<'a> {
        ActorWorld {
            supplies: &self.supplies,
            is_model: &*self.is_model,
            variables,
        }
    }

    /// What an actor names, its subgraphs included.
    pub(crate) fn needs(&self, actor: &Actor) -> Needs {
        let mut needs = Needs::default();
        for_each_kind(actor, &mut |kind| {
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

    /// The server to which a tool belongs, by its name.
    pub(crate) fn server_of(&self, tool: &str) -> Option<String> {
        let space = tool.split_once('/')?.0;
        let mut servers = self.servers.iter();
        let found = servers.find(|server| namespace(&server.name) == space)?;
        Some(found.name.clone())
    }

    /// Reads the skills and connects to the servers that are needed.
    pub(crate) fn equip(&self, needs: &Needs) -> Result<Equipment, CommandError> {
        let skills: Vec<String> = needs.skills.iter().cloned().collect();
        let equipped = self
            .skills
            .equip(&skills, &self.registry, &*self.variables)?;
        let mut definitions: BTreeMap<String, ServerDefinition> = BTreeMap::new();
        for name in &needs.servers {
            let found = self.servers.iter().find(|server| server.name == *name);
            let Some(found) = found else {
                let message = format!("there is no MCP server named `{name}`");
                return Err(CommandError::new(Code::McpServerNotFound, message)
                    .with_hint("`agents mcp list` shows what there is"));
            };
            definitions.insert(name.clone(), found.clone());
        }
        for server in equipped.servers() {
            let definition = self.of_skill(&server.server.name, &server.server.definition)?;
            definitions
                .entry(definition.name.clone())
                .or_insert(definition);
        }
        let mut equipment = Equipment {
            registry: Arc::clone(&self.registry),
            deferred: BTreeSet::new(),
            equipped,
            by_server: BTreeMap::new(),
            servers: None,
        };
        equipment.connect(definitions, &self.options)?;
        Ok(equipment)
    }

    /// The server that a skill describes, or one that is registered and that the skill only names.
    fn of_skill(
        &self,
        name: &str,
        definition: &serde_json::Value,
    ) -> Result<ServerDefinition, CommandError> {
        let is_bare = definition
            .as_object()
            .is_none_or(|fields| !fields.contains_key("command") && !fields.contains_key("url"));
        let registered = self.servers.iter().find(|server| server.name == name);
        if let (true, Some(registered)) = (is_bare, registered) {
            return Ok(registered.clone());
        }
        let mut definition = definition.clone();
        if let Some(fields) = definition.as_object_mut() {
            fields.insert("name".to_owned(), name.into());
        }
        let wrong = |why: String| {
            let message = format!("the MCP server `{name}` of a skill cannot be used: {why}");
            CommandError::new(Code::InvalidMcp, message)
                .with_hint("correct `mcp_servers` in the file of the skill")
        };
        let definition: ServerDefinition =
            serde_json::from_value(definition).map_err(|error| wrong(error.to_string()))?;
        definition.checked().map_err(|broken| wrong(broken.message))
    }
}

/// Calls `see` with everything that the nodes of an actor do, inside maps and subgraphs too.
pub(crate) fn for_each_kind<'a>(actor: &'a Actor, see: &mut dyn FnMut(&'a NodeKind)) {
    for node in &actor.graph.nodes {
        let mut kind = &node.kind;
        loop {
            see(kind);
            match kind {
                NodeKind::Map(map) => kind = &map.each,
                NodeKind::Subgraph(subgraph) => {
                    for_each_kind(&subgraph.actor, see);
                    break;
                }
                _ => break,
            }
        }
    }
}

/// The agents of an actor and of its subgraphs, each once.
pub(crate) fn agents(actor: &Actor) -> Vec<&Agent> {
    let mut found: Vec<&Agent> = Vec::new();
    for_each_kind(actor, &mut |kind| {
        if let NodeKind::Agent(node) = kind
            && !found
                .iter()
                .any(|known| std::ptr::eq(*known, &raw const *node.agent))
        {
            found.push(&node.agent);
        }
    });
    found
}

/// The folder in which the programs of MCP servers have their private homes.
pub(crate) fn server_homes(context: &Context) -> std::path::PathBuf {
    context.home.path().join("mcp-homes")
}

/// How servers are started and talked to by this program.
pub(crate) fn server_options(context: &Context) -> Options {
    let folder = context.environment.working_folder();
    let folder = folder.unwrap_or_else(|| std::path::Path::new("/"));
    let environment = context.environment.clone();
    Options {
        variables: Arc::new(move |name: &str| environment.text(name)),
        tokens: Some(Arc::new(FileTokens::new(context.home.path().join("mcp")))),
        homes: Some(server_homes(context)),
        ..Options::new(folder)
    }
}

/// The tools of a run or a conversation. Its servers end with it.
pub(crate) struct Equipment {
    pub(crate) registry: Arc<Registry>,
    pub(crate) deferred: BTreeSet<ToolName>,
    equipped: Equipped,
    by_server: BTreeMap<String, Result<Vec<ToolName>, String>>,
    /// Kept: they end when it is dropped.
    servers: Option<Servers>,
}

impl Equipment {
    fn connect(
        &mut self,
        definitions: BTreeMap<String, ServerDefinition>,
        options: &Options,
    ) -> Result<(), CommandError> {
        let mut registry = self.equipped.registry.narrowed(|_| true);
        if definitions.is_empty() {
            self.registry = Arc::new(registry);
            return Ok(());
        }
        let servers = Servers::new(options.clone()).map_err(|error| {
            CommandError::internal("servers cannot be talked to").caused_by(&error)
        })?;
        let names: Vec<String> = definitions.keys().cloned().collect();
        for definition in definitions.into_values() {
            servers.add(definition, None)?;
        }
        let offer = servers.offer();
        for (server, error) in &offer.failed {
            warn(&format!("the MCP server {server} is left out: {error}"));
            self.by_server
                .insert(server.clone(), Err(error.to_string()));
        }
        for tool in &offer.left_out {
            warn(&format!(
                "the tool {} of the MCP server {} is left out: {}",
                tool.tool, tool.server, tool.why
            ));
        }
        let mut added = Vec::new();
        for tool in offer.tools {
            let name = tool.spec().name.clone();
            match registry.add(tool) {
                Ok(()) => added.push(name),
                Err(error) => warn(&format!("the tool {name} is left out: {error}")),
            }
        }
        for server in names {
            let space = namespace(&server);
            let own = added
                .iter()
                .filter(|name| name.namespace() == space || name.namespace() == ABOUT_SERVERS);
            let own = own.cloned().collect();
            self.by_server.entry(server).or_insert(Ok(own));
        }
        self.deferred = offer.deferred;
        self.registry = Arc::new(registry);
        self.servers = Some(servers);
        Ok(())
    }

    /// What models are told of all the skills there are here.
    pub(crate) fn announcement(&self) -> Option<String> {
        Some(self.equipped.announcement(None)).filter(|text| !text.is_empty())
    }
}

fn warn(text: &str) {
    // Nobody may be there to read it.
    let _told =
        std::io::stderr().write_all(visible_lines(&format!("warning: {text}\n")).as_bytes());
}

impl ToolSources for Equipment {
    fn skill(&self, name: &str) -> Result<Vec<ToolName>, String> {
        let mut tools = self
            .equipped
            .tools(name)
            .ok_or_else(|| format!("there is no skill named `{name}`"))?;
        for server in self.equipped.servers_of(name) {
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
        Some(self.equipped.announcement(Some(skills))).filter(|text| !text.is_empty())
    }
}

/// The models of the catalogue, one of which is the usual one.
pub(crate) struct Models<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) usual: Option<&'a ModelName>,
}

impl ModelSource for Models<'_> {
    fn open(&self, name: Option<&str>) -> Result<Arc<dyn Model>, String> {
        let name = match (name, self.usual) {
            (Some(name), _) => name
                .parse::<ModelName>()
                .map_err(|error| error.to_string())?,
            (None, Some(usual)) => usual.clone(),
            (None, None) => {
                return Err(
                    "the actor names no model, and none is the usual one: `agents config set model.default PROVIDER/MODEL`"
                        .to_owned(),
                );
            }
        };
        self.catalogue
            .open(&name)
            .map_err(|error| error.to_string())
    }

    fn agent(&self, name: &str, agent: &RemoteAgent) -> Result<Arc<dyn Model>, String> {
        self.catalogue
            .open_agent(name, agent)
            .map_err(|error| error.to_string())
    }
}
