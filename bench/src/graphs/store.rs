//! A durable run of empty steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::ensure;
use cleveragents_actors::graph::{Argument, Edge, FunctionNode, Limits, NodeIndex};
use cleveragents_actors::{Actor, ActorKind, Expression, Graph, Node, NodeKind};
use cleveragents_application::{
    ModelSource, NoObserver, ReportTools, RunContext, RunService, RunStart, SessionService,
    ToolSources, UnknownOutcome,
};
use cleveragents_domain::{DEFAULT_MAX_CONTENT_BYTES, RunId};
use cleveragents_models::{Model, Redactor};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};
use cleveragents_tools::{
    Effect, Guards, PermissionRules, Phase, PlanMode, Registry, SafetyProfile, ToolName,
};
use serde_json::{Map, json};

/// Ports that provide no model, no tools and no user.
struct NoPorts;

impl ModelSource for NoPorts {
    fn open(&self, _name: Option<&str>) -> Result<Arc<dyn Model>, String> {
        Err("there is no model".to_owned())
    }
}

impl ToolSources for NoPorts {
    fn skill(&self, _name: &str) -> Result<Vec<ToolName>, String> {
        Err("there is no skill".to_owned())
    }

    fn server(&self, _name: &str) -> Result<Vec<ToolName>, String> {
        Err("there is no server".to_owned())
    }
}

impl Approver for NoPorts {
    fn approve(&self, _request: &ApprovalRequest<'_>) -> Approval {
        Approval::NoUser
    }

    fn question(&self, _question: &Question<'_>) -> Reply {
        Reply::NoUser
    }
}

/// An actor with one counting node that repeats by a condition on its edge, as in the peers: each turn is one step.
fn counting(turns: u64) -> anyhow::Result<Actor> {
    let node = |id: &str, edges: Vec<Edge>| -> anyhow::Result<Node> {
        Ok(Node {
            id: Arc::from(id),
            kind: NodeKind::Function(FunctionNode {
                set: vec![("n".to_owned(), Argument::Value(Expression::parse("n + 1")?))],
            }),
            is_exit: edges.is_empty(),
            edges,
            timeout: None,
            retries: 0,
            on_error: None,
        })
    };
    let repeat_edge = Edge {
        target: NodeIndex(0),
        condition: Some(Expression::parse(&format!("n < {}", turns - 1))?),
    };
    let last_edge = Edge {
        target: NodeIndex(1),
        condition: None,
    };
    Ok(Actor {
        name: "local/counting".to_owned(),
        kind: ActorKind::Graph,
        description: String::new(),
        version: None,
        role: None,
        is_unsafe: false,
        graph: Graph {
            nodes: vec![
                node("count", vec![repeat_edge, last_edge])?,
                node("last", Vec::new())?,
            ],
            entry: NodeIndex(0),
            keys: BTreeMap::new(),
            limits: Limits {
                max_steps: turns,
                ..Limits::of_nodes(2)
            },
        },
        context: Map::new(),
        warnings: Vec::new(),
    })
}

/// Runs `steps` steps on a store.
pub(super) fn run(engine: &Arc<Engine>, steps: u64) -> anyhow::Result<RunId> {
    let sessions = SessionService::new(Arc::clone(engine), DEFAULT_MAX_CONTENT_BYTES);
    let service = RunService::new(Arc::clone(engine), sessions);
    let (registry, profile) = (Registry::empty(), SafetyProfile::default());
    let (guards, rules) = (
        Guards::default(),
        PermissionRules::new(Vec::new(), Effect::Allow),
    );
    let context = RunContext {
        plan: None,
        models: &NoPorts,
        registry: &registry,
        sources: &NoPorts,
        deferred: &BTreeSet::new(),
        extra_tools: &[],
        reports: ReportTools::default(),
        carried: None,
        work: None,
        summary_prompt: None,
        mode: PlanMode::Normal(Phase::Session),
        profile: &profile,
        guards: &guards,
        rules: &rules,
        workspace: None,
        approver: &NoPorts,
        scopes: Vec::new(),
        instructions: Vec::new(),
        temperature: None,
        redactor: Redactor::default(),
        observer: &NoObserver,
        cancel: &Cancel::new(),
        unknown_outcome: UnknownOutcome::Ask,
    };
    let start = RunStart {
        id: RunId::generate(),
        namespace: "local".to_owned(),
        actor: Arc::new(counting(steps)?),
        actor_hash: String::new(),
        definitions: json!({}),
        input: Map::from_iter([("n".to_owned(), json!(0))]),
        context: Map::new(),
        options: json!({}),
    };
    let report = service.start(&start, &context)?;
    ensure!(
        report.outcome.steps == steps,
        "the run had {} steps instead of {steps}",
        report.outcome.steps
    );
    Ok(report.run)
}
