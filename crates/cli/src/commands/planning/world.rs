//! [`World`]: what plans are driven with by this program.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_actors::Actor;
use cleveragents_application::{
    ActorService, Bundle, FoundActor, PlanError, PlanJob, PlanWorld, RunMeans, SpendScope,
    instructions, project_instructions,
};
use cleveragents_domain::{Code, Diagnose};
use cleveragents_models::{Catalogue, Redactor};
use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;
use indicatif::ProgressBar;

use crate::arguments::SafetyOptions;
use crate::commands::toolbox::{Equipment, Models, Toolbox};
use crate::commands::tooling::{self, Terminal};
use crate::context::Context;
use crate::output::CommandError;

/// What plans are driven with.
pub(crate) struct World<'a> {
    context: &'a Context,
    toolbox: Toolbox,
    catalogue: Catalogue,
    terminal: Terminal,
    /// Servers that run for one step serve the next one too.
    equipped: Mutex<BTreeMap<String, Arc<Equipment>>>,
}

impl<'a> World<'a> {
    pub(crate) fn new(context: &'a Context, cancel: &Cancel) -> Result<Self, CommandError> {
        let toolbox = Toolbox::new(context)?;
        Ok(Self {
            catalogue: context.models(None)?,
            terminal: Terminal::new(context, toolbox.tools.clone(), cancel),
            toolbox,
            context,
            equipped: Mutex::default(),
        })
    }

    /// Takes this display off the screen while a question is open.
    pub(crate) fn set_progress(&mut self, progress: ProgressBar) {
        self.terminal.set_progress(progress);
    }

    fn equipment(&self, actor: &Actor) -> Result<Arc<Equipment>, CommandError> {
        let needs = self.toolbox.needs(actor);
        let key = format!("{needs:?}");
        let mut equipped = self.equipped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = equipped.get(&key) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(self.toolbox.equip(&needs)?);
        equipped.insert(key, Arc::clone(&made));
        Ok(made)
    }

    fn actors(&self) -> Result<ActorService, CommandError> {
        Ok(ActorService::new(self.context.engine()?))
    }
}

/// A failure of this program on its way through the engine.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message())]
struct Passed(CommandError);

impl Diagnose for Passed {
    fn code(&self) -> Code {
        self.0.code()
    }

    fn hint(&self) -> Option<String> {
        self.0.hint().map(str::to_owned)
    }
}

fn failed(error: CommandError) -> PlanError {
    PlanError::of(Passed(error))
}

impl PlanWorld for World<'_> {
    fn actor(&self, name: &str) -> Result<FoundActor, PlanError> {
        let variables = self.context.variables();
        self.actors()
            .map_err(failed)?
            .find(name, self.toolbox.world(&variables))
            .map_err(PlanError::of)
    }

    fn bundled(&self, bundle: &Bundle) -> Result<Arc<Actor>, PlanError> {
        let variables = self.context.variables();
        self.actors()
            .map_err(failed)?
            .from_bundle(bundle, self.toolbox.world(&variables))
            .map_err(PlanError::of)
    }

    fn equip(
        &self,
        job: &PlanJob<'_>,
        go: &mut dyn FnMut(&RunMeans<'_>) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        let equipment = self.equipment(job.actor).map_err(failed)?;
        let mut safety =
            tooling::in_force(self.context, &SafetyOptions::default()).map_err(failed)?;
        let action = job.plan.made_with.action.as_ref();
        if let Some(name) = action.and_then(|action| action.safety_profile.as_deref()) {
            let named = tooling::named(self.context, name, None).map_err(failed)?;
            safety.profile.narrow(&named.profile);
            safety.guards.narrow(&named.guards);
        }
        safety.profile.narrow(&job.profile);
        safety.guards.narrow(&job.guards);
        let rules =
            tooling::rules(self.context, &self.toolbox.tools, &[]).map_err(PlanError::of)?;
        let redactor = self.catalogue.redactor();
        let mut told = vec![instructions(job.workspace)];
        let others = job.workspace.and_then(project_instructions).into_iter();
        told.extend(others.map(|text| redactor.text(&text).into_owned()));
        told.extend(job.instructions.iter().cloned());
        let limits = [
            job.max_cost,
            job.actor.graph.limits.max_cost,
            safety.guards.total_cost(&safety.profile),
        ];
        let means = RunMeans {
            models: &Models {
                catalogue: &self.catalogue,
                usual: self.context.settings.model_default(),
            },
            registry: &equipment.registry,
            sources: &*equipment,
            deferred: &equipment.deferred,
            extra_tools: &[],
            plan: Some(job.plan.id),
            mode: job.mode,
            profile: &safety.profile,
            guards: &safety.guards,
            rules: &rules,
            workspace: job.workspace,
            approver: job.approver,
            scopes: vec![
                SpendScope {
                    name: format!("plan {}", job.plan.id),
                    limit: limits.into_iter().flatten().min(),
                },
                tooling::day_scope(self.context),
            ],
            instructions: told,
            temperature: None,
            redactor,
            watcher: job.watcher,
            cancel: job.cancel,
            doubt: job.doubt,
        };
        go(&means)
    }

    fn person(&self) -> &dyn Approver {
        &self.terminal
    }

    fn redactor(&self) -> Redactor {
        self.catalogue.redactor()
    }
}
