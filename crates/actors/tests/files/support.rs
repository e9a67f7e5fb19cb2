//! Actors, tools, skills and servers that the test files reference.

use std::path::Path;
use std::sync::Arc;

use cleveragents_actors::graph::NodeIndex;
use cleveragents_actors::{
    Actor, CompileStack, Graph, Node, NodeKind, ResolveError, Resolver, ToolSource, compile,
    compile_within, read,
};
use cleveragents_domain::{DefinitionFileError, nearest};

/// The existing tools, skills and servers.
const TOOLS: &[&str] = &[
    "builtin/file-read",
    "builtin/file-write",
    "builtin/git-diff",
    "builtin/shell",
    "builtin/ask-user",
];
const SKILLS: &[&str] = &["local/file-ops"];
const SERVERS: &[&str] = &["local/github"];

/// Other actors by name, each with the text of its file.
pub(crate) struct ActorFiles<'w>(pub(crate) &'w [(&'w str, &'w str)]);

impl Resolver for ActorFiles<'_> {
    fn actor(&self, name: &str, trail: &CompileStack<'_>) -> Result<Arc<Actor>, ResolveError> {
        let full_name = if name.contains('/') {
            name.to_owned()
        } else {
            format!("local/{name}")
        };
        let model = |text: &str| compile_within(&file(text)?, self, trail);
        if ["openai/", "scripted/"]
            .iter()
            .any(|provider| name.starts_with(provider))
        {
            let text = format!("name: local/model\ntype: llm\nmodel: {name}\n");
            return model(&text).map_err(|error| ResolveError::Broken(error.to_string()));
        }
        let Some((_, text)) = self.0.iter().find(|(known, _)| *known == full_name) else {
            let known = self.0.iter().map(|(known, _)| *known);
            return Err(ResolveError::Missing(nearest::all(name, known, 3)));
        };
        model(text).map_err(|error| ResolveError::Broken(error.to_string()))
    }

    fn find(&self, kind: ToolSource, name: &str) -> Result<(), Vec<String>> {
        let known = match kind {
            ToolSource::Tool => TOOLS,
            ToolSource::Skill => SKILLS,
            ToolSource::McpServer => SERVERS,
        };
        let fits = |known: &str| match name.split_once('*') {
            Some((before, after)) => known.starts_with(before) && known.ends_with(after),
            None => known == name,
        };
        if known.iter().any(|known| fits(known)) {
            return Ok(());
        }
        Err(nearest::all(name, known.iter().copied(), 3))
    }
}

fn file(text: &str) -> Result<cleveragents_actors::ActorFile, DefinitionFileError> {
    let variables = |name: &str| match name {
        "PROVIDER" => Some("openai".to_owned()),
        "WARMTH" => Some("0.5".to_owned()),
        _ => None,
    };
    read(text, Path::new("actor.yaml"), &variables)
}

/// Reads and compiles a file.
pub(crate) fn actor_in(
    text: &str,
    other_actors: &ActorFiles<'_>,
) -> Result<Arc<Actor>, DefinitionFileError> {
    compile(&file(text)?, other_actors)
}

/// Reads and compiles a file that references no other file.
pub(crate) fn try_actor(text: &str) -> Result<Arc<Actor>, DefinitionFileError> {
    actor_in(text, &ActorFiles(&[]))
}

/// Parses and compiles a valid file.
pub(crate) fn actor(text: &str) -> Arc<Actor> {
    try_actor(text).unwrap_or_else(|error| panic!("{error}: {}", error.fix.neutral()))
}

pub(crate) fn node<'a>(graph: &'a Graph, id: &str) -> &'a Node {
    let matching = graph.nodes.iter().find(|node| &*node.id == id);
    matching.unwrap_or_else(|| panic!("no node {id}"))
}

pub(crate) fn id(graph: &Graph, index: NodeIndex) -> &str {
    &graph.nodes[index.0 as usize].id
}

/// The targets of a node's edges.
pub(crate) fn next<'a>(graph: &'a Graph, source: &str) -> Vec<&'a str> {
    let edges = &node(graph, source).edges;
    edges.iter().map(|edge| id(graph, edge.target)).collect()
}

/// The ids of the exits.
pub(crate) fn exits(graph: &Graph) -> Vec<&str> {
    let exits = graph.nodes.iter().filter(|node| node.is_exit);
    exits.map(|node| &*node.id).collect()
}

/// The agent of an agent node.
pub(crate) fn agent<'a>(graph: &'a Graph, id: &str) -> &'a cleveragents_actors::Agent {
    match &node(graph, id).kind {
        NodeKind::Agent(node) => &node.agent,
        other => panic!("{id} is {other:?}"),
    }
}
