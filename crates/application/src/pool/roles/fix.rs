//! The fix role: changes the code until the captured test passes, and proves it with the gates of the project.

use std::fmt::Write as _;

use cleveragents_domain::{MicroUsd, Plan};

use super::brief::ItemBrief;
use super::capture::{AttemptResult, ProvenTest, add_earlier, describe, repetition};
use super::change_check::check_fix;
use super::driver::{RoleDriver, RolePlan, StopReason};
use super::gates::GateRun;
use super::proof::{Repetition, TestSpec, confirm_fix, write_text};
use super::sandbox_changes::changed_files;
use crate::operation::OperationError;
use crate::tool::SandboxWorkspace;

/// An item to fix.
pub(crate) struct FixRequest<'a> {
    pub(crate) project: &'a str,
    pub(crate) item: &'a ItemBrief,
    pub(crate) is_race: bool,
    /// The test of the capture; `None` for work that needs no failing test.
    pub(crate) proven: Option<&'a ProvenTest>,
    pub(crate) actor: Option<&'a str>,
    pub(crate) max_cost: Option<MicroUsd>,
    /// The reasons why earlier attempts failed, including the findings of reviews.
    pub(crate) earlier: &'a [String],
}

impl RoleDriver<'_> {
    /// Makes one attempt to fix an item, from a clean base with the captured test.
    pub(crate) fn fix(
        &self,
        request: &FixRequest<'_>,
    ) -> Result<(Plan, AttemptResult), OperationError> {
        let plan = self.create(&RolePlan {
            role: "fix",
            task: fix_task(request),
            report: None,
            project: request.project,
            actor: request.actor,
            max_cost: request.max_cost,
        })?;
        if let Some(proven) = request.proven {
            let workspace = self.plans.open_workspace(&plan, self.cancel)?;
            let captured = &proven.captured;
            write_text(&workspace, &captured.path, &captured.content).map_err(|error| {
                let message = format!("the captured test `{}` cannot be written", captured.path);
                OperationError::internal(message).caused_by(error)
            })?;
            // The next process that opens the sandbox records the file.
            drop(workspace);
        }
        let executed = self.execute(plan.id)?;
        let plan = self.plans.get(plan.id)?;
        let mut result = AttemptResult::default();
        if let Err(stop) = executed {
            let may_have_changes =
                matches!(stop.reason, StopReason::FailedChecks | StopReason::NoResult);
            result.stop = Some(stop);
            if !may_have_changes {
                return Ok((plan, result));
            }
        }
        let workspace = self.plans.open_workspace(&plan, self.cancel)?;
        describe(&workspace, &mut result)?;
        let captured = request.proven.map(|proven| &proven.captured);
        result.problems = check_fix(&changed_files(&workspace)?, captured);
        if result.problems.is_empty() {
            if let Some(proven) = request.proven {
                self.run_captured_test(proven, request.is_race, &workspace, &mut result)?;
            }
            self.add_gates(&plan, &workspace, &mut result)?;
        }
        Ok((plan, result))
    }

    /// Runs the captured test on the fix: as often as its failure rate requires.
    fn run_captured_test(
        &self,
        proven: &ProvenTest,
        is_race: bool,
        workspace: &SandboxWorkspace,
        result: &mut AttemptResult,
    ) -> Result<(), OperationError> {
        let repetition = Repetition {
            runs: proven.rate.runs_to_confirm(),
            ..repetition(is_race)
        };
        let (rate, output) = confirm_fix(workspace, &proven.spec, repetition, self.cancel)?;
        let passed = rate.runs - rate.failures - rate.other_failures - rate.not_run;
        let exit_code = match (rate.not_run, passed == rate.runs) {
            (0, true) => Some(0),
            (0, false) => Some(1),
            _ => None,
        };
        result.gates.push(GateRun::of_command(
            "captured test",
            &proven.spec.test_command,
            format!("{passed} of {} runs pass", rate.runs),
            exit_code,
            &output.unwrap_or_default(),
        ));
        result.confirmation = Some(rate);
        Ok(())
    }
}

fn fix_task(request: &FixRequest<'_>) -> String {
    let item = request.item;
    let mut task = format!(
        "Fix: {}\n\nThe item {} (data):\n{}",
        item.title,
        item.id,
        item.to_data()
    );
    if let Some(proven) = request.proven {
        let TestSpec {
            test_path: path,
            test_name: name,
            test_command: command,
            ..
        } = &proven.spec;
        let _written = write!(
            task,
            "\nA test proves the defect: `{name}` in `{path}`. It is marked as an expected failure. Fix the cause in the code, \
             remove the marker (and an import that only the marker needs), and change nothing else in that file. Then \
             `{command}` has to pass, as well as the whole suite. The program refuses a change of other tests that removes, \
             skips or weakens them, and a change without effect on the code.\n"
        );
    }
    if request.is_race {
        task.push_str(
            "\nThe defect is a race: fix the interleaving, not its symptom. Hold one lock, transaction or atomic operation \
             from the first read to the last write that belong together, and check every other place that uses the same \
             state. Do not sleep, retry or widen a timeout.\n",
        );
    }
    add_earlier(request.earlier, &mut task);
    task
}
