//! The capture role: writes a test that fails because of a defect, and proves it.

use std::fmt::Write as _;
use std::time::Duration;

use cleveragents_domain::{MicroUsd, Plan, PlanReport};

use super::brief::ItemBrief;
use super::change_check::{CapturedTest, ChangeProblem, check_capture};
use super::driver::{RoleDriver, RolePlan, RoleStop, StopReason, is_executed};
use super::gates::{GateRun, run_gates};
use super::hunt::base_commit;
use super::proof::{Repetition, TestProof, TestSpec, prove_failure};
use super::repeat::FailureRate;
use super::sandbox_changes::{change_state, changed_files};
use crate::operation::OperationError;
use crate::tool::SandboxWorkspace;

/// Runs of a test that is captured once, and of one that captures a race.
const RUNS: u32 = 1;
const RACE_RUNS: u32 = 20;

/// Time limit of one run of a test.
const TEST_TIMEOUT: Duration = Duration::from_mins(5);

/// An item to capture.
pub(crate) struct CaptureRequest<'a> {
    pub(crate) project: &'a str,
    pub(crate) item: &'a ItemBrief,
    /// True if the defect is a race: its test is repeated under stress.
    pub(crate) is_race: bool,
    pub(crate) actor: Option<&'a str>,
    pub(crate) max_cost: Option<MicroUsd>,
    /// The reasons why earlier attempts failed.
    pub(crate) earlier: &'a [String],
}

#[derive(Debug, Clone)]
pub(crate) struct ProvenTest {
    pub(crate) spec: TestSpec,
    pub(crate) captured: CapturedTest,
    pub(crate) rate: FailureRate,
}

/// The result of an attempt of capture or fix.
#[derive(Debug, Default)]
pub(crate) struct AttemptResult {
    pub(crate) base_commit: String,
    /// The state of the changes that the gates ran on.
    pub(crate) state: String,
    pub(crate) changed: Vec<String>,
    /// Reasons to refuse the change before any gate.
    pub(crate) problems: Vec<ChangeProblem>,
    pub(crate) gates: Vec<GateRun>,
    /// The names of gates that also fail on the base.
    pub(crate) red_on_base: Vec<String>,
    /// The reason why a gate could not run, neither on the change nor on the base.
    pub(crate) environment_failure: Option<String>,
    pub(crate) stop: Option<RoleStop>,
    /// The proven test, of a capture.
    pub(crate) proven: Option<ProvenTest>,
    /// Runs of the captured test on a fix.
    pub(crate) confirmation: Option<FailureRate>,
}

/// The repetition of the test of an item.
pub(crate) fn repetition(is_race: bool) -> Repetition {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    Repetition {
        runs: if is_race { RACE_RUNS } else { RUNS },
        // More runs than processors, so that threads are interrupted at any instruction.
        parallel: if is_race { processors * 2 } else { 1 },
        timeout: TEST_TIMEOUT,
    }
}

