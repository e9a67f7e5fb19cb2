//! Compiles a graph: its nodes, edges, state keys and limits.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cleveragents_domain::{DefinitionFault, MicroUsd, nearest};

use super::argument::key;
use super::check::{self, Draft};
use super::node::{Kind, NodeContext, seconds};
use super::resolver::CompileStack;
use super::{Compiler, Settings};
use crate::file::{
    EDGE, Fields, KEY, LIMITS, NODE, ROUTE, Tree, WithPosition, broken_rule, did_you_mean, list,
    map, text, unexpected,
};
use crate::graph::{
    Agent, Edge, FunctionNode, Graph, Key, Limits, Node, NodeIndex, NodeKind, ResponseFormat,
};
use crate::state::Reducer;

/// Maximum number of retries of a failed node.
const MAX_RETRIES: u64 = 100;

/// Nodes of a graph by their ids.
pub(super) struct Targets<'a> {
    index: HashMap<&'a str, NodeIndex>,
    /// Whether an edge leads to `end` and no node has the id `end`.
    goes_to_end: Cell<bool>,
}

impl Targets<'_> {
    /// Returns the node with this id.
    pub(super) fn find(&self, id: &WithPosition<String>) -> Result<NodeIndex, DefinitionFault> {
        if let Some(index) = self.index.get(id.value.as_str()) {
            return Ok(*index);
        }
        if is_sign(&id.value, "end") {
            self.goes_to_end.set(true);
            return Ok(index_of(self.index.len()));
        }
        let message = format!("node `{}` does not exist", id.value);
        let known = self.index.keys().copied();
        // The map is unordered; sorting makes the choice among equally similar ids deterministic.
        let mut near = nearest::all(&id.value, known, 8);
        near.sort();
        let fix = did_you_mean(&id.value, near.iter().map(String::as_str), || {
            "add it to `nodes`, or name another node".to_owned()
        });
        Err(broken_rule(id.place, message, fix))
    }

    /// Returns the node that a field names.
    pub(super) fn field(
        &self,
        fields: &Fields<'_>,
        name: &str,
    ) -> Result<Option<NodeIndex>, DefinitionFault> {
        fields.text(name)?.map(|id| self.find(&id)).transpose()
    }
}

/// Whether an id denotes the start or the end of a graph: `end`, `END`, `__end__`.
fn is_sign(id: &str, sign: &str) -> bool {
    id.trim_matches('_').eq_ignore_ascii_case(sign)
}

fn index_of(number: usize) -> NodeIndex {
    // A file of the maximum size, 1 MiB, has fewer nodes.
    NodeIndex(u32::try_from(number).unwrap_or(u32::MAX))
}

/// A graph of one node, with default limits.
pub(super) fn of_one(id: &str, kind: NodeKind) -> Graph {
    Graph {
        nodes: vec![Node {
            id: id.into(),
            kind,
            edges: Vec::new(),
            is_exit: true,
            timeout: None,
            retries: 0,
            on_error: None,
        }],
        entry: NodeIndex(0),
        keys: BTreeMap::new(),
        limits: Limits::of_nodes(1),
    }
}

impl<'c> Compiler<'c> {
    /// The graph of an actor.
    pub(super) fn graph(
        &self,
        fields: &Fields<'c>,
        trail: &CompileStack<'_>,
    ) -> Result<Graph, DefinitionFault> {
        let route = self.route(fields)?;
        let drafts = self.drafts(&route)?;
        let targets = targets(&drafts)?;
        let defaults = self.defaults(fields)?;
        let context = NodeContext {
            targets: &targets,
            defaults: &defaults,
            trail,
        };
        let mut nodes = Vec::with_capacity(drafts.len() + 1);
        for (id, fields) in &drafts {
            nodes.push(self.draft(id, fields, &context)?);
        }
        let entry = self.edges(&route, &targets, &mut nodes)?;
        let mut exits = Vec::new();
        for id in route.texts("exit_nodes")? {
            exits.push((targets.find(&id)?, id.place));
        }
        for (number, (_, fields)) in drafts.iter().enumerate() {
            if fields.flag("exit")? == Some(true) {
                exits.push((index_of(number), fields.place_of("exit")));
            }
        }
        if targets.goes_to_end.get() {
            // Do not add this node to `exits`: if the file names no exits, nodes without successors are exits too.
            nodes.push(end());
        }
        let entry = match route.text("entry_node")? {
            Some(id) => targets.find(&id)?,
            None => entry.unwrap_or(NodeIndex(0)),
        };
        let draft = Draft {
            places: drafts.iter().map(|(id, _)| id.place).collect(),
            nodes,
            entry,
            exits,
        };
        let mut nodes = check::finish(draft)?;
        check::same_output(&nodes, &self.keys_of(fields, &route)?, |message| {
            self.warn(route.place, &message);
        });
        apply_response_format(&mut nodes, &defaults);
        Ok(Graph {
            limits: self.limits(&route, self.limits(fields, Limits::of_nodes(nodes.len()))?)?,
            nodes,
            entry,
            keys: self.keys_of(fields, &route)?,
        })
    }

