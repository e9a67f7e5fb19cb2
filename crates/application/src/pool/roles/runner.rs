//! [`PlanRoleRunner`]: executes the dispatches of pools by running plans.

use std::fmt::Write as _;
use std::sync::Arc;

use cleveragents_domain::{
    Attempt, AttemptEvidence, AttemptOutcome, CodeLocation, Finding, GateResult, MicroUsd, Moscow,
    Plan, PlanId, PoolRole, Priority, ReasonedValue, RegressionProof, RegressionRule,
    ReviewVerdict, StoryPoints, TriageDecision, TriageVerdict, WorkItemKind, WorkItemState,
};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;

use super::brief::ItemBrief;
use super::capture::{AttemptResult, CaptureRequest, ProvenTest};
use super::change_check::CapturedTest;
use super::driver::{RoleDriver, RoleStop, StopReason};
use super::fix::FixRequest;
use super::gates::GateRun;
use super::hunt::HuntRequest;
use super::proof::{TestSpec, read_text};
use super::repeat::FailureRate;
use super::review::ReviewRequest;
use super::triage::{ReportedTriage, TriageRequest};
use crate::observer::Observer;
use crate::operation::OperationError;
use crate::plan::{DefaultActors, KeptVariables, PlanService};
use crate::pool::{Dispatch, RoleFailure, RoleReport, RoleRunner};
use crate::runtime::AgentRuntime;

/// Builds the runtime of a dispatch.
pub type RuntimeSource = Arc<dyn Fn() -> Result<AgentRuntime, OperationError> + Send + Sync>;

/// Name of the gate that checks the change itself.
const CHANGE_GATE: &str = "change";

/// Number of characters of a gate's output in the prompt of the next attempt.
const SHOWN_OUTPUT: usize = 1_500;

/// Executes dispatches: each runs one plan, and reports facts that code has checked.
pub struct PlanRoleRunner {
    pub engine: Arc<Engine>,
    pub plans: PlanService,
    pub runtime: RuntimeSource,
    /// The configured actors.
    pub actors: DefaultActors,
    pub variables: KeptVariables,
    /// Receives the progress of plans.
    pub observer: Arc<dyn Observer>,
}

impl RoleRunner for PlanRoleRunner {
    fn run(&self, dispatch: &Dispatch, cancel: &Cancel) -> Result<RoleReport, OperationError> {
        let runtime = (self.runtime)()?;
        let on_plan = |plan: PlanId| dispatch.attach_plan(&self.engine, plan);
        let driver = RoleDriver {
            engine: Arc::clone(&self.engine),
            plans: &self.plans,
            runtime: &runtime,
            defaults: &self.actors,
            variables: &self.variables,
            observer: &*self.observer,
            cancel,
            on_plan: &on_plan,
        };
        match dispatch.role() {
            PoolRole::Hunt => hunt(&driver, dispatch),
            PoolRole::Triage => self.triage(&driver, dispatch),
            PoolRole::Capture => capture(&driver, dispatch),
            PoolRole::Fix => self.fix(&driver, dispatch),
            PoolRole::Review => self.review(&driver, dispatch),
            PoolRole::Merge => driver.merge(dispatch),
            PoolRole::Watch => Ok(failed_report(
                RoleFailure::NoResult("the role `watch` runs no plan".to_owned()),
                None,
            )),
        }
    }
}

/// The actor of a dispatch; `None` for the configured one.
fn actor(dispatch: &Dispatch) -> Option<&str> {
    Some(dispatch.tier.actor.as_str()).filter(|actor| !actor.is_empty() && *actor != "default")
}

/// A report without a result.
pub(super) fn failed_report(failure: RoleFailure, plan: Option<&Plan>) -> RoleReport {
    RoleReport::Failed {
        failure,
        cost: plan.map_or(MicroUsd(0), |plan| plan.usage.cost_micro_usd),
        plan: plan.map(|plan| plan.id),
    }
}

pub(super) fn stopped(stop: RoleStop, plan: &Plan) -> RoleReport {
    let message = stop.message;
    let failure = match stop.reason {
        StopReason::Cancelled => RoleFailure::Cancelled,
        StopReason::LimitReached => RoleFailure::Limit(message),
        StopReason::Environment => RoleFailure::Environment(message),
        StopReason::Waiting => RoleFailure::Blocked(message),
        StopReason::NoResult | StopReason::FailedChecks => RoleFailure::NoResult(message),
    };
    failed_report(failure, Some(plan))
}