impl RoleDriver<'_> {
    /// Captures an item.
    pub(crate) fn capture(
        &self,
        request: &CaptureRequest<'_>,
    ) -> Result<(Plan, AttemptResult), OperationError> {
        let plan = self.create(&RolePlan {
            role: "capture",
            task: capture_task(request),
            report: Some(PlanReport::Test),
            project: request.project,
            actor: request.actor,
            max_cost: request.max_cost,
        })?;
        let executed = self.execute(plan.id)?;
        let plan = self.plans.get(plan.id)?;
        let mut result = AttemptResult::default();
        if let Err(stop) = executed {
            let has_result = stop.reason == StopReason::FailedChecks;
            result.stop = Some(stop);
            if !has_result {
                return Ok((plan, result));
            }
        }
        let workspace = self.plans.open_workspace(&plan, self.cancel)?;
        self.check_capture(request, &plan, &workspace, &mut result)?;
        Ok((plan, result))
    }

    fn check_capture(
        &self,
        request: &CaptureRequest<'_>,
        plan: &Plan,
        workspace: &SandboxWorkspace,
        result: &mut AttemptResult,
    ) -> Result<(), OperationError> {
        describe(workspace, result)?;
        let report = self.plans.typed_report(plan)?.filter(|_| is_executed(plan));
        let spec: Option<TestSpec> = report.and_then(|report| serde_json::from_value(report).ok());
        let Some(mut spec) = spec else {
            if result.stop.is_none() {
                let message = "the actor reported no test".to_owned();
                let reason = StopReason::NoResult;
                result.stop = Some(RoleStop { reason, message });
            }
            return Ok(());
        };
        while let Some(rest) = spec.test_path.strip_prefix("./") {
            spec.test_path = rest.to_string();
        }
        let files = changed_files(workspace)?;
        result.problems = check_capture(&files, &spec.test_path, &spec.test_name);
        if !result.problems.is_empty() {
            return Ok(());
        }
        let proof = prove_failure(workspace, &spec, repetition(request.is_race), self.cancel)?;
        match proof {
            TestProof::Proven { rate, content } => {
                let scope = format!(
                    "{} of {} runs fail without the marker",
                    rate.failures, rate.runs
                );
                result.gates.push(GateRun::of_command(
                    "test fails on the base",
                    &spec.test_command,
                    scope,
                    Some(0),
                    "",
                ));
                result.proven = Some(ProvenTest {
                    captured: CapturedTest {
                        path: spec.test_path.clone(),
                        name: spec.test_name.clone(),
                        content,
                    },
                    spec,
                    rate,
                });
            }
            TestProof::Refused { reason, rate } => {
                let scope = format!(
                    "{} of {} runs fail without the marker",
                    rate.failures, rate.runs
                );
                let name = "test fails on the base";
                let gate = GateRun::of_command(name, &spec.test_command, scope, Some(1), &reason);
                result.gates.push(gate);
            }
            TestProof::Environment(message) => {
                result.environment_failure = Some(message.clone());
                let name = "test fails on the base";
                let scope = "could not run".to_owned();
                let gate = GateRun::of_command(name, &spec.test_command, scope, None, &message);
                result.gates.push(gate);
            }
        }
        // With the marker, the suite of the project still passes.
        self.add_gates(plan, workspace, result)
    }

    /// Runs the required validations of the project, and those that fail also on the base.
    pub(crate) fn add_gates(
        &self,
        plan: &Plan,
        workspace: &SandboxWorkspace,
        result: &mut AttemptResult,
    ) -> Result<(), OperationError> {
        let gates = run_gates(self.plans, plan, workspace, self.cancel)?;
        let has_failed = gates.iter().any(|gate| !gate.passed);
        result.gates.extend(gates);
        if has_failed && !self.cancel.is_cancelled() {
            let base = self.plans.base_workspace(plan, self.cancel)?;
            if let Some(workspace) = base.workspace() {
                let on_base = run_gates(self.plans, plan, workspace, self.cancel)?;
                let could_run = |name: &str| {
                    let mut gates = result.gates.iter();
                    !gates.any(|gate| gate.name == name && gate.is_environment_failure)
                };
                let missing = on_base
                    .iter()
                    .find(|gate| gate.is_environment_failure && !could_run(&gate.name));
                let reason = |gate: &GateRun| {
                    format!(
                        "the gate `{}` could not run: {}",
                        gate.name, gate.output_tail
                    )
                };
                result.environment_failure = missing.map(reason);
                let red = on_base.into_iter().filter(|gate| !gate.passed);
                result.red_on_base = red.map(|gate| gate.name).collect();
            }
        }
        Ok(())
    }
}

/// Records base, state and changed paths of a sandbox.
pub(crate) fn describe(
    workspace: &SandboxWorkspace,
    result: &mut AttemptResult,
) -> Result<(), OperationError> {
    let (_view, diff) = workspace.net_diff()?;
    result.base_commit = base_commit(workspace);
    result.state = change_state(&diff);
    result.changed = diff.paths();
    Ok(())
}

fn capture_task(request: &CaptureRequest<'_>) -> String {
    let item = request.item;
    let mut task = format!(
        "Capture in a failing test: {}\n\nThe defect {} (data):\n{}",
        item.title,
        item.id,
        item.to_data()
    );
    if request.is_race {
        let _written = write!(
            task,
            "\nThe defect is a race. The program runs the test {RACE_RUNS} times under load and records how often it fails.\n"
        );
    }
    add_earlier(request.earlier, &mut task);
    task
}

/// Adds the reasons of earlier attempts to a task.
pub(crate) fn add_earlier(earlier: &[String], task: &mut String) {
    if earlier.is_empty() {
        return;
    }
    task.push_str("\nEarlier attempts failed. Do not repeat them:\n");
    for (number, reason) in (1..).zip(earlier) {
        let _written = writeln!(task, "{number}. {reason}");
    }
}
