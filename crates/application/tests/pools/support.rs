//! Pools, items and a scripted role.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cleveragents_application::{
    Dispatch, OperationError, PoolEvent, PoolRunSummary, PoolService, Reconciler,
    ReconcilerOptions, Register, RoleFailure, RoleReport, RoleRunner, WorkItemService,
};
use cleveragents_domain::{
    AttemptEvidence, ContentHash, GateResult, MergeOutcome, MicroUsd, NewWorkItem, PoolDefinition,
    PoolRole, ReasonedValue, RegressionProof, ReviewDecision, ReviewFinding, ReviewVerdict,
    Severity, TriageDecision, TriageVerdict, WorkItem, WorkItemId, WorkItemKind, WorkItemState,
};
use cleveragents_process::Cancel;
use cleveragents_store::{Engine, work_items};

pub(crate) const PROJECT: &str = "local/shop";

/// The five pools that an item passes. `extra` is added to each file.
pub(crate) fn pool_files(extra: &str) -> Vec<String> {
    let tiers =
        "tiers: [{name: cheap, actor: local/cheap}, {name: frontier, actor: local/frontier}]";
    let reviewer = "tiers: [{name: reviewer, actor: local/reviewer}]";
    [
        ("triage", tiers, ""),
        ("capture", tiers, ""),
        ("fix", tiers, "states: [captured, in_progress]\n"),
        ("review", reviewer, ""),
        ("merge", "", ""),
    ]
    .into_iter()
    .map(|(role, tiers, more)| {
        format!("name: {role}\nrole: {role}\nproject: shop\n{tiers}\n{more}{extra}\n")
    })
    .collect()
}

pub(crate) const LIMITS: &str = "limits: {workers: 32, open_changes: 20, lease: 5s}\n\
     budget: {attempt: 0.01, item: 1, total: 1000}\noutcomes: {required_gates: [unit]}";

pub(crate) fn register(engine: &Arc<Engine>, files: &[String]) {
    let service = PoolService::new(Arc::clone(engine));
    for file in files {
        service
            .add(file, "test", Register::New, &|_| None)
            .expect("a valid pool");
    }
}

pub(crate) fn definitions(engine: &Arc<Engine>) -> Vec<Arc<PoolDefinition>> {
    PoolService::new(Arc::clone(engine))
        .list_registered(&|_| None)
        .expect("read")
        .into_iter()
        .map(|pool| Arc::new(pool.definition.expect("valid")))
        .collect()
}

pub(crate) fn add_bugs(engine: &Arc<Engine>, count: usize) -> Vec<WorkItemId> {
    let items = WorkItemService::new(Arc::clone(engine));
    (0..count)
        .map(|number| {
            let new = NewWorkItem::new(PROJECT, WorkItemKind::Bug, format!("bug {number}"));
            items.add(new, Vec::new()).expect("added").id
        })
        .collect()
}

pub(crate) fn add_verified(engine: &Arc<Engine>, title: &str) -> WorkItem {
    let new = NewWorkItem {
        state: WorkItemState::Verified,
        ..NewWorkItem::new(PROJECT, WorkItemKind::Bug, title)
    };
    let items = WorkItemService::new(Arc::clone(engine));
    items.add(new, Vec::new()).expect("added")
}

pub(crate) fn item(engine: &Engine, id: WorkItemId) -> WorkItem {
    engine
        .read(|reader| work_items::get(reader, id))
        .expect("read")
        .expect("stored")
}

/// A role that makes scripted attempts: one in `failing` fails, chosen by item and number.
pub(crate) struct ScriptedRole {
    /// One attempt in this many fails; 0 for none.
    pub(crate) failing: u64,
    /// Longest duration of an attempt.
    pub(crate) pause: Duration,
    pub(crate) calls: AtomicU64,
}

impl ScriptedRole {
    pub(crate) const fn new(failing: u64, pause: Duration) -> Self {
        Self {
            failing,
            pause,
            calls: AtomicU64::new(0),
        }
    }

    /// A number that only depends on the item, the role and the number of the attempt.
    fn dice(dispatch: &Dispatch) -> u64 {
        let key = format!(
            "{} {} {}",
            dispatch.item.title, dispatch.attempt.role, dispatch.attempt.number
        );
        let hash = ContentHash::of_bytes(key.as_bytes());
        u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("8 bytes"))
    }
}

pub(crate) fn gate(head: &str, exit_code: Option<i32>) -> GateResult {
    GateResult {
        name: "unit".to_owned(),
        command: "run-tests".to_owned(),
        scope: "all".to_owned(),
        required: true,
        exit_code,
        commit_or_sandbox_state: head.to_owned(),
        output_tail: String::new(),
    }
}

