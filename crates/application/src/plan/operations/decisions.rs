//! `plan/tree` and `plan/explain`.

use std::collections::{BTreeMap, HashMap};

use cleveragents_actors::draw::{dot, mermaid, svg};
use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    ContentHash, Decision, DecisionId, DecisionType, Placeholder, Plan, PlanId, PlanPhase,
    Suggestion, Timestamp, shortest_prefix, suggest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TreeChildPlan, find_chosen, read_present, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::query::draw;
use crate::plan::{
    Alternative, DecisionNode, DecisionTree, Explanation, FailedCheck, Impact, TreeOptions,
    TreeSummary,
};

/// Maximum level of the nested response, because JSON parsers limit the nesting.
const MAX_NESTING: usize = 56;

/// Shows the decisions of a plan as a tree.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowDecisionTree {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
    /// Include superseded and rolled-back decisions.
    #[serde(default)]
    pub show_superseded: bool,
    /// Maximum depth, from 1; all levels when not given.
    #[serde(default)]
    pub depth: Option<u64>,
    /// The language of `drawing`. With `text`, the response has no `drawing`.
    #[serde(default)]
    pub drawing: TreeDrawing,
    #[serde(default)]
    pub form: TreeForm,
}

/// The language of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TreeDrawing {
    /// No drawing: clients draw the decisions as text themselves.
    #[default]
    Text,
    Svg,
    /// A Mermaid flowchart.
    Mermaid,
    /// The language of Graphviz.
    Dot,
}

/// The form of the decisions in the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TreeForm {
    /// Nested, in `tree`.
    #[default]
    Nested,
    /// A list in drawing order, in `outline`.
    Outline,
}

/// The response of `plan/tree`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DecisionTreeReport {
    pub plan_id: PlanId,
    /// The root with all decisions below it; `null` when the plan has no decisions yet, and in the
    /// form `outline`.
    pub tree: Option<TreeDecision>,
    pub summary: TreeSummary,
    /// The child plans in the order of their numbers.
    pub child_plans: Vec<TreeChildPlan>,
    /// Ids of decisions by readable labels.
    pub decision_ids: BTreeMap<String, DecisionId>,
    /// Decisions below level 56, which `tree` leaves out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deeper: Vec<TreeDecision>,
    /// The decisions in drawing order, in the form `outline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outline: Option<Vec<OutlineNode>>,
    /// The drawing in the requested language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawing: Option<String>,
}

/// A decision in the nested form.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TreeDecision {
    pub id: DecisionId,
    #[serde(rename = "type")]
    pub kind: DecisionType,
    /// The chosen option, or the question if no option is chosen yet.
    pub description: String,
    pub question: String,
    /// The number of the decision in the plan, from 1.
    pub sequence: u64,
    pub phase: PlanPhase,
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<DecisionId>,
    /// The number of the rollback that undid the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "taken_back_by")]
    pub rolled_back_by: Option<u64>,
    /// The child plan that the decision created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_plan: Option<TreeChildPlan>,
    /// The child decisions; missing in `deeper`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<Self>>,
    /// Number of decisions below this one that `tree` omits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children_left_out: Option<usize>,
    /// The parent decision; only in `deeper`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_present"
    )]
    pub parent: Option<Option<DecisionId>>,
    /// The level, from 0; only in `deeper`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
}

/// A decision as an entry of `outline`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OutlineNode {
    pub id: DecisionId,
    /// The shortest prefix of the id that no other decision of the plan has.
    pub short_id: String,
    #[serde(rename = "type")]
    pub kind: DecisionType,
    /// The chosen option, or the question if no option is chosen yet.
    pub description: String,
    /// From 0 to 1.
    pub confidence: Option<f64>,
    /// Reason why the decision is invalid.
    #[serde(rename = "fate")]
    pub status: Option<DecisionStatus>,
    /// The level, from 0.
    pub depth: usize,
    /// True for the last child of its parent.
    pub is_last: bool,
    /// Number of decisions below this one that are too deep to be shown.
    pub left_out: usize,
    /// The child plan that the decision created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_plan: Option<TreeChildPlan>,
}

/// Reason why a decision is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionStatus {
    Superseded,
    #[serde(rename = "taken_back")]
    RolledBack,
}