/// The item of a dispatch as the text of a task.
fn brief(dispatch: &Dispatch) -> ItemBrief {
    let item = &dispatch.item;
    let place = |location: &CodeLocation| {
        let (first, last) = (location.line_start, location.line_end);
        (
            format!("{}:{first}-{last}", location.path),
            location.quote.clone(),
        )
    };
    let mut locations: Vec<(String, String)> = item.location.iter().map(place).collect();
    for sighting in &dispatch.sightings {
        let seen = place(&sighting.finding.location);
        if !locations.contains(&seen) {
            locations.push(seen);
        }
    }
    ItemBrief {
        id: item.id.to_string(),
        title: item.title.clone(),
        body: item.body.clone(),
        locations,
    }
}

/// True if the defect of an item is a race.
fn is_race(dispatch: &Dispatch) -> bool {
    let is_concurrency = |finding: &Finding| finding.category == "concurrency";
    dispatch.item.labels.contains("concurrency")
        || dispatch
            .sightings
            .iter()
            .any(|sighting| is_concurrency(&sighting.finding))
}

/// The module that an item of a hunt names: its location, or its title.
fn module(dispatch: &Dispatch) -> String {
    if let Some(location) = &dispatch.item.location {
        return location.path.clone();
    }
    let title = dispatch.item.title.as_str();
    let quoted = title.split('`').nth(1);
    quoted
        .unwrap_or_else(|| title.rsplit(' ').next().unwrap_or(title))
        .to_owned()
}

fn hunt(driver: &RoleDriver<'_>, dispatch: &Dispatch) -> Result<RoleReport, OperationError> {
    let module = module(dispatch);
    let (plan, hunted) = driver.hunt(&HuntRequest {
        project: &dispatch.item.project,
        module: &module,
        actor: actor(dispatch),
        max_cost: Some(dispatch.budget()),
    })?;
    let intake = match hunted {
        Ok(intake) => intake,
        Err(stop) => return Ok(stopped(stop, &plan)),
    };
    let mut summary = format!(
        "{} findings accepted, {} rejected",
        intake.findings.len(),
        intake.rejected.len()
    );
    for rejected in &intake.rejected {
        let _written = write!(
            summary,
            "\nrejected: {} ({}): {}",
            rejected.title, rejected.path, rejected.reason
        );
    }
    for failure in &intake.environment_failures {
        let _written = write!(summary, "\nenvironment: {failure}");
    }
    let base = intake
        .findings
        .first()
        .map(|finding| finding.commit.clone());
    Ok(RoleReport::Findings {
        findings: intake.findings.into_iter().map(Finding::from).collect(),
        base: base.filter(|base| !base.is_empty()),
        summary,
        cost: plan.usage.cost_micro_usd,
        plan: Some(plan.id),
    })
}

fn capture(driver: &RoleDriver<'_>, dispatch: &Dispatch) -> Result<RoleReport, OperationError> {
    let earlier = earlier_reasons(dispatch, PoolRole::Capture);
    let item = brief(dispatch);
    let (plan, result) = driver.capture(&CaptureRequest {
        project: &dispatch.item.project,
        item: &item,
        is_race: is_race(dispatch),
        actor: actor(dispatch),
        max_cost: Some(dispatch.budget()),
        earlier: &earlier,
    })?;
    let regression = result.proven.as_ref().map(|proven| RegressionProof {
        test: proven.spec.test_command.clone(),
        base_runs: proven.rate.runs,
        base_failures: proven.rate.failures,
        head_runs: 0,
        head_failures: 0,
    });
    Ok(change_report(
        dispatch,
        &plan,
        result,
        regression,
        RegressionRule::FailsOnBase,
    ))
}

/// The reasons of the earlier attempts of a role in the current round, each with the end of its failing gates' output,
/// and the findings of the reviews.
fn earlier_reasons(dispatch: &Dispatch, role: PoolRole) -> Vec<String> {
    let is_counted = |attempt: &&Attempt| {
        attempt.role == role
            && attempt.round == dispatch.item.round
            && attempt
                .outcome
                .is_some_and(|outcome| outcome != AttemptOutcome::Succeeded)
    };
    let mut reasons: Vec<String> = Vec::new();
    for attempt in dispatch.earlier.iter().filter(is_counted) {
        let reason = attempt
            .reason
            .as_deref()
            .unwrap_or("no reason was recorded");
        let mut text = format!("{} ({}): {reason}", attempt.tier, attempt.actor);
        for gate in attempt.gates.iter().filter(|gate| !gate.has_passed()) {
            let output = super::brief::tail(&gate.output_tail, SHOWN_OUTPUT);
            let _written = write!(text, "\n`{}` printed:\n{output}", gate.command);
        }
        reasons.push(text);
    }
    if role == PoolRole::Fix {
        let blocking = dispatch.pool.outcomes.blocking_severity;
        for review in &dispatch.reviews {
            reasons.extend(review_reason(&review.verdict, blocking));
        }
    }
    reasons
}

