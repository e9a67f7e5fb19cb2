//! Creates the child plans of a batch of steps: rows of plans, steps and decisions, in one unit of work.

use std::fmt::Write as _;

use cleveragents_domain::{
    ChildSettings, ChildState, DecisionId, DecisionType, Invariant, InvariantId, InvariantScope,
    NewDecision, Plan, PlanId, PlanInputs, PlanPhase, PlanStep, PlanStrategy, StepRecord,
};
use cleveragents_store::child_plans::NewChild;
use cleveragents_store::invariants::NewInvariant;
use cleveragents_store::plan_steps::{Guidance, NewStep};
use cleveragents_store::plans::NewPlan;
use cleveragents_store::{
    Error, UnitOfWork, child_plans, decisions, invariants, plan_steps, plans,
};

use super::{BatchMember, ChildPlans, ChildStep};
use crate::plan::decision::new_decision;
use crate::plan::error::PlanError;
use crate::plan::lineage::Lineage;
use crate::plan::prompt::shortened;
use crate::plan::strategize::TASK_CRITERION;
use crate::tool::SandboxWorkspace;

/// Maximum size of the parent's task in the description of a child plan, in bytes.
const SHOWN_TASK: usize = 4_000;

/// Maximum size of the parent's approach and decisions in the description of a child plan, in bytes.
const SHOWN_DECISIONS: usize = 4_000;

/// Everything that is stored for a new child plan.
struct Spawn {
    path: String,
    title: String,
    plan: NewPlan,
    strategy: PlanStrategy,
    invariants: Vec<NewInvariant>,
    decision: NewDecision,
}

