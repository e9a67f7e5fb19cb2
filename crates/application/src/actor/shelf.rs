//! [`Shelf`]: the actors that a file may refer to, compiled when they are asked for, and which of them
//! were.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use cleveragents_actors::graph::{
    Agent, AgentNode, Graph, Limits, Memory, Node, NodeIndex, NodeKind,
};
use cleveragents_actors::{
    Actor, ActorKind, FileError, Resolver, Supply, Trail, Unresolved, compile, compile_within, read,
};
use cleveragents_domain::{ActorName, nearest};
use cleveragents_tools::ToolPattern;
use serde::{Deserialize, Serialize};
use serde_json::Map;

/// The file of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorText {
    /// What it holds.
    pub text: String,
    /// Where it was.
    pub source: String,
}

/// The actor of a run and all that it refers to, as their files were when the run began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The actor.
    pub actor: String,
    /// Files by name; none for an actor that comes with the models.
    pub files: BTreeMap<String, ActorText>,
}

/// What actors may refer to besides each other.
#[derive(Debug, Clone, Default)]
pub struct Supplies {
    /// Tools.
    pub tools: Vec<cleveragents_tools::ToolName>,
    /// Skills.
    pub skills: BTreeSet<String>,
    /// Servers; their tools are known only once they run.
    pub servers: BTreeSet<String>,
    /// The namespaces in which servers have their tools.
    pub server_namespaces: BTreeSet<String>,
    /// Actors that come with the program.
    pub built_in: BTreeMap<String, ActorText>,
}

/// Says whether a name is that of a model.
pub type IsModel<'a> = &'a dyn Fn(&str) -> bool;

/// The actors there are.
pub(super) struct Shelf<'a> {
    files: BTreeMap<String, ActorText>,
    supplies: &'a Supplies,
    is_model: IsModel<'a>,
    variables: &'a dyn Fn(&str) -> Option<String>,
    compiled: RefCell<HashMap<String, Arc<Actor>>>,
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Shelf<'a> {
    pub(super) fn new(
        mut files: BTreeMap<String, ActorText>,
        supplies: &'a Supplies,
        is_model: IsModel<'a>,
        variables: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        for (name, text) in &supplies.built_in {
            files.entry(name.clone()).or_insert_with(|| text.clone());
        }
        Self {
            files,
            supplies,
            is_model,
            variables,
            compiled: RefCell::default(),
            used: RefCell::default(),
        }
    }

    /// Compiles a file that may not be on the shelf.
    pub(super) fn compile(&self, text: &str, source: &str) -> Result<Arc<Actor>, Box<FileError>> {
        let file = read(text, Path::new(source), self.variables).map_err(Box::new)?;
        compile(&file, self).map_err(Box::new)
    }

    /// An actor by its whole name; nothing when there is none.
    pub(super) fn get(&self, name: &str) -> Result<Option<Arc<Actor>>, Box<FileError>> {
        match self.files.get(name) {
            Some(file) => {
                self.used.borrow_mut().insert(name.to_owned());
                self.compile(&file.text, &file.source).map(Some)
            }
            None if (self.is_model)(name) => Ok(Some(Arc::new(of_model(name)))),
            None => Ok(None),
        }
    }

    /// The files of an actor that was compiled here, and of all that it refers to.
    pub(super) fn bundle(&self, actor: &str, own: Option<ActorText>) -> Bundle {
        let used = self.used.borrow();
        let mut files: BTreeMap<String, ActorText> = used
            .iter()
            .filter_map(|name| Some((name.clone(), self.files.get(name)?.clone())))
            .collect();
        files.extend(own.map(|own| (actor.to_owned(), own)));
        Bundle {
            actor: actor.to_owned(),
            files,
        }
    }

    /// The actors on the shelf that the ones compiled here refer to.
    pub(super) fn used(&self) -> BTreeSet<String> {
        self.used.borrow().clone()
    }

    /// Names that are much like one that does not exist.
    pub(super) fn nearest(&self, name: &str) -> Vec<String> {
        nearest::all(name, self.files.keys().map(String::as_str), 3)
    }
}

impl Resolver for Shelf<'_> {
    fn actor(&self, name: &str, trail: &Trail<'_>) -> Result<Arc<Actor>, Unresolved> {
        let whole = whole_name(name);
        if let Some(found) = self.compiled.borrow().get(&whole) {
            self.used.borrow_mut().insert(whole);
            return Ok(Arc::clone(found));
        }
        let Some(file) = self.files.get(&whole) else {
            if (self.is_model)(name) {
                return Ok(Arc::new(of_model(name)));
            }
            return Err(Unresolved::Missing(self.nearest(name)));
        };
        self.used.borrow_mut().insert(whole.clone());
        let broken = |error: FileError| Unresolved::Broken(error.to_string());
        let read = read(&file.text, Path::new(&file.source), self.variables);
        let found = compile_within(&read.map_err(broken)?, self, trail).map_err(broken)?;
        self.compiled.borrow_mut().insert(whole, Arc::clone(&found));
        Ok(found)
    }

    fn find(&self, kind: Supply, name: &str) -> Result<(), Vec<String>> {
        let listed = |known: &BTreeSet<String>| {
            if known.contains(name) || known.contains(&whole_name(name)) {
                Ok(())
            } else {
                Err(nearest::all(name, known.iter().map(String::as_str), 3))
            }
        };
        match kind {
            Supply::Skill => listed(&self.supplies.skills),
            Supply::McpServer => listed(&self.supplies.servers),
            Supply::Tool => {
                let of_server = name
                    .split_once('/')
                    .is_some_and(|(space, _)| self.supplies.server_namespaces.contains(space));
                let pattern = name.parse::<ToolPattern>();
                let is_there = pattern.is_ok_and(|pattern| {
                    self.supplies.tools.iter().any(|tool| pattern.matches(tool))
                });
                if of_server || is_there {
                    return Ok(());
                }
                let known: Vec<String> = self
                    .supplies
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

/// The actor that comes with a model.
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
