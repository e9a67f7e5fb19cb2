//! [`PlanRoleRunner`]: executes the dispatches of pools by running plans.

use std::fmt::Write as _;
use std::sync::Arc;

use cleveragents_domain::{
    Attempt, AttemptOutcome, CodeLocation, Finding, PlanId, PoolRole, RegressionProof,
    RegressionRule,
};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;

use super::brief::ItemBrief;
use super::capture::{CaptureRequest, ProvenTest};
use super::change_check::CapturedTest;
use super::change_report::{change_report, earlier_reasons, failed_report, gate_lines, stopped};
use super::driver::RoleDriver;
use super::fix::FixRequest;
use super::hunt::HuntRequest;
use super::pool_action::PoolAction;
use super::proof::{TestSpec, read_text};
use super::redaction::redacted;
use super::repeat::FailureRate;
use super::review::ReviewRequest;
use crate::observer::Observer;
use crate::operation::OperationError;
use crate::plan::{DefaultActors, KeptVariables, PlanService};
use crate::pool::{Dispatch, RoleFailure, RoleReport, RoleRunner};
use crate::runtime::AgentRuntime;

/// Builds the runtime of a dispatch.
pub type RuntimeSource = Arc<dyn Fn() -> Result<AgentRuntime, OperationError> + Send + Sync>;

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
        let action = match &dispatch.pool.action {
            Some(name) => Some(PoolAction::load(
                &self.engine,
                name,
                &dispatch.item,
                &self.variables,
            )?),
            None => None,
        };
        let driver = RoleDriver {
            engine: Arc::clone(&self.engine),
            plans: &self.plans,
            runtime: &runtime,
            defaults: &self.actors,
            variables: &self.variables,
            observer: &*self.observer,
            cancel,
            action,
            reviewer: dispatch.pool.reviewer.clone(),
            on_plan: &on_plan,
        };
        let report = match dispatch.role() {
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
        };
        // Commands of a project may print secrets, and reports are shown at trackers.
        report.map(|report| redacted(report, &runtime.redactor()))
    }
}

/// The actor of a dispatch; `None` for the configured one.
pub(super) fn actor(dispatch: &Dispatch) -> Option<&str> {
    Some(dispatch.tier.actor.as_str()).filter(|actor| !actor.is_empty() && *actor != "default")
}

/// The item of a dispatch as the text of a task.
pub(super) fn brief(dispatch: &Dispatch) -> ItemBrief {
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

impl PlanRoleRunner {
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
