//! Graphs for tests of interrupted runs: hand-built and random.

use cleveragents_actors::{Actor, NodeKind, Reducer};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::draft::{Draft, agent, function, map, subgraph, tool};

/// All hand-built graphs, each with a name and its input.
pub(crate) fn hand_written() -> Vec<(&'static str, Actor, Value)> {
    vec![
        ("reviewers", reviewers(), json!({"input": "a change"})),
        ("a loop", counting_loop(5), json!({})),
        ("three deep", three_deep(), json!({"input": "q"})),
        (
            "a map of a hundred",
            hundred(),
            json!({"numbers": (0..100).collect::<Vec<_>>()}),
        ),
    ]
}

/// A graph with an agent that drafts, three concurrent reviewers, and an agent that judges.
pub(crate) fn reviewers() -> Actor {
    let mut draft = Draft::new(&["write", "fan", "safety", "style", "tests", "judge"])
        .does("write", agent("write {{ input }}", "text"))
        .edge("write", "fan")
        .parallel("fan", &["safety", "style", "tests"], "judge")
        .does("judge", agent("judge {{ reviews | join(', ') }}", "output"))
        .exit("judge")
        .key("reviews", Reducer::Append, Value::Null)
        .key("score", Reducer::Sum, json!(0))
        .key("facts", Reducer::Merge, Value::Null);
    for id in ["safety", "style", "tests"] {
        draft = draft
            .does(id, agent(&format!("{id} of {{{{ text }}}}"), "reviews"))
            .edge(id, "judge");
    }
    draft.actor()
}

/// A loop that counts and calls a tool in each iteration.
pub(crate) fn counting_loop(times: u32) -> Actor {
    Draft::new(&["count", "call", "again", "done"])
        .does("count", function(&[("n", "1")]))
        .edge("count", "call")
        .does("call", tool("local/count", &[("n", "n")], "calls"))
        .edge("call", "again")
        .conditional("again", &[(&format!("n < {times}"), "count")], Some("done"))
        .does("done", function(&[("output", "n")]))
        .exit("done")
        .key("n", Reducer::Sum, json!(0))
        .key("calls", Reducer::Append, Value::Null)
        .actor()
}

/// An agent inside three nested subgraphs, between functions.
pub(crate) fn three_deep() -> Actor {
    let mut actor = Draft::new(&["ask"])
        .does("ask", agent("{{ input }}", "output"))
        .exit("ask")
        .actor();
    for level in 0..3 {
        actor = Draft::new(&["before", "inner", "after"])
            .does(
                "before",
                function(&[("input", &format!("input ~ {level}"))]),
            )
            .edge("before", "inner")
            .does("inner", subgraph(actor))
            .edge("inner", "after")
            .does("after", function(&[("trace", &format!("'{level}'"))]))
            .exit("after")
            .key("trace", Reducer::Append, Value::Null)
            .actor();
    }
    actor
}

/// A graph with a model call for each of a hundred items, eight of them concurrently, and a node that concatenates the
/// answers.
fn hundred() -> Actor {
    Draft::new(&["ask", "sum"])
        .does(
            "ask",
            map("numbers", agent("{{ item }}", "x"), "answers", 8),
        )
        .edge("ask", "sum")
        .does("sum", function(&[("output", "answers | join('')")]))
        .exit("sum")
        .actor()
}

/// A part of a random graph.
#[derive(Debug, Clone)]
pub(crate) enum GraphPart {
    Add,
    Ask,
    Call,
    Loop(Vec<Self>),
    Fan(Vec<Vec<Self>>),
    Subgraph(Vec<Self>),
    MapEach(u8, Vec<Self>),
}

pub(crate) fn parts() -> impl Strategy<Value = Vec<GraphPart>> {
    let leaf = prop_oneof![
        Just(GraphPart::Add),
        Just(GraphPart::Ask),
        Just(GraphPart::Call)
    ];
    let part = leaf.prop_recursive(3, 12, 3, |inner| {
        let some = || prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            some().prop_map(GraphPart::Loop),
            prop::collection::vec(some(), 1..4).prop_map(GraphPart::Fan),
            some().prop_map(GraphPart::Subgraph),
            (0..4_u8, some()).prop_map(|(items, body)| GraphPart::MapEach(items, body)),
        ]
    });
    prop::collection::vec(part, 1..4)
}