impl Operation for ShowDecisionTree {
    const NAME: &'static str = "plan/tree";
    const SUMMARY: &'static str = "Show the decisions of a plan as a tree";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = DecisionTreeReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<DecisionTreeReport, OperationError> {
        if self.depth == Some(0) {
            return Err(OperationError::usage("the depth must be at least 1"));
        }
        let plan = find_chosen(context, self.reference.as_deref())?;
        let plans = context.plans();
        let options = TreeOptions {
            shows_superseded: self.show_superseded,
            depth: self
                .depth
                .map(|depth| usize::try_from(depth).unwrap_or(usize::MAX)),
        };
        let tree = DecisionTree::new(plans.decisions(plan.id)?, options);
        let children = TreeChildPlan::of_plan(context, plan.id)?;
        let drawing = match self.drawing {
            TreeDrawing::Text => None,
            TreeDrawing::Svg => Some(svg(&draw::diagram(&tree, &title(&plan, &tree)))),
            TreeDrawing::Mermaid => Some(mermaid(&draw::diagram_with_influences(&tree, ""))),
            TreeDrawing::Dot => Some(dot(&draw::diagram_with_influences(&tree, ""))),
        };
        let mut summary = tree.summary;
        summary.child_plans = summary.child_plans.max(children.len());
        let (root, deeper, outline) = match self.form {
            TreeForm::Nested => {
                let (root, deeper) = nest(&tree, &children);
                (root, deeper, None)
            }
            TreeForm::Outline => (None, Vec::new(), Some(outline(&tree, &children))),
        };
        Ok(DecisionTreeReport {
            plan_id: plan.id,
            tree: root,
            summary,
            child_plans: children,
            decision_ids: tree.labels().into_iter().collect(),
            deeper,
            outline,
            drawing,
        })
    }
}

fn title(plan: &Plan, tree: &DecisionTree) -> String {
    let name = plan.name.clone().unwrap_or_else(|| plan.id.to_string());
    match tree.summary.nodes {
        1 => format!("{name}: 1 decision"),
        count => format!("{name}: {count} decisions"),
    }
}

/// Builds the root with all decisions below it, and the list of decisions that are too deep for JSON parsers.
fn nest(tree: &DecisionTree, plans: &[TreeChildPlan]) -> (Option<TreeDecision>, Vec<TreeDecision>) {
    let count = tree.nodes.len();
    let mut child_lists: Vec<Vec<TreeDecision>> = vec![Vec::new(); count];
    let (mut root, mut deeper) = (None, Vec::new());
    let mut omitted = vec![0_usize; count];
    // From the leaves up: all children of a node are complete before the node.
    for at in (0..count).rev() {
        let node = &tree.nodes[at];
        let mut decision = tree_decision(tree.decision(node), plans);
        let mut children = std::mem::take(&mut child_lists[at]);
        children.reverse();
        if node.depth >= MAX_NESTING {
            decision.parent = Some(tree.decision(node).content.parent);
            decision.depth = Some(node.depth);
            deeper.push(decision);
            if let Some(parent) = node.parent {
                omitted[parent] += omitted[at] + 1;
            }
            continue;
        }
        decision.children = Some(children);
        let left_out = node.left_out + omitted[at];
        decision.children_left_out = (left_out > 0).then_some(left_out);
        match node.parent {
            Some(parent) => child_lists[parent].push(decision),
            None => root = Some(decision),
        }
    }
    deeper.reverse();
    (root, deeper)
}

/// The child plan that a decision created.
fn spawned(plans: &[TreeChildPlan], decision: DecisionId) -> Option<TreeChildPlan> {
    let mut plans = plans.iter();
    plans
        .find(|plan| plan.spawned_by == Some(decision))
        .cloned()
}

fn tree_decision(decision: &Decision, plans: &[TreeChildPlan]) -> TreeDecision {
    let content = &decision.content;
    TreeDecision {
        id: content.id,
        kind: content.kind,
        description: draw::description(decision).to_owned(),
        question: content.question.clone(),
        sequence: decision.sequence,
        phase: content.phase,
        confidence: content.confidence,
        superseded_by: decision.superseded_by,
        rolled_back_by: decision.undone_by,
        child_plan: spawned(plans, content.id),
        children: None,
        children_left_out: None,
        parent: None,
        depth: None,
    }
}

fn outline(tree: &DecisionTree, plans: &[TreeChildPlan]) -> Vec<OutlineNode> {
    let mut short_ids = short_ids(tree);
    let node = |node: &DecisionNode| {
        let decision = tree.decision(node);
        let content = &decision.content;
        OutlineNode {
            id: content.id,
            short_id: short_ids.remove(&content.id).unwrap_or_default(),
            kind: content.kind,
            description: draw::description(decision).to_owned(),
            confidence: content.confidence,
            status: match (decision.superseded_by, decision.undone_by) {
                (Some(_), _) => Some(DecisionStatus::Superseded),
                (None, Some(_)) => Some(DecisionStatus::RolledBack),
                (None, None) => None,
            },
            depth: node.depth,
            is_last: node.is_last,
            left_out: node.left_out,
            child_plan: spawned(plans, content.id),
        }
    };
    tree.nodes.iter().map(node).collect()
}