fn review_reason(
    verdict: &ReviewVerdict,
    blocking: cleveragents_domain::Severity,
) -> Option<String> {
    let findings: Vec<String> = verdict
        .blocking(blocking)
        .map(|finding| format!("{}: {}", finding.path, finding.message))
        .collect();
    (!findings.is_empty()).then(|| format!("a review found: {}", findings.join("; ")))
}

/// The report of an attempt that changed files.
fn change_report(
    dispatch: &Dispatch,
    plan: &Plan,
    result: AttemptResult,
    regression: Option<RegressionProof>,
    regression_rule: RegressionRule,
) -> RoleReport {
    if let Some(stop) = &result.stop
        && stop.reason != StopReason::FailedChecks
        && result.gates.is_empty()
    {
        return stopped(stop.clone(), plan);
    }
    let state = result.state.clone();
    let stored = |gate: &GateRun| GateResult {
        name: gate.name.clone(),
        command: gate.command.clone(),
        scope: gate.scope.clone(),
        required: gate.required,
        exit_code: if gate.passed {
            Some(0)
        } else {
            gate.exit_code.map(|code| code.max(1))
        },
        commit_or_sandbox_state: state.clone(),
        output_tail: gate.output_tail.clone(),
    };
    let mut gates: Vec<GateResult> = result.gates.iter().map(stored).collect();
    let problems: Vec<String> = result.problems.iter().map(ToString::to_string).collect();
    let is_empty_change = result
        .problems
        .iter()
        .any(super::change_check::ChangeProblem::is_empty_change);
    gates.push(GateResult {
        name: CHANGE_GATE.to_owned(),
        command: "check of the changed files".to_owned(),
        scope: "all changed files".to_owned(),
        required: true,
        exit_code: Some(i32::from(!problems.is_empty())),
        commit_or_sandbox_state: state.clone(),
        output_tail: problems.join("\n"),
    });
    let mut required_gates = dispatch.pool.outcomes.required_gates.clone();
    required_gates.extend(
        gates
            .iter()
            .filter(|gate| gate.required)
            .map(|gate| gate.name.clone()),
    );
    required_gates.sort_unstable();
    required_gates.dedup();
    let evidence = AttemptEvidence {
        base: Some(result.base_commit).filter(|base| !base.is_empty()),
        required_gates,
        gates,
        failing_on_base: result.red_on_base,
        fixes_base: dispatch.item.priority == Priority::CiBlocker,
        changed_paths: result.changed,
        changes_behavior: !is_empty_change,
        regression,
        regression_rule,
        environment_failure: result.environment_failure,
        cost_micro_usd: plan.usage.cost_micro_usd.0,
        summary: plan
            .strategy
            .as_ref()
            .map(|strategy| strategy.summary.clone())
            .unwrap_or_default(),
        ..AttemptEvidence::without_gates(state)
    };
    RoleReport::Change {
        evidence,
        plan: Some(plan.id),
    }
}

/// Other items of a project, as a triage sees them.
struct TriageContext {
    /// Ids and titles.
    candidates: Vec<(String, String)>,
    milestones: Vec<String>,
}

impl PlanRoleRunner {
    fn triage(
        &self,
        driver: &RoleDriver<'_>,
        dispatch: &Dispatch,
    ) -> Result<RoleReport, OperationError> {
        let item = brief(dispatch);
        let context = self.triage_context(dispatch)?;
        let (plan, triaged) = driver.triage(&TriageRequest {
            project: &dispatch.item.project,
            item: &item,
            candidates: &context.candidates,
            milestones: &context.milestones,
            labels: &dispatch.pool.outcomes.labels,
            actor: actor(dispatch),
            max_cost: Some(dispatch.budget()),
        })?;
        let decision = match triaged {
            Err(stop) => return Ok(stopped(stop, &plan)),
            Ok(triage) => triage.and_then(decision_of),
        };
        Ok(match decision {
            Ok(decision) => RoleReport::Triage {
                decision,
                cost: plan.usage.cost_micro_usd,
                plan: Some(plan.id),
            },
            Err(reason) => failed_report(RoleFailure::NoResult(reason), Some(&plan)),
        })
    }

