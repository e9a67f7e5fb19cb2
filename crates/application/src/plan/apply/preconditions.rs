//! [`ApplyPreconditions`]: the validations and invariants against which a result was validated. They are compared with
//! the current ones when the apply starts.
//!
//! Validation takes time, and the user may attach validations and add invariants meanwhile. The transaction that
//! changes the stage therefore compares them again.

use cleveragents_domain::{
    AttachmentId, Plan, PlanId, ProjectId, ResourceId, StageTransition, ValidationMode,
};
use cleveragents_store::plans::TransitionDetails;
use cleveragents_store::{Reader, plans, validations};
use serde_json::Value;

use crate::invariant::{EffectiveQuery, InvariantService};
use crate::lease::HeldLease;
use crate::plan::apply_guard::ApplyGuard;
use crate::plan::error::PlanError;
use crate::plan::plan_store::PlanStore;
use crate::plan::requirements::{PlanRequirements, invariant_query};
use crate::plan::service::already_finished;
use crate::plan::validate::PlanCheck;
use crate::sandbox::{OpenSandbox, SandboxService};
use crate::validation::ValidationService;

#[derive(Debug, Clone, Default)]
pub(super) struct ApplyStart {
    /// The report that the plan gets.
    pub(super) report: Option<Value>,
    pub(super) guard: Option<ApplyGuard>,
    /// The state of the changes that are applied.
    pub(super) state: String,
}

/// Reads the validations and invariants of a plan.
#[derive(Debug, Clone)]
struct PreconditionQuery {
    plan: PlanId,
    projects: Vec<ProjectId>,
    resources: Vec<ResourceId>,
    invariants: EffectiveQuery,
}

/// The validations and invariants of a plan at one moment.
#[derive(Debug, Clone)]
pub(super) struct ApplyPreconditions {
    query: PreconditionQuery,
    /// Attachments, each with the hash of its definition.
    validations: Vec<(AttachmentId, String)>,
    invariants: Vec<String>,
}

impl ApplyPreconditions {
    /// Reads the current preconditions of a plan.
    pub(super) fn read(
        store: &PlanStore,
        requirements: &PlanRequirements,
        plan: &Plan,
    ) -> Result<Self, PlanError> {
        let (projects, resources) = requirements.projects_and_resources(plan)?;
        let query = PreconditionQuery {
            plan: plan.id,
            projects,
            resources,
            invariants: invariant_query(plan),
        };
        store.engine().read(|reader| Self::current(reader, query))
    }

    fn current(reader: &mut dyn Reader, query: PreconditionQuery) -> Result<Self, PlanError> {
        let validations = ValidationService::effective_hashes(
            reader,
            query.plan,
            &query.projects,
            &query.resources,
        )
        .map_err(PlanError::from_service)?;
        let reconciled = InvariantService::effective_in(reader, &query.invariants)
            .map_err(PlanError::from_service)?;
        let invariants = reconciled
            .effective
            .into_iter()
            .map(|invariant| invariant.text);
        Ok(Self {
            query,
            validations,
            invariants: invariants.collect(),
        })
    }

    fn still_hold(&self, reader: &mut dyn Reader) -> Result<bool, PlanError> {
        let current = Self::current(reader, self.query.clone())?;
        Ok(current.validations == self.validations && current.invariants == self.invariants)
    }

    /// Starts the apply of a plan if its preconditions still hold and its guard has no unmet condition. Returns `None`
    /// if the preconditions changed; then the plan has to be validated again.
    pub(super) fn start_apply(
        &self,
        store: &PlanStore,
        plan: &Plan,
        start: &ApplyStart,
        lease: &HeldLease,
    ) -> Result<Option<Plan>, PlanError> {
        let (expected, before, start) = (self.clone(), plan.clone(), start.clone());
        store.write_leased(lease, move |unit| {
            if !expected.still_hold(unit)? {
                return Ok(None);
            }
            let ApplyStart {
                report,
                guard,
                state,
            } = &start;
            if let Some(guard) = guard {
                let reasons = guard.unmet(unit, before.id, state)?;
                if !reasons.is_empty() {
                    return Err(PlanError::Constrained {
                        plan: before.id,
                        reasons,
                    });
                }
            }
            let details = TransitionDetails {
                report: report.clone(),
                ..TransitionDetails::default()
            };
            plans::advance(unit, before.id, StageTransition::StartApply, &details)?
                .map(Some)
                .ok_or_else(|| already_finished(&before))
        })
    }
}