    fn keys_of(
        &self,
        fields: &Fields<'c>,
        route: &Fields<'c>,
    ) -> Result<BTreeMap<String, Key>, DefinitionFault> {
        let mut keys = self.keys(fields)?;
        keys.extend(self.keys(route)?);
        Ok(keys)
    }

    /// Returns the map that contains the nodes: `fields` itself, `route`, or `graph_descriptor`.
    fn route(&self, fields: &Fields<'c>) -> Result<Fields<'c>, DefinitionFault> {
        let given = fields
            .get("route")
            .or_else(|| fields.get("graph_descriptor"));
        let Some(tree) = given else {
            return Ok(fields.clone());
        };
        if fields.get("nodes").is_some() {
            let message = "the nodes are defined in two places";
            let fix = "remove `nodes` or `route`";
            return Err(broken_rule(fields.place_of("nodes"), message, fix));
        }
        if matches!(tree.value, Tree::Map(_)) {
            return self.open(tree, &ROUTE);
        }
        let name = text(tree)?;
        let route = self.local.get(name.value.as_str());
        route.map(|local| local.fields.clone()).ok_or_else(|| {
            let message = format!("route `{}` does not exist", name.value);
            let fix = did_you_mean(&name.value, self.local.keys().copied(), || {
                "add it to `routes`".to_owned()
            });
            broken_rule(name.place, message, fix)
        })
    }

    /// The fields of the nodes, each with its id.
    fn drafts(
        &self,
        route: &Fields<'c>,
    ) -> Result<Vec<(WithPosition<String>, Fields<'c>)>, DefinitionFault> {
        let tree = route.get("nodes").ok_or_else(|| {
            let message = "the graph has no nodes";
            broken_rule(route.place, message, "add `nodes:` with one node per line")
        })?;
        let mut drafts = Vec::new();
        match &tree.value {
            Tree::Map(nodes) => {
                for (id, node) in nodes {
                    let fields = self.open(node, &NODE)?;
                    if fields.get("id").is_some() {
                        let message = format!("the node `{}` has two ids", id.value);
                        let place = fields.place_of("id");
                        return Err(broken_rule(place, message, "remove `id`"));
                    }
                    drafts.push((id.clone(), fields));
                }
            }
            Tree::List(nodes) => {
                for node in nodes {
                    let fields = self.open(node, &NODE)?;
                    drafts.push((text(fields.needed("id", "a node")?)?, fields));
                }
            }
            _ => {
                let fix = "write `nodes:` and the ids below it";
                return Err(unexpected(tree, "a map or a list of nodes", fix));
            }
        }
        if drafts.is_empty() {
            let message = "the graph has no nodes";
            return Err(broken_rule(tree.place, message, "add a node"));
        }
        Ok(drafts)
    }

    fn draft(
        &self,
        id: &WithPosition<String>,
        fields: &Fields<'c>,
        context: &NodeContext<'_>,
    ) -> Result<Node, DefinitionFault> {
        let kind = Kind::from_fields(fields)?;
        let retries = match fields.count("retries")? {
            None => 0,
            Some(count) if count.value <= MAX_RETRIES => {
                u32::try_from(count.value).unwrap_or_default()
            }
            Some(count) => {
                let message = format!("{} retries are too many", count.value);
                let fix = format!("write a number of at most {MAX_RETRIES}");
                return Err(broken_rule(count.place, message, fix));
            }
        };
        Ok(Node {
            id: id.value.as_str().into(),
            kind: self.node(&id.value, kind, fields, context)?,
            edges: self.next(fields, context.targets)?,
            is_exit: false,
            timeout: seconds(fields, "timeout_seconds")?,
            retries,
            on_error: context.targets.field(fields, "on_error")?,
        })
    }

    /// Parses the edges in `next` of a node.
    fn next(
        &self,
        fields: &Fields<'c>,
        targets: &Targets<'_>,
    ) -> Result<Vec<Edge>, DefinitionFault> {
        let Some(tree) = fields.get("next") else {
            return Ok(Vec::new());
        };
        let single_item = std::slice::from_ref(tree);
        let items = match &tree.value {
            Tree::List(items) => items,
            _ => single_item,
        };
        let mut edges = Vec::with_capacity(items.len());
        for item in items {
            edges.push(match &item.value {
                Tree::Map(_) => {
                    let edge = self.open(item, &EDGE)?;
                    if edge.get("source").is_some() {
                        let message = "an edge in `next` cannot have a `source`";
                        let place = edge.place_of("source");
                        return Err(broken_rule(place, message, "remove it"));
                    }
                    self.edge(&edge, targets)?
                }
                _ => Edge {
                    target: targets.find(&text(item)?)?,
                    condition: None,
                },
            });
        }
        Ok(edges)
    }

    fn edge(&self, edge: &Fields<'c>, targets: &Targets<'_>) -> Result<Edge, DefinitionFault> {
        Ok(Edge {
            target: targets.find(&text(edge.needed("target", "an edge")?)?)?,
            condition: edge
                .get("condition")
                .map(|tree| self.condition(tree))
                .transpose()?,
        })
    }

    /// Adds the edges in `edges` to their source nodes. Returns the target of an edge from `start`, the entry.
    fn edges(
        &self,
        route: &Fields<'c>,
        targets: &Targets<'_>,
        nodes: &mut [Node],
    ) -> Result<Option<NodeIndex>, DefinitionFault> {
        let mut entry = None;
        for tree in route.get("edges").map_or(Ok(&[][..]), list)? {
            let fields = self.open(tree, &EDGE)?;
            let source = text(fields.needed("source", "an edge")?)?;
            let edge = self.edge(&fields, targets)?;
            if is_sign(&source.value, "start") && !targets.index.contains_key(&*source.value) {
                if entry.is_some() || edge.condition.is_some() {
                    let message = "a run can start at one node only";
                    let fix = "start with a conditional node";
                    return Err(broken_rule(source.place, message, fix));
                }
                entry = Some(edge.target);
                continue;
            }
            let source = targets.find(&source)?;
            if let Some(node) = nodes.get_mut(source.0 as usize) {
                node.edges.push(edge);
            }
        }
        Ok(entry)
    }

    /// The keys of the state.
    pub(super) fn keys(
        &self,
        fields: &Fields<'c>,
    ) -> Result<BTreeMap<String, Key>, DefinitionFault> {
        let mut keys = BTreeMap::new();
        for (name, tree) in fields.get("state").map_or(Ok(&[][..]), map)? {
            let (reducer, initial) = match &tree.value {
                Tree::Map(_) => {
                    let entry = self.open(tree, &KEY)?;
                    let reducer = entry.word("reducer", REDUCERS)?;
                    let initial = entry.get("initial").map(|tree| tree.value.json());
                    (reducer.unwrap_or_default(), initial)
                }
                _ => (reducer(&text(tree)?)?, None),
            };
            keys.insert(key(name.clone())?, Key { reducer, initial });
        }
        Ok(keys)
    }

    /// Compiles the limits of a run; missing limits are taken from `defaults`.
    pub(super) fn limits(
        &self,
        fields: &Fields<'c>,
        defaults: Limits,
    ) -> Result<Limits, DefinitionFault> {
        let Some(tree) = fields.get("limits") else {
            return Ok(defaults);
        };
        let limits = self.open(tree, &LIMITS)?;
        let positive = |name: &str| match limits.count(name)? {
            Some(count) if count.value == 0 => {
                let message = format!("`{name}: 0` prevents every run");
                Err(broken_rule(count.place, message, "write 1 or more"))
            }
            count => Ok(count.map(|count| count.value)),
        };
        let max_cost = match limits.number("max_cost")? {
            None => None,
            Some(dollars) => {
                let cost = MicroUsd::from_usd_rounded_up(dollars.value).ok_or_else(|| {
                    let message =
                        format!("a limit of {} US dollars is out of range", dollars.value);
                    broken_rule(dollars.place, message, "write it like 0.50")
                })?;
                Some(cost)
            }
        };
        Ok(Limits {
            max_steps: positive("max_steps")?.unwrap_or(defaults.max_steps),
            max_depth: positive("max_depth")?.map_or(defaults.max_depth, |depth| {
                u32::try_from(depth).unwrap_or(u32::MAX)
            }),
            max_model_calls: limits
                .count("max_model_calls")?
                .map(|count| count.value)
                .or(defaults.max_model_calls),
            max_tool_calls: limits
                .count("max_tool_calls")?
                .map(|count| count.value)
                .or(defaults.max_tool_calls),
            timeout: seconds(&limits, "timeout_seconds")?.or(defaults.timeout),
            max_cost: max_cost.or(defaults.max_cost),
        })
    }
}

const REDUCERS: &[(&str, Reducer)] = &[
    ("replace", Reducer::Replace),
    ("append", Reducer::Append),
    ("merge", Reducer::Merge),
    ("sum", Reducer::Sum),
];

fn reducer(word: &WithPosition<String>) -> Result<Reducer, DefinitionFault> {
    let found = REDUCERS.iter().find(|(known, _)| *known == word.value);
    found.map(|(_, reducer)| *reducer).ok_or_else(|| {
        let message = format!("reducer `{}` does not exist", word.value);
        let fix = did_you_mean(
            &word.value,
            REDUCERS.iter().map(|(known, _)| *known),
            || "use replace, append, merge or sum".to_owned(),
        );
        broken_rule(word.place, message, fix)
    })
}

/// Indexes the nodes by id. Ids must be unique and valid in step paths.
fn targets<'d>(
    drafts: &'d [(WithPosition<String>, Fields<'_>)],
) -> Result<Targets<'d>, DefinitionFault> {
    let mut index = HashMap::with_capacity(drafts.len());
    for (number, (id, _)) in drafts.iter().enumerate() {
        let fits = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
        if id.value.is_empty() || id.value.len() > 100 || !id.value.chars().all(fits) {
            let message = format!("`{}` cannot be the id of a node", id.value);
            let fix = "write at most 100 letters, digits, `_`, `-` and `.`";
            return Err(broken_rule(id.place, message, fix));
        }
        if let Some(other) = index.insert(id.value.as_str(), index_of(number)) {
            let line = drafts
                .get(other.0 as usize)
                .map_or(0, |(id, _)| id.place.line);
            let message = format!("the node `{}` is defined here and at line {line}", id.value);
            return Err(broken_rule(id.place, message, "rename one of them"));
        }
    }
    Ok(Targets {
        index,
        goes_to_end: Cell::new(false),
    })
}

/// The node for `end`, when an edge leads to it and no node has this id.
fn end() -> Node {
    Node {
        id: "end".into(),
        kind: NodeKind::Function(FunctionNode { set: Vec::new() }),
        edges: Vec::new(),
        is_exit: false,
        timeout: None,
        retries: 0,
        on_error: None,
    }
}

/// Applies the response format of the graph to the agents at its exits.
fn apply_response_format(nodes: &mut [Node], defaults: &Settings) {
    let Some((name, schema, strict)) = &defaults.response_format else {
        return;
    };
    for node in nodes.iter_mut().filter(|node| node.is_exit) {
        if let NodeKind::Agent(agent_node) = &mut node.kind
            && agent_node.agent.response_format.is_none()
        {
            agent_node.agent = Arc::new(Agent {
                response_format: Some(ResponseFormat {
                    name: name.clone().unwrap_or_else(|| "answer".to_owned()),
                    schema: schema.clone(),
                    strict: *strict,
                }),
                ..Agent::clone(&agent_node.agent)
            });
        }
    }
}