    /// The items of the project with the same path, and the milestones of its open items; the number of both is limited.
    fn triage_context(&self, dispatch: &Dispatch) -> Result<TriageContext, OperationError> {
        const CANDIDATES: u64 = 200;
        const SHOWN: usize = 10;
        let filter = cleveragents_store::work_items::ItemFilter {
            project: Some(dispatch.item.project.clone()),
            visible: cleveragents_domain::identity::Namespaces::All,
            ..cleveragents_store::work_items::ItemFilter::default()
        };
        let items = self.engine.read(|reader| {
            cleveragents_store::work_items::page(reader, &filter, None, CANDIDATES)
        })?;
        let path = dispatch
            .item
            .location
            .as_ref()
            .map(|location| location.path.as_str());
        let candidates = items
            .iter()
            .filter(|item| item.id != dispatch.item.id && item.kind != WorkItemKind::Task)
            .filter(|item| item.state != WorkItemState::Duplicate)
            .filter(|item| {
                path.is_some()
                    && item
                        .location
                        .as_ref()
                        .map(|location| location.path.as_str())
                        == path
            })
            .take(SHOWN)
            .map(|item| (item.id.to_string(), item.title.clone()))
            .collect();
        let mut milestones: Vec<String> = items
            .iter()
            .filter_map(|item| item.milestone.clone())
            .collect();
        milestones.sort_unstable();
        milestones.dedup();
        Ok(TriageContext {
            candidates,
            milestones,
        })
    }

    fn fix(
        &self,
        driver: &RoleDriver<'_>,
        dispatch: &Dispatch,
    ) -> Result<RoleReport, OperationError> {
        let mut proven = None;
        if let Some(attempt) = captured_by(dispatch) {
            proven = self.proven_test(driver, attempt)?;
            if proven.is_none() {
                let reason = format!("the captured test of the attempt {} is lost", attempt.id);
                return Ok(failed_report(RoleFailure::Environment(reason), None));
            }
        }
        let earlier = earlier_reasons(dispatch, PoolRole::Fix);
        let item = brief(dispatch);
        let (plan, result) = driver.fix(&FixRequest {
            project: &dispatch.item.project,
            item: &item,
            is_race: is_race(dispatch),
            proven: proven.as_ref(),
            actor: actor(dispatch),
            max_cost: Some(dispatch.budget()),
            earlier: &earlier,
        })?;
        let regression = proven.as_ref().map(|proven| {
            let head = result.confirmation.clone().unwrap_or_default();
            RegressionProof {
                test: proven.spec.test_command.clone(),
                base_runs: proven.rate.runs,
                base_failures: proven.rate.failures,
                head_runs: head.runs,
                head_failures: head.failures + head.other_failures + head.not_run,
            }
        });
        let rule = match proven {
            Some(_) => RegressionRule::FailsOnBaseAndPassesOnHead,
            None => RegressionRule::NotNeeded,
        };
        Ok(change_report(dispatch, &plan, result, regression, rule))
    }

    /// The test that an attempt captured, read from its plan.
    fn proven_test(
        &self,
        driver: &RoleDriver<'_>,
        attempt: &Attempt,
    ) -> Result<Option<ProvenTest>, OperationError> {
        let (Some(plan), Some(regression)) = (attempt.plan, &attempt.regression) else {
            return Ok(None);
        };
        let plan = self.plans.get(plan)?;
        let report = self.plans.typed_report(&plan)?;
        let spec: Option<TestSpec> = report.and_then(|report| serde_json::from_value(report).ok());
        let Some(mut spec) = spec else {
            return Ok(None);
        };
        while let Some(rest) = spec.test_path.strip_prefix("./") {
            spec.test_path = rest.to_string();
        }
        let workspace = self.plans.open_workspace(&plan, driver.cancel)?;
        let Some(content) = read_text(&workspace, &spec.test_path) else {
            return Ok(None);
        };
        Ok(Some(ProvenTest {
            captured: CapturedTest {
                path: spec.test_path.clone(),
                name: spec.test_name.clone(),
                content,
            },
            rate: FailureRate {
                runs: regression.base_runs,
                failures: regression.base_failures,
                ..FailureRate::default()
            },
            spec,
        }))
    }