/// The shortest prefixes of ids that distinguish the decisions of a plan.
fn short_ids(tree: &DecisionTree) -> HashMap<DecisionId, String> {
    let decisions = tree.decisions.iter();
    let mut all: Vec<(String, DecisionId)> = decisions
        .map(|decision| (decision.content.id.to_string(), decision.content.id))
        .collect();
    all.sort_unstable();
    let text = |at: usize| all.get(at).map(|(text, _)| text.as_str());
    all.iter()
        .enumerate()
        .map(|(at, (id_text, id))| {
            let before = at.checked_sub(1).and_then(text);
            let short = shortest_prefix(id_text, before, text(at + 1));
            (*id, short.to_owned())
        })
        .collect()
}

/// Explains a decision: its alternatives and its consequences.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainDecision {
    /// Id of a decision, or a prefix of at least 6 characters; or a plan, for its first decision.
    pub reference: String,
    /// Include the location of the context in `context_snapshot`.
    #[serde(default)]
    pub show_context: bool,
    /// Include the reasoning of the actor in `reasoning`.
    #[serde(default)]
    pub show_reasoning: bool,
}

/// The response of `plan/explain`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DecisionExplanation {
    pub decision_id: DecisionId,
    #[serde(rename = "type")]
    pub kind: DecisionType,
    pub question: String,
    pub chosen: String,
    /// From 0 to 1.
    pub confidence: Option<f64>,
    pub plan_id: PlanId,
    pub parent_decision_id: Option<DecisionId>,
    pub phase: PlanPhase,
    /// For example `3 of 12`.
    pub sequence: String,
    pub created: Timestamp,
    /// True if the decision is neither superseded nor rolled back.
    pub holds: bool,
    pub superseded_by: Option<DecisionId>,
    /// The number of the rollback that undid the decision.
    #[serde(rename = "taken_back_by")]
    pub rolled_back_by: Option<u64>,
    pub corrects: Option<DecisionId>,
    pub correction_reason: Option<String>,
    pub influenced_by: Vec<DecisionId>,
    /// The alternatives, the chosen one first.
    pub alternatives: Vec<Alternative>,
    pub impact: Impact,
    /// Paths that changed because of this decision and of the decisions that follow from it.
    pub artifacts: Vec<String>,
    /// The validations of the plan whose last result did not pass.
    pub failed_checks: Vec<FailedCheck>,
    pub context_snapshot: SnapshotInfo,
    pub rationale: String,
    /// The operation that gives the plan guidance; `null` when the plan is over.
    pub correction_hint: Option<Suggestion>,
    /// The reasoning of the actor; only on request, `null` when it is not recorded.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_present"
    )]
    pub reasoning: Option<Option<String>>,
}

/// The context of a decision. Its location is included only on request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotInfo {
    /// The number of relevant resources.
    pub items: usize,
    /// The hash of the complete input of the actor.
    pub hot_context_hash: Option<String>,
    /// The location of the complete input of the actor: the conversation, or the stored content.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_present"
    )]
    pub hot_context_ref: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevant_resources: Option<Vec<String>>,
    /// The run of the actor.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_present"
    )]
    pub actor_state_ref: Option<Option<String>>,
}

impl Operation for ExplainDecision {
    const NAME: &'static str = "plan/explain";
    const SUMMARY: &'static str = "Explain a decision, or the first one of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = DecisionExplanation;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.decision_or_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<DecisionExplanation, OperationError> {
        let Explanation {
            plan,
            decision,
            count,
            alternatives,
            impact,
            artifacts,
            failed_checks,
        } = context.plans().explain(&self.reference)?;
        let holds = decision.holds();
        let recorded = decision.content;
        let snapshot = recorded.snapshot;
        let is_over = plan.stage.is_terminal();
        Ok(DecisionExplanation {
            decision_id: recorded.id,
            kind: recorded.kind,
            question: recorded.question,
            chosen: recorded.chosen,
            confidence: recorded.confidence,
            plan_id: plan.id,
            parent_decision_id: recorded.parent,
            phase: recorded.phase,
            sequence: format!("{} of {count}", decision.sequence),
            created: decision.created_at,
            holds,
            superseded_by: decision.superseded_by,
            rolled_back_by: decision.undone_by,
            corrects: decision.corrects,
            correction_reason: decision.correction_reason,
            influenced_by: recorded.influenced_by,
            alternatives,
            impact,
            artifacts,
            failed_checks,
            context_snapshot: SnapshotInfo {
                items: snapshot.relevant_resources.len(),
                hot_context_hash: snapshot
                    .hot_context_hash
                    .as_ref()
                    .map(ContentHash::to_string),
                hot_context_ref: self.show_context.then_some(snapshot.hot_context_ref),
                relevant_resources: self.show_context.then_some(snapshot.relevant_resources),
                actor_state_ref: self.show_context.then_some(snapshot.actor_state_ref),
            },
            rationale: recorded.rationale,
            correction_hint: (!is_over)
                .then(|| suggest::plan_prompt(plan.id, Placeholder("GUIDANCE"))),
            reasoning: self.show_reasoning.then_some(recorded.reasoning),
        })
    }
}
