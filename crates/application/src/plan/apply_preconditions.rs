//! [`Standing`]: what a plan is judged by, to be seen again in the unit that begins its apply.
//!
//! Judging takes a while, and people attach validations and set invariants meanwhile. So what held before is
//! compared with what holds in the same unit of work that moves the plan: nothing can come in between.

use cleveragents_domain::{AttachmentId, Move, Plan, PlanId, ProjectId, ResourceId};
use cleveragents_store::plans::Along;
use cleveragents_store::{Reader, leases, plans};

use super::error::PlanError;
use super::service::{PlanService, over};
use crate::invariant::{EffectiveQuery, InvariantService};
use crate::lease::HeldLease;
use crate::validation::ValidationService;

/// By what to find again what a plan is judged by.
#[derive(Debug, Clone)]
struct Judged {
    plan: PlanId,
    projects: Vec<ProjectId>,
    resources: Vec<ResourceId>,
    invariants: EffectiveQuery,
}

/// What a plan is judged by at one moment.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    judged: Judged,
    /// Attachments, each with the hash of what it does.
    validations: Vec<(AttachmentId, String)>,
    invariants: Vec<String>,
}

impl Standing {
    fn now(reader: &mut dyn Reader, judged: &Judged) -> Result<Self, PlanError> {
        let validations =
            ValidationService::judging(reader, judged.plan, &judged.projects, &judged.resources)
                .map_err(PlanError::of)?;
        let reconciled =
            InvariantService::effective_in(reader, &judged.invariants).map_err(PlanError::of)?;
        let invariants = reconciled.effective.into_iter().map(|one| one.text);
        Ok(Self {
            judged: judged.clone(),
            validations,
            invariants: invariants.collect(),
        })
    }

    fn holds(&self, reader: &mut dyn Reader) -> Result<bool, PlanError> {
        let now = Self::now(reader, &self.judged)?;
        Ok(
            (now.validations, now.invariants)
                == (self.validations.clone(), self.invariants.clone()),
        )
    }
}

impl PlanService {
    /// What a plan is judged by now.
    pub(super) fn standing(&self, plan: &Plan) -> Result<Standing, PlanError> {
        let (projects, resources) = self.worked_on(plan)?;
        let judged = Judged {
            plan: plan.id,
            projects,
            resources,
            invariants: Self::invariants_of(plan),
        };
        self.engine.read(|reader| Standing::now(reader, &judged))
    }

    /// Begins to apply a plan that was judged by something, in one step with seeing that this still is what
    /// it is judged by. Nothing when it is not: then it is to be judged anew.
    pub(super) fn begin_apply(
        &self,
        plan: &Plan,
        standing: &Standing,
        lease: &HeldLease,
    ) -> Result<Option<Plan>, PlanError> {
        let fence = (lease.subject().clone(), lease.token());
        let (id, standing, before) = (plan.id, standing.clone(), plan.clone());
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            if !standing.holds(unit)? {
                return Ok(None);
            }
            plans::advance(unit, id, Move::StartApply, &Along::default())?
                .map(Some)
                .ok_or_else(|| over(&before))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use cleveragents_domain::{LeaseSubject, PlanStage, ProjectRules, Ttl};
    use cleveragents_store::plans;
    use cleveragents_testkit::TestDatabase;
    use cleveragents_testkit::plans::{new_plan, store, write};

    use super::super::service::PlanService;
    use crate::invariant::{InvariantService, InvariantTarget, NewInvariant};
    use crate::lease::LeaseService;
    use crate::project::{LinkRequest, NewProject, ProjectService};
    use crate::resource::{Register, ResourceService};
    use crate::sandbox::SandboxService;
    use crate::session::SessionService;
    use crate::validation::{AttachRequest, ValidationService};

    #[test]
    fn what_is_attached_or_set_after_judging_keeps_an_apply_from_beginning() {
        for database in TestDatabase::each() {
            let engine = database.open();
            let folder = tempfile::tempdir().expect("a folder");
            let service = PlanService::new(
                Arc::clone(&engine),
                SessionService::new(Arc::clone(&engine), 1_000),
                SandboxService::new(Arc::clone(&engine), folder.path()),
                Arc::new(|_| None),
            );
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
            let plan = service.get(id).expect("the plan");

            // Somebody else attaches a validation after what there was has been judged.
            let judged = service.standing(&plan).expect("a standing");
            let others = ValidationService::new(Arc::clone(&engine));
            let file = "name: local/late\ndescription: late\ncommand: 'false'\n";
            others
                .add(file, Path::new("late.yaml"), Register::New, &|_| None)
                .expect("registered");
            let request = AttachRequest {
                resource: resource.id.to_string(),
                validation: "local/late".to_owned(),
                ..AttachRequest::default()
            };
            others.attach(&request, &|_| None).expect("attached");
            let begun = service.begin_apply(&plan, &judged, &lease);
            assert!(begun.expect("asked").is_none(), "a late validation");

            // Its file changes, and with it what it demands.
            let judged = service.standing(&plan).expect("a standing");
            let file = "name: local/late\ndescription: late\ncommand: 'true'\n";
            others
                .add(file, Path::new("late.yaml"), Register::Update, &|_| None)
                .expect("replaced");
            let begun = service.begin_apply(&plan, &judged, &lease);
            assert!(begun.expect("asked").is_none(), "another validation");

            // An invariant is set.
            let judged = service.standing(&plan).expect("a standing");
            InvariantService::new(Arc::clone(&engine))
                .add(NewInvariant {
                    text: "Never change `api/**`".to_owned(),
                    targets: vec![InvariantTarget::Global],
                    non_overridable: false,
                })
                .expect("set");
            let begun = service.begin_apply(&plan, &judged, &lease);
            assert!(begun.expect("asked").is_none(), "a late invariant");
            let stage = service.get(id).expect("the plan").stage;
            assert_eq!(stage, PlanStage::ApplyQueued);

            let judged = service.standing(&plan).expect("a standing");
            let begun = service.begin_apply(&plan, &judged, &lease);
            let begun = begun.expect("asked").expect("nothing has changed");
            assert_eq!(begun.stage, PlanStage::ApplyProcessing);
        }
    }
}
