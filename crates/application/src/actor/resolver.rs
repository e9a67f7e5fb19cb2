//! [`ActorResolver`]: compiles the actors that a file refers to on demand, and records which actors were used.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use cleveragents_actors::graph::{
    Agent, AgentNode, Graph, Limits, Memory, Node, NodeIndex, NodeKind,
};
use cleveragents_actors::{
    Actor, ActorKind, CompileStack, ResolveError, Resolver, ToolSource, compile, compile_within,
    read,
};
use cleveragents_domain::{ActorName, DefinitionFileError, nearest};
use cleveragents_tools::ToolPattern;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::definition::DefinitionText;

/// The file of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorText {
    /// The YAML text.
    pub text: String,
    /// The path of the file.
    pub source: String,
}

impl From<DefinitionText<'_>> for ActorText {
    fn from(text: DefinitionText<'_>) -> Self {
        Self {
            text: text.text.to_owned(),
            source: text.source.to_owned(),
        }
    }
}

/// The actor of a run and all actors that it refers to, with their files at the start of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorBundle {
    /// Name of the actor.
    pub actor: String,
    /// Files by name; empty for an actor that represents a model.
    pub files: BTreeMap<String, ActorText>,
}

/// Names that actors may refer to, apart from the names of registered actors.
#[derive(Debug, Clone, Default)]
pub struct ReferableNames {
    /// Known tools.
    pub tools: Vec<cleveragents_tools::ToolName>,
    /// Known skills.
    pub skills: BTreeSet<String>,
    /// Known MCP servers. Their tools are unknown until the servers run.
    pub servers: BTreeSet<String>,
    /// Namespaces of the servers' tools.
    pub server_namespaces: BTreeSet<String>,
    pub built_in: BTreeMap<String, ActorText>,
}

/// Returns `true` for the name of a model.
pub type IsModel<'a> = &'a dyn Fn(&str) -> bool;

/// Registered and built-in actors.
pub(super) struct ActorResolver<'a> {
    files: BTreeMap<String, ActorText>,
    referable_names: &'a ReferableNames,
    is_model: IsModel<'a>,
    variables: &'a dyn Fn(&str) -> Option<String>,
    compiled: RefCell<HashMap<String, Arc<Actor>>>,
    used: RefCell<BTreeSet<String>>,
}

impl<'a> ActorResolver<'a> {
    pub(super) fn new(
        mut files: BTreeMap<String, ActorText>,
        referable_names: &'a ReferableNames,
        is_model: IsModel<'a>,
        variables: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        for (name, text) in &referable_names.built_in {
            files.entry(name.clone()).or_insert_with(|| text.clone());
        }
        Self {
            files,
            referable_names,
            is_model,
            variables,
            compiled: RefCell::default(),
            used: RefCell::default(),
        }
    }

    /// Compiles a file, whether or not it is registered.
    pub(super) fn compile(
        &self,
        text: &str,
        source: &str,
    ) -> Result<Arc<Actor>, Box<DefinitionFileError>> {
        let file = read(text, Path::new(source), self.variables).map_err(Box::new)?;
        compile(&file, self).map_err(Box::new)
    }

    /// An actor by its full name; `None` when it does not exist.
    pub(super) fn get(&self, name: &str) -> Result<Option<Arc<Actor>>, Box<DefinitionFileError>> {
        match self.files.get(name) {
            Some(file) => {
                self.used.borrow_mut().insert(name.to_owned());
                self.compile(&file.text, &file.source).map(Some)
            }
            None if (self.is_model)(name) => Ok(Some(Arc::new(of_model(name)))),
            None => Ok(None),
        }
    }

    /// Files of an actor that this resolver compiled, and of all actors that it refers to.
    pub(super) fn bundle(&self, actor: &str, own: Option<ActorText>) -> ActorBundle {
        let used = self.used.borrow();
        let mut files: BTreeMap<String, ActorText> = used
            .iter()
            .filter_map(|name| Some((name.clone(), self.files.get(name)?.clone())))
            .collect();
        files.extend(own.map(|own| (actor.to_owned(), own)));
        ActorBundle {
            actor: actor.to_owned(),
            files,
        }
    }