    fn review(
        &self,
        driver: &RoleDriver<'_>,
        dispatch: &Dispatch,
    ) -> Result<RoleReport, OperationError> {
        let change = dispatch.item.change.as_ref();
        let Some(plan) = change.and_then(|change| change.plan) else {
            let reason = "the item has no change to review".to_owned();
            return Ok(failed_report(RoleFailure::NoResult(reason), None));
        };
        let author = dispatch
            .earlier
            .iter()
            .rev()
            .find(|attempt| attempt.role == PoolRole::Fix && attempt.plan == Some(plan));
        if let Some(author) = author.filter(|author| author.actor == dispatch.tier.actor) {
            let reason = format!(
                "`{}` made the change and cannot review it: give the review pool another actor",
                author.actor
            );
            return Ok(failed_report(RoleFailure::Blocked(reason), None));
        }
        let change = self.plans.get(plan)?;
        let item = brief(dispatch);
        let evidence = author
            .map(|author| gate_lines(&author.gates))
            .unwrap_or_default();
        let (plan, reviewed) = driver.review(&ReviewRequest {
            project: &dispatch.item.project,
            item: &item,
            change: &change,
            evidence: &evidence,
            actor: actor(dispatch),
            max_cost: Some(dispatch.budget()),
        })?;
        Ok(match reviewed {
            Ok(result) => RoleReport::Review {
                verdict: result.verdict,
                head: result.state,
                cost: plan.usage.cost_micro_usd,
                plan: Some(plan.id),
            },
            Err(stop) => stopped(stop, &plan),
        })
    }
}

/// The attempt that captured the test of an item.
fn captured_by(dispatch: &Dispatch) -> Option<&Attempt> {
    dispatch.earlier.iter().rev().find(|attempt| {
        attempt.role == PoolRole::Capture && attempt.outcome == Some(AttemptOutcome::Succeeded)
    })
}

/// One line for each gate.
fn gate_lines(gates: &[GateResult]) -> String {
    let lines: Vec<String> = gates
        .iter()
        .map(|gate| {
            let code = gate.exit_code.map_or_else(
                || "no exit code".to_owned(),
                |code| format!("exit code {code}"),
            );
            format!(
                "- {}: `{}`: {code} ({})",
                gate.name, gate.command, gate.scope
            )
        })
        .collect();
    lines.join("\n")
}

/// Converts a triage to the stored types. The error names a value that does not exist.
fn decision_of(triage: ReportedTriage) -> Result<TriageDecision, String> {
    let reasoned = |reason: &str| reason.to_owned();
    let unknown = |what: &str, value: &str| format!("`{value}` is not a {what}");
    let state = triage.state;
    let verdict = match state.value.as_str() {
        "verified" => TriageVerdict::Accept,
        "wont_do" => TriageVerdict::Reject,
        "needs_person" => TriageVerdict::AskPerson {
            question: state.reason.clone(),
        },
        "duplicate" => {
            let of = triage.duplicate_of.unwrap_or_default();
            TriageVerdict::Duplicate {
                of: of.parse().map_err(|_| unknown("work item", &of))?,
            }
        }
        other => return Err(unknown("state of a triage", other)),
    };
    let priority = Priority::from_stored(&triage.priority.value)
        .ok_or_else(|| unknown("priority", &triage.priority.value))?;
    let moscow = Moscow::from_stored(&triage.moscow.value)
        .ok_or_else(|| unknown("MoSCoW category", &triage.moscow.value))?;
    let points =
        StoryPoints::new(u32::from(triage.points.value)).map_err(|error| error.to_string())?;
    let milestone = triage.milestone.value.map(|value| ReasonedValue {
        value,
        reason: triage.milestone.reason.clone(),
    });
    Ok(TriageDecision {
        verdict: ReasonedValue {
            value: verdict,
            reason: state.reason,
        },
        kind: None,
        priority: Some(ReasonedValue {
            value: priority,
            reason: reasoned(&triage.priority.reason),
        }),
        milestone,
        points: Some(ReasonedValue {
            value: points,
            reason: reasoned(&triage.points.reason),
        }),
        moscow: Some(ReasonedValue {
            value: moscow,
            reason: reasoned(&triage.moscow.reason),
        }),
        labels: (!triage.labels.is_empty()).then(|| ReasonedValue {
            value: triage.labels,
            reason: "known labels of the project".to_owned(),
        }),
    })
}