pub(crate) fn change(dispatch: &Dispatch, is_failing: bool) -> RoleReport {
    let head = format!("head-{}", dispatch.attempt.id);
    // Failures alternate between a failed gate and one without an exit code.
    let code = match (is_failing, dispatch.attempt.number % 2) {
        (false, _) => Some(0),
        (true, 0) => None,
        (true, _) => Some(1),
    };
    RoleReport::Change {
        evidence: AttemptEvidence {
            base: Some("base".to_owned()),
            gates: vec![gate(&head, code)],
            changed_paths: vec!["cart.py".to_owned()],
            changes_behavior: true,
            regression: Some(RegressionProof {
                test: "test_cart".to_owned(),
                base_runs: 10,
                base_failures: 4,
                head_runs: 10,
                head_failures: 0,
            }),
            cost_micro_usd: 1_000,
            summary: "Success! All gates pass, approved, ready to merge.".to_owned(),
            ..AttemptEvidence::without_gates(head)
        },
        plan: None,
    }
}

pub(crate) fn accept() -> TriageDecision {
    TriageDecision {
        verdict: ReasonedValue {
            value: TriageVerdict::Accept,
            reason: "real".to_owned(),
        },
        kind: None,
        priority: None,
        milestone: None,
        points: None,
        moscow: None,
        labels: None,
    }
}

pub(crate) fn verdict(decision: ReviewDecision, severities: &[Severity]) -> ReviewVerdict {
    ReviewVerdict {
        decision,
        findings: severities
            .iter()
            .map(|severity| ReviewFinding {
                severity: *severity,
                path: "cart.py".to_owned(),
                line: Some(3),
                message: "the lock is missing".to_owned(),
            })
            .collect(),
        summary: "APPROVED".to_owned(),
    }
}

impl RoleRunner for ScriptedRole {
    fn run(&self, dispatch: &Dispatch, cancel: &Cancel) -> Result<RoleReport, OperationError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let dice = Self::dice(dispatch);
        if !self.pause.is_zero() {
            let micros = u64::try_from(self.pause.as_micros()).unwrap_or(u64::MAX);
            std::thread::sleep(Duration::from_micros(dice % micros.max(1)));
        }
        if cancel.is_cancelled() {
            return Ok(RoleReport::Failed {
                failure: RoleFailure::Cancelled,
                cost: MicroUsd(0),
                plan: None,
            });
        }
        let is_failing = self.failing > 0 && dice.is_multiple_of(self.failing);
        let cost = MicroUsd(1_000);
        Ok(match dispatch.role() {
            PoolRole::Triage if is_failing => RoleReport::Failed {
                failure: RoleFailure::NoResult("the model wrote prose".to_owned()),
                cost,
                plan: None,
            },
            PoolRole::Triage => RoleReport::Triage {
                decision: accept(),
                cost,
                plan: None,
            },
            PoolRole::Capture | PoolRole::Fix => change(dispatch, is_failing),
            PoolRole::Review => RoleReport::Review {
                verdict: if is_failing {
                    verdict(ReviewDecision::Approve, &[Severity::High])
                } else {
                    verdict(ReviewDecision::Approve, &[Severity::Low])
                },
                head: dispatch
                    .item
                    .change
                    .as_ref()
                    .and_then(|change| change.head.clone())
                    .unwrap_or_default(),
                cost,
                plan: None,
            },
            PoolRole::Merge => RoleReport::Merge {
                outcome: if is_failing {
                    MergeOutcome::Conflict {
                        paths: vec!["cart.py".to_owned()],
                    }
                } else {
                    MergeOutcome::Merged {
                        commit: format!("merge-{}", dispatch.attempt.id),
                    }
                },
                cost: MicroUsd(0),
                plan: None,
            },
            PoolRole::Hunt | PoolRole::Watch => RoleReport::Failed {
                failure: RoleFailure::NoResult("not scripted".to_owned()),
                cost,
                plan: None,
            },
        })
    }
}

/// Runs the loop until it is idle.
pub(crate) fn run_until_idle(
    engine: &Arc<Engine>,
    runner: &dyn RoleRunner,
    capacity: u64,
    observer: &(dyn Fn(&PoolEvent<'_>) + Sync),
) -> PoolRunSummary {
    let read = || Ok(definitions(engine));
    let cancel = Cancel::new();
    let options = ReconcilerOptions {
        capacity,
        until_idle: true,
        only: Vec::new(),
        observer,
        cancel: &cancel,
    };
    Reconciler::new(Arc::clone(engine), &read, runner, options)
        .run()
        .expect("the loop ends")
}