    /// Registered actors that the compiled actors refer to.
    pub(super) fn used(&self) -> BTreeSet<String> {
        self.used.borrow().clone()
    }

    /// Known names that are similar to an unknown name, for suggestions.
    pub(super) fn nearest(&self, name: &str) -> Vec<String> {
        nearest::all(name, self.files.keys().map(String::as_str), 3)
    }
}

impl Resolver for ActorResolver<'_> {
    fn actor(&self, name: &str, trail: &CompileStack<'_>) -> Result<Arc<Actor>, ResolveError> {
        let full_name = whole_name(name);
        if let Some(found) = self.compiled.borrow().get(&full_name) {
            self.used.borrow_mut().insert(full_name);
            return Ok(Arc::clone(found));
        }
        let Some(file) = self.files.get(&full_name) else {
            if (self.is_model)(name) {
                return Ok(Arc::new(of_model(name)));
            }
            return Err(ResolveError::Missing(self.nearest(name)));
        };
        self.used.borrow_mut().insert(full_name.clone());
        let broken = |error: DefinitionFileError| ResolveError::Broken(error.to_string());
        let read = read(&file.text, Path::new(&file.source), self.variables);
        let found = compile_within(&read.map_err(broken)?, self, trail).map_err(broken)?;
        self.compiled
            .borrow_mut()
            .insert(full_name, Arc::clone(&found));
        Ok(found)
    }

    fn find(&self, kind: ToolSource, name: &str) -> Result<(), Vec<String>> {
        let require_known = |known: &BTreeSet<String>| {
            if known.contains(name) || known.contains(&whole_name(name)) {
                Ok(())
            } else {
                Err(nearest::all(name, known.iter().map(String::as_str), 3))
            }
        };
        match kind {
            ToolSource::Skill => require_known(&self.referable_names.skills),
            ToolSource::McpServer => require_known(&self.referable_names.servers),
            ToolSource::Tool => {
                let of_server = name.split_once('/').is_some_and(|(space, _)| {
                    self.referable_names.server_namespaces.contains(space)
                });
                let pattern = name.parse::<ToolPattern>();
                let is_known_tool = pattern.is_ok_and(|pattern| {
                    self.referable_names
                        .tools
                        .iter()
                        .any(|tool| pattern.matches(tool))
                });
                if of_server || is_known_tool {
                    return Ok(());
                }
                let known: Vec<String> = self
                    .referable_names
                    .tools
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                Err(nearest::all(name, known.iter().map(String::as_str), 3))
            }
        }
    }
}

/// A name with its namespace, in lower case.
pub(super) fn whole_name(name: &str) -> String {
    name.parse::<ActorName>()
        .map_or_else(|_| name.to_owned(), |name| name.to_string())
}

/// The actor that represents a model.
pub(super) fn of_model(name: &str) -> Actor {
    let agent = Agent {
        name: name.to_owned(),
        model: Some(name.to_owned()),
        system_prompt: None,
        temperature: None,
        max_output_tokens: None,
        reasoning_effort: None,
        tools: Vec::new(),
        skills: Vec::new(),
        mcp_servers: Vec::new(),
        response_format: None,
        memory: Memory::default(),
        context_view: None,
        options: Map::new(),
        remote: None,
    };
    Actor {
        name: name.to_owned(),
        kind: ActorKind::Llm,
        description: format!("The model {name}"),
        version: None,
        role: None,
        is_unsafe: false,
        graph: Graph {
            nodes: vec![Node {
                id: "answer".into(),
                kind: NodeKind::Agent(AgentNode {
                    agent: Arc::new(agent),
                    prompt: None,
                    output: "output".to_owned(),
                }),
                edges: Vec::new(),
                is_exit: true,
                timeout: None,
                retries: 0,
                on_error: None,
            }],
            entry: NodeIndex(0),
            keys: BTreeMap::new(),
            limits: Limits::of_nodes(1),
        },
        context: Map::new(),
        warnings: Vec::new(),
    }
}