/// Reasons that block the apply of a plan: required checks that failed, or did not run on the
/// current content of the sandbox.
pub(super) fn unmet_checks(
    store: &PlanStore,
    requirements: &PlanRequirements,
    sandboxes: &SandboxService,
    plan: &Plan,
    open: &OpenSandbox,
) -> Result<Vec<String>, PlanError> {
    let results = store.read(|reader| validations::results(reader, plan.id))?;
    let is_fresh = |position: u64| -> Result<bool, PlanError> {
        Ok(sandboxes.net(open, position)?.path_count() == 0)
    };
    let mut reasons = Vec::new();
    for check in PlanCheck::of_plan(requirements, plan)? {
        if check.mode() != ValidationMode::Required {
            continue;
        }
        let latest = results
            .iter()
            .rev()
            .find(|stored| check.has_result(&stored.result));
        let name = check.name();
        match latest {
            None => reasons.push(format!("`{name}` did not run")),
            Some(stored) if !stored.result.passed => {
                reasons.push(format!("`{name}` failed: {}", stored.result.message));
            }
            Some(stored) if !is_fresh(stored.result.position)? => reasons.push(format!(
                "`{name}` did not run on the current content of the sandbox"
            )),
            Some(_) => {}
        }
    }
    Ok(reasons)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cleveragents_domain::{LeaseSubject, PlanStage, ProjectRules, Ttl};
    use cleveragents_store::plans;
    use cleveragents_testkit::TestDatabase;
    use cleveragents_testkit::plans::{new_plan, store, write};

    use super::{ApplyPreconditions, ApplyStart};
    use crate::invariant::{InvariantService, InvariantTarget, NewInvariant};
    use crate::lease::LeaseService;
    use crate::plan::plan_store::PlanStore;
    use crate::plan::requirements::PlanRequirements;
    use crate::project::{LinkRequest, NewProject, ProjectService};
    use crate::resource::{Register, ResourceService};
    use crate::validation::{AttachRequest, ValidationService};

    #[test]
    fn a_validation_or_invariant_added_after_validation_prevents_the_apply() {
        for database in TestDatabase::each() {
            let engine = database.open();
            let folder = tempfile::tempdir().expect("a folder");
            let plan_store = PlanStore::new(Arc::clone(&engine));
            let requirements = PlanRequirements::new(&engine, Arc::new(|_| None));
            let resource = ResourceService::new(Arc::clone(&engine))
                .ensure_path(folder.path())
                .expect("a resource");
            let project = NewProject {
                name: "local/shop".to_owned(),
                rules: ProjectRules::default(),
                links: vec![LinkRequest {
                    resource: resource.id.to_string(),
                    alias: None,
                    read_only: false,
                }],
            };
            ProjectService::new(Arc::clone(&engine))
                .create(project)
                .expect("a project");
            let id = store(&engine, &new_plan("one"));
            write(&engine, move |unit| {
                plans::restore_stage(unit, id, PlanStage::ApplyQueued).map(drop)
            });
            let lease = LeaseService::new(Arc::clone(&engine))
                .acquire(LeaseSubject::new("plan", id), Ttl::default())
                .expect("a lease");
            let plan = plan_store.get(id).expect("the plan");
            let read = |plan| {
                ApplyPreconditions::read(&plan_store, &requirements, plan).expect("preconditions")
            };

            // A validation is attached after the result was validated.
            let before = read(&plan);
            let validations = ValidationService::new(Arc::clone(&engine));
            let file = "name: local/late\ndescription: late\ncommand: 'false'\n";
            validations
                .add(file, "late.yaml", Register::New, &|_| None)
                .expect("registered");
            let request = AttachRequest {
                resource: resource.id.to_string(),
                validation: "local/late".to_owned(),
                ..AttachRequest::default()
            };
            validations.attach(&request, &|_| None).expect("attached");
            let started = before.start_apply(&plan_store, &plan, &ApplyStart::default(), &lease);
            assert!(started.expect("compared").is_none(), "a new validation");

            // The definition of the validation changes.
            let before = read(&plan);
            let file = "name: local/late\ndescription: late\ncommand: 'true'\n";
            validations
                .add(file, "late.yaml", Register::Update, &|_| None)
                .expect("replaced");
            let started = before.start_apply(&plan_store, &plan, &ApplyStart::default(), &lease);
            assert!(started.expect("compared").is_none(), "a changed validation");

            // An invariant is added.
            let before = read(&plan);
            InvariantService::new(Arc::clone(&engine))
                .add(NewInvariant {
                    text: "Never change `api/**`".to_owned(),
                    targets: vec![InvariantTarget::Global],
                    non_overridable: false,
                })
                .expect("set");
            let started = before.start_apply(&plan_store, &plan, &ApplyStart::default(), &lease);
            assert!(started.expect("compared").is_none(), "a new invariant");
            let stage = plan_store.get(id).expect("the plan").stage;
            assert_eq!(stage, PlanStage::ApplyQueued);

            let before = read(&plan);
            let started = before.start_apply(&plan_store, &plan, &ApplyStart::default(), &lease);
            let started = started.expect("compared").expect("unchanged preconditions");
            assert_eq!(started.stage, PlanStage::ApplyProcessing);
        }
    }
}