/// Builds an actor from parts in sequence. All keys accumulate, so that a lost or repeated update changes the result.
pub(crate) fn actor_of(parts: &[GraphPart]) -> Actor {
    let mut builder = GraphBuilder::default();
    let (first, last) = builder.sequence(parts);
    let end = builder.add("end", function(&[]));
    builder.connect(&last, &end);
    let ids: Vec<&str> = builder.nodes.iter().map(|(id, _)| id.as_str()).collect();
    let mut draft = Draft::new(&ids)
        .exit(&end)
        .key("n", Reducer::Sum, json!(0))
        .key("said", Reducer::Append, Value::Null)
        .key("called", Reducer::Append, Value::Null)
        .key("many", Reducer::Append, Value::Null);
    draft.graph.entry = draft.at(&first);
    for (id, kind) in builder.nodes.drain(..).collect::<Vec<_>>() {
        draft = match kind {
            NodeDraft::Kind(kind) => draft.does(&id, kind),
            NodeDraft::Fan(branches, join) => {
                let branches: Vec<&str> = branches.iter().map(String::as_str).collect();
                draft.parallel(&id, &branches, &join)
            }
        };
    }
    for (from, condition, to) in &builder.edges {
        draft = match condition {
            None => draft.edge(from, to),
            Some(condition) => draft.edge_if(from, condition, to),
        };
    }
    draft.limit(|limits| limits.max_steps = 1_000_000).actor()
}

enum NodeDraft {
    Kind(NodeKind),
    Fan(Vec<String>, String),
}

/// Nodes and edges under construction.
#[derive(Default)]
struct GraphBuilder {
    nodes: Vec<(String, NodeDraft)>,
    edges: Vec<(String, Option<String>, String)>,
}

impl GraphBuilder {
    fn add(&mut self, name: &str, kind: NodeKind) -> String {
        let id = format!("{name}{}", self.nodes.len());
        self.nodes.push((id.clone(), NodeDraft::Kind(kind)));
        id
    }

    fn connect(&mut self, from: &str, to: &str) {
        self.edges.push((from.to_owned(), None, to.to_owned()));
    }

    /// Lays out parts in sequence; returns the first and the last node.
    fn sequence(&mut self, parts: &[GraphPart]) -> (String, String) {
        let mut ends: Option<(String, String)> = None;
        for part in parts {
            let (first, last) = self.write_part(part);
            ends = Some(match ends {
                None => (first, last),
                Some((begin, end)) => {
                    self.connect(&end, &first);
                    (begin, last)
                }
            });
        }
        ends.expect("at least one part")
    }

    fn write_part(&mut self, part: &GraphPart) -> (String, String) {
        let single = |id: String| (id.clone(), id);
        match part {
            GraphPart::Add => single(self.add("add", function(&[("n", "1")]))),
            GraphPart::Ask => single(self.add("ask", agent("{{ n }}", "said"))),
            GraphPart::Call => single(self.add("call", tool("local/t", &[("n", "n")], "called"))),
            GraphPart::Subgraph(body) => single(self.add("sub", subgraph(actor_of(body)))),
            GraphPart::MapEach(items, body) => {
                let list = format!("{:?}", (0..*items).collect::<Vec<_>>());
                let kind = map(&list, subgraph(actor_of(body)), "many", 2);
                single(self.add("each", kind))
            }
            GraphPart::Loop(body) => {
                // Every loop runs three times, with its own counter.
                let counter = format!("turn{}", self.nodes.len());
                let begin = self.add("begin", function(&[(&counter, "0")]));
                let (first, last) = self.sequence(body);
                let count = self.add("turn", function(&[(&counter, &format!("{counter} + 1"))]));
                let after = self.add("after", function(&[]));
                self.connect(&begin, &first);
                self.connect(&last, &count);
                let again = Some(format!("{counter} < 3"));
                self.edges.push((count.clone(), again, first));
                self.connect(&count, &after);
                (begin, after)
            }
            GraphPart::Fan(branches) => {
                let fan = format!("fan{}", self.nodes.len());
                let place = self.nodes.len();
                self.nodes
                    .push((fan.clone(), NodeDraft::Kind(function(&[]))));
                let ends: Vec<_> = branches
                    .iter()
                    .map(|branch| self.sequence(branch))
                    .collect();
                let join = self.add("join", function(&[]));
                for (_, last) in &ends {
                    self.connect(last, &join);
                }
                let firsts = ends.into_iter().map(|(first, _)| first).collect();
                self.nodes[place].1 = NodeDraft::Fan(firsts, join.clone());
                (fan, join)
            }
        }
    }
}