impl ChildPlans<'_> {
    /// Begins the steps of a batch and creates the child plans that do not exist yet.
    pub(super) fn spawn<'s>(
        &self,
        plan: &Plan,
        strategy: &PlanStrategy,
        steps: &'s [ChildStep<'s>],
        settings: &ChildSettings,
        workspace: &SandboxWorkspace,
    ) -> Result<Vec<BatchMember<'s>>, PlanError> {
        let id = plan.id;
        self.check_depth(plan)?;
        let known = self.progress.read(|reader| {
            let records = plan_steps::of_plan(reader, id)?;
            Ok((records, child_plans::of_plan(reader, id)?))
        })?;
        let child_of = |path: &str| {
            let (records, children) = &known;
            let record = records
                .iter()
                .find(|record| record.path == path && record.undone_by.is_none())?;
            children
                .iter()
                .find(|child| child.step == record.number && child.state != ChildState::Cancelled)
        };
        let missing: Vec<&ChildStep<'_>> = steps
            .iter()
            .filter(|step| child_of(&step.path).is_none())
            .collect();
        let spawns = self.spawns(plan, strategy, &missing)?;
        let container = (spawns.len() > 1)
            .then(|| self.parallel_decision(plan, &missing, settings))
            .transpose()?;
        let checkpoint = match missing.first() {
            Some(first) => Some(workspace.mark(&first.path)?.0),
            None => None,
        };
        let position = workspace.position();
        let (settings, paths) = (settings.clone(), paths_of(steps));
        let last_guidance = self
            .pending_guidance(plan)?
            .last()
            .map(|entry| entry.number);
        let last_guidance = last_guidance.filter(|_| !spawns.is_empty());
        let records = self.progress.write(move |unit| {
            if let Some(container) = &container {
                decisions::insert(unit, id, container)?;
            }
            // The tasks of the child plans contain the guidance.
            if let Some(last) = last_guidance {
                plan_steps::mark_guidance_applied(unit, id, last)?;
            }
            for spawn in &spawns {
                let parent = container.as_ref().map(|container| container.id);
                store_spawn(unit, id, spawn, parent, &settings, (checkpoint, position))?;
            }
            records_of(unit, id, &paths, position)
        })?;
        Ok(records
            .into_iter()
            .zip(steps)
            .map(|((record, child), step)| BatchMember {
                record,
                step,
                child,
            })
            .collect())
    }

    fn check_depth(&self, plan: &Plan) -> Result<(), PlanError> {
        let id = plan.id;
        let depth = self
            .progress
            .read(|reader| child_plans::depth(reader, id))?;
        if depth < self.max_depth {
            return Ok(());
        }
        Err(PlanError::Usage(format!(
            "the plan has {depth} plans above it, and `plan.max-child-depth` is {}: its steps cannot be child plans",
            self.max_depth
        )))
    }

    fn spawns(
        &self,
        plan: &Plan,
        strategy: &PlanStrategy,
        steps: &[&ChildStep<'_>],
    ) -> Result<Vec<Spawn>, PlanError> {
        let Some(root) = plan.decision_root else {
            return Err(PlanError::NotFound(plan.id));
        };
        let decided = self.decided(plan)?;
        let guidance = self.pending_guidance(plan)?;
        let (all, records) = self.progress.read(|reader| {
            Ok((
                decisions::of_plan(reader, plan.id)?,
                plan_steps::of_plan(reader, plan.id)?,
            ))
        })?;
        let snapshot = self.snapshots.take(plan, None)?;
        let inherited: Vec<String> = self
            .requirements
            .reconciled(plan)?
            .effective
            .into_iter()
            .filter(|invariant| invariant.source == InvariantScope::Plan)
            .map(|invariant| invariant.text)
            .collect();
        let mut spawns = Vec::with_capacity(steps.len());
        for step in steps {
            let lineage = Lineage::of_step(plan, &all, &records, &step.path);
            let child = PlanId::generate();
            let short = child.to_string().to_ascii_lowercase();
            let mut new_invariants = Vec::with_capacity(inherited.len());
            for text in &inherited {
                new_invariants.push(NewInvariant {
                    id: InvariantId::generate(),
                    text: Invariant::checked_text(text)
                        .map_err(|error| PlanError::Usage(error.to_string()))?,
                    scope: InvariantScope::Plan,
                    source_name: Some(child.to_string()),
                    non_overridable: false,
                });
            }
            spawns.push(Spawn {
                path: step.path.clone(),
                title: step.step.title.clone(),
                plan: NewPlan {
                    id: child,
                    name: Some(format!("local/part-{}", short.get(..8).unwrap_or(&short))),
                    action: plan.action.clone(),
                    above: Some((plan.id, plan.root)),
                    description: description(plan, strategy, step, &decided, &guidance),
                    definition_of_done: format!("- {TASK_CRITERION}\n"),
                    inputs: inputs_of_child(plan),
                },
                strategy: strategy_of_child(strategy, step.step),
                invariants: new_invariants,
                decision: NewDecision {
                    snapshot: snapshot.clone(),
                    artifacts: step.step.files.clone(),
                    influenced_by: lineage
                        .parent
                        .into_iter()
                        .chain(lineage.influences)
                        .collect(),
                    ..new_decision(
                        root,
                        DecisionType::SubplanSpawn,
                        PlanPhase::Execute,
                        format!("Who executes {}?", step.label()),
                        format!("a child plan: {}", step.step.title),
                        match step.number {
                            Some(_) => "the strategy made it a child plan",
                            None => "an actor requested it",
                        },
                    )
                },
            });
        }
        Ok(spawns)
    }

    /// The decision that contains the decisions of several child plans.
    fn parallel_decision(
        &self,
        plan: &Plan,
        steps: &[&ChildStep<'_>],
        settings: &ChildSettings,
    ) -> Result<NewDecision, PlanError> {
        let Some(root) = plan.decision_root else {
            return Err(PlanError::NotFound(plan.id));
        };
        let titles: Vec<&str> = steps.iter().map(|step| step.step.title.as_str()).collect();
        Ok(NewDecision {
            snapshot: self.snapshots.take(plan, None)?,
            ..new_decision(
                root,
                DecisionType::SubplanParallelSpawn,
                PlanPhase::Execute,
                "Which steps are child plans?",
                titles.join("; "),
                format!(
                    "{}, at most {} at the same time, merged with {}",
                    settings.mode, settings.max_parallel, settings.merge
                ),
            )
        })
    }

    /// The guidance of the user that no model has read yet.
    fn pending_guidance(&self, plan: &Plan) -> Result<Vec<Guidance>, PlanError> {
        let mut all = self
            .progress
            .read(|reader| plan_steps::guidance(reader, plan.id))?;
        all.retain(|entry| entry.applied_at.is_none());
        Ok(all)
    }

    /// The decisions of the strategy, for the descriptions of child plans.
    fn decided(&self, plan: &Plan) -> Result<String, PlanError> {
        let all = self
            .progress
            .read(|reader| decisions::of_plan(reader, plan.id))?;
        let mut text = String::new();
        for decision in all.iter().filter(|decision| decision.holds()) {
            let is_choice = matches!(
                decision.content.kind,
                DecisionType::StrategyChoice
                    | DecisionType::ResourceSelection
                    | DecisionType::UserIntervention
            );
            if is_choice {
                let _written = writeln!(
                    text,
                    "- {} {}",
                    decision.content.question,
                    shortened(&decision.content.chosen, 300)
                );
            }
        }
        Ok(shortened(&text, SHOWN_DECISIONS))
    }
}

/// Stores a child plan with the step and the decision that it belongs to.
fn store_spawn(
    unit: &mut UnitOfWork<'_>,
    parent: PlanId,
    spawn: &Spawn,
    container: Option<DecisionId>,
    settings: &ChildSettings,
    (checkpoint, position): (Option<u64>, u64),
) -> Result<(), Error> {
    let step = NewStep {
        path: spawn.path.clone(),
        title: spawn.title.clone(),
        checkpoint,
        position,
    };
    let step = plan_steps::begin(unit, parent, &step)?;
    let mut decision = spawn.decision.clone();
    decision.parent = container.or(decision.parent);
    decisions::insert(unit, parent, &decision)?;
    plans::insert(unit, &spawn.plan)?;
    plans::set_strategy(unit, spawn.plan.id, Some(&spawn.strategy))?;
    for invariant in &spawn.invariants {
        invariants::insert(unit, invariant)?;
    }
    let child = NewChild {
        plan: spawn.plan.id,
        parent,
        step: step.number,
        spawned_by: Some(decision.id),
        title: spawn.title.clone(),
        settings: settings.clone(),
    };
    child_plans::insert(unit, &child)
}

/// The records of the steps at these paths with their child plans. A failed child plan is retried, because its
/// parent is executed again.
fn records_of(
    unit: &mut UnitOfWork<'_>,
    parent: PlanId,
    paths: &[String],
    position: u64,
) -> Result<Vec<(StepRecord, PlanId)>, Error> {
    let mut records = Vec::with_capacity(paths.len());
    let children = child_plans::of_plan(unit, parent)?;
    for path in paths {
        let step = plan_steps::current(unit, parent, path)?;
        let found = step.and_then(|step| {
            let child = children
                .iter()
                .find(|child| child.step == step.number && child.state != ChildState::Cancelled)?;
            Some((step, child.plan))
        });
        records.extend(found);
    }
    for (step, child) in &records {
        let failed = [ChildState::Failed];
        if child_plans::set_state(unit, *child, &failed, ChildState::Open, None)? {
            let step = NewStep {
                path: step.path.clone(),
                title: step.title.clone(),
                checkpoint: None,
                position,
            };
            plan_steps::begin(unit, parent, &step)?;
        }
    }
    Ok(records)
}

/// The strategy of a child plan: its own steps, or one step for the whole part.
fn strategy_of_child(parent: &PlanStrategy, step: &PlanStep) -> PlanStrategy {
    let steps = if step.steps.is_empty() {
        vec![PlanStep {
            child_plan: false,
            after: Vec::new(),
            ..step.clone()
        }]
    } else {
        step.steps.clone()
    };
    PlanStrategy {
        summary: step.title.clone(),
        steps,
        // Child plans of the child plan run in the same way.
        children: parent.children.clone().filter(|_| !step.steps.is_empty()),
        ..PlanStrategy::default()
    }
}

fn paths_of(steps: &[ChildStep<'_>]) -> Vec<String> {
    steps.iter().map(|step| step.path.clone()).collect()
}

/// The inputs of a child plan. Its result is reviewed and validated with the result of its parent, and its cost counts
/// towards the limit of its parent.
fn inputs_of_child(parent: &Plan) -> PlanInputs {
    let mut inputs = parent.inputs.clone();
    inputs.actors.review = None;
    inputs.actors.estimation = None;
    inputs.actors.invariant = None;
    inputs.max_cost_micro_usd = None;
    inputs.report = None;
    "parent plan".clone_into(&mut inputs.profile.source);
    inputs
}

/// The task of a child plan, with what it has to know about the whole.
fn description(
    parent: &Plan,
    strategy: &PlanStrategy,
    own: &ChildStep<'_>,
    decided: &str,
    guidance: &[Guidance],
) -> String {
    let mut text = own.step.title.clone();
    if !own.step.description.trim().is_empty() {
        let _written = write!(text, "\n\n{}", own.step.description.trim());
    }
    if !own.step.files.is_empty() {
        let _written = write!(text, "\n\nFiles: {}", own.step.files.join(", "));
    }
    let _written = write!(
        text,
        "\n\nThis is one part of a larger task. Other agents work on the other parts at the same time, each in a copy \
         of its own, and the results are merged. Do only this part, and change only the files that it needs.\n\n\
         The whole task:\n{}\n\nThe approach: {}\n",
        shortened(&parent.description, SHOWN_TASK),
        shortened(strategy.summary.trim(), SHOWN_DECISIONS)
    );
    if !decided.is_empty() {
        let _written = write!(text, "\nDecisions:\n{decided}");
    }
    if !guidance.is_empty() {
        text.push_str("\nThe user said:\n");
        for entry in guidance {
            let _written = writeln!(text, "- {}", entry.text);
        }
    }
    text.push_str("\nThe other parts:\n");
    for (number, step) in (1_u64..).zip(&strategy.steps) {
        if Some(number) == own.number {
            continue;
        }
        let files = match step.files.as_slice() {
            [] => String::new(),
            files => format!(" ({})", files.join(", ")),
        };
        let _written = writeln!(text, "- {}{files}", step.title);
    }
    text
}
