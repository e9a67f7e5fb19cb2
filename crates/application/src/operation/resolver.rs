//! [`Resolver`]: converts the references of a request to ids and complete names, and collects the objects to
//! authorize.

mod work_item;

use cleveragents_domain::identity::{LOCAL_NAMESPACE, Permission};
use cleveragents_domain::{
    AutomationProfile, Code, Diagnose, InvariantScope, Kind, Name, Plan, PlanId, PlanStage,
    SessionId,
};
use cleveragents_store::plans;
use serde_json::Value;

use super::authorize::{AccessTarget, holds_model_files};
use super::{Operation, OperationContext, OperationError, Requirement};
use crate::invariant::{InvariantError, InvariantService};
use crate::plan::{PlanQueries, PlanQueryError};
use crate::run::RunServiceError;
use crate::session::SessionError;
use crate::validation::{ValidationError, ValidationService};

/// Resolves the references of one request. For local callers, references become ids, but names are not completed.
pub struct Resolver<'a> {
    /// `None` while a request is only checked before it is sent to a server.
    context: Option<&'a OperationContext>,
    requirement: Requirement,
    home: Option<String>,
    targets: Vec<AccessTarget>,
    /// Error for the first name without a namespace, when the caller has no default namespace.
    missing_namespace: Option<OperationError>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(context: &'a OperationContext, requirement: Requirement) -> Self {
        Self {
            context: Some(context),
            requirement,
            home: context.home(requirement.scope),
            targets: Vec::new(),
            missing_namespace: None,
        }
    }

    /// The objects that the request names.
    pub(super) fn finish(self) -> Result<Vec<AccessTarget>, OperationError> {
        match self.missing_namespace {
            Some(error) => Err(error),
            None => Ok(self.targets),
        }
    }

    fn is_local(&self) -> bool {
        self.context
            .is_some_and(|context| context.caller().is_local())
    }

    /// Refuses a request of a remote caller that omits a parameter.
    pub fn require_from_remote(
        &self,
        parameter: &str,
        is_given: bool,
    ) -> Result<(), OperationError> {
        if is_given || self.is_local() || self.context.is_none() {
            return Ok(());
        }
        let message = format!("the parameter `{parameter}` is missing");
        Err(OperationError::new(Code::MalformedRequest, message))
    }

    /// Refuses names in `local/` in a request that is sent to a server.
    fn check_sendable(&self, name: &str) -> Result<(), OperationError> {
        let name = name.trim();
        let lower = name.to_lowercase();
        if self.context.is_some()
            || (lower != LOCAL_NAMESPACE && !lower.starts_with(&format!("{LOCAL_NAMESPACE}/")))
        {
            return Ok(());
        }
        let message = format!("`{name}` is only on this machine");
        Err(OperationError::new(Code::LocalOnly, message)
            .with_hint("name an object on the server, or run the command here with --local"))
    }

    /// Adds an object in a namespace, with the permission of the operation.
    fn add_target(&mut self, namespace: &str, absent: Option<OperationError>) {
        self.targets.push(AccessTarget {
            namespace: canonical_namespace(namespace),
            scope: self.requirement.scope,
            permission: self.requirement.permission,
            absent,
        });
    }

    /// Adds an object that is only read or run.
    fn add_read_target(&mut self, namespace: &str) {
        self.targets.push(AccessTarget {
            namespace: canonical_namespace(namespace),
            scope: self.requirement.scope,
            permission: Permission::Read,
            absent: None,
        });
    }

    /// Resolves a session, given by id, prefix or name.
    pub fn session(&mut self, reference: &mut String) -> Result<(), OperationError> {
        let Some(context) = self.context else {
            return Ok(());
        };
        let sessions = context.sessions();
        let given = reference.clone();
        let absent = || OperationError::from(SessionError::NotFound(given.clone()));
        let id = match sessions.resolve(reference) {
            Err(SessionError::Ambiguous {
                reference,
                candidates,
            }) if !self.is_local() => self.visible_session(context, reference, candidates)?,
            found => found.map_err(|error| self.hide_unless_local(error.into(), absent))?,
        };
        let session = sessions
            .get(id)
            .map_err(|error| self.hide_unless_local(error.into(), absent))?;
        *reference = session.id.to_string();
        self.add_target(&session.namespace, Some(absent()));
        Ok(())
    }

    /// The only candidate that the caller may read.
    fn visible_session(
        &self,
        context: &OperationContext,
        reference: String,
        candidates: Vec<(SessionId, Option<String>)>,
    ) -> Result<SessionId, OperationError> {
        let namespaces = context.visible(self.requirement.scope);
        let sessions = context.sessions();
        let mut visible = Vec::new();
        for (id, name) in candidates {
            if namespaces.contains(&sessions.get(id)?.namespace) {
                visible.push((id, name));
            }
        }
        match visible.as_slice() {
            [] => Err(SessionError::NotFound(reference).into()),
            [(only, _)] => Ok(*only),
            _ => Err(SessionError::Ambiguous {
                reference,
                candidates: visible,
            }
            .into()),
        }
    }

    /// Resolves a plan, given by id, prefix or name.
    pub fn plan(&mut self, reference: &mut String) -> Result<(), OperationError> {
        let Some(context) = self.context else {
            return Ok(());
        };
        let given = reference.clone();
        let absent = || {
            OperationError::from(PlanQueryError::NotFound {
                reference: given.clone(),
                nearest: Vec::new(),
            })
        };
        let plan = context.plans().resolve(reference);
        let plan = plan.map_err(|error| self.hide_unless_local(error.into(), absent))?;
        *reference = plan.id.to_string();
        let namespace = namespace_of_plan(context, plan.id)?;
        self.add_target(&namespace, Some(absent()));
        Ok(())
    }

    /// Resolves a plan. Local callers may omit it: then it is the only active plan, or the only plan.
    pub fn given_or_only_plan(
        &mut self,
        reference: &mut Option<String>,
    ) -> Result<(), OperationError> {
        self.plan_or(reference, |plans| plans.find(None))
    }

    /// Resolves a plan. Local callers may omit it: then it is the only plan that waits for input.
    pub fn given_or_only_waiting_plan(
        &mut self,
        reference: &mut Option<String>,
    ) -> Result<(), OperationError> {
        self.plan_or(reference, PlanQueries::only_waiting)
    }

    /// Resolves a plan. Local callers may omit it: then it is the only plan in one of these stages. `purpose` completes
    /// the error "there is no plan …".
    pub fn plan_or_only_in(
        &mut self,
        reference: &mut Option<String>,
        stages: &[PlanStage],
        purpose: &str,
    ) -> Result<(), OperationError> {
        self.plan_or(reference, |plans| plans.only(stages, purpose))
    }

    fn plan_or(
        &mut self,
        reference: &mut Option<String>,
        choose: impl FnOnce(&PlanQueries) -> Result<Plan, PlanQueryError>,
    ) -> Result<(), OperationError> {
        match (reference, self.context) {
            (Some(reference), _) => self.plan(reference),
            (None, None) => Err(missing_plan()),
            (None, Some(_)) if !self.is_local() => Err(missing_plan()),
            (reference @ None, Some(context)) => {
                *reference = Some(choose(&context.plans())?.id.to_string());
                Ok(())
            }
        }
    }

    /// Resolves a decision, given by id or prefix, or by a plan, which stands for its first decision.
    pub fn decision_or_plan(&mut self, reference: &mut String) -> Result<(), OperationError> {
        let Some(context) = self.context else {
            return Ok(());
        };
        let plans = context.plans();
        let given = reference.clone();
        let absent = || PlanQueryError::DecisionNotFound {
            reference: given.clone(),
            candidates: Vec::new(),
        };
        let (found, plan) = match plans.resolve_decision(reference) {
            Ok(decision) => (decision.content.id.to_string(), decision.plan),
            Err(missing @ PlanQueryError::DecisionNotFound { .. }) => {
                match plans.resolve(reference) {
                    Ok(plan) => (plan.id.to_string(), plan.id),
                    Err(PlanQueryError::NotFound { .. }) => {
                        return Err(self.hide_unless_local(missing.into(), || absent().into()));
                    }
                    Err(error) => {
                        return Err(self.hide_unless_local(error.into(), || absent().into()));
                    }
                }
            }
            Err(error) => return Err(error.into()),
        };
        *reference = found;
        let namespace = namespace_of_plan(context, plan)?;
        self.add_target(&namespace, Some(absent().into()));
        Ok(())
    }

    /// Resolves a run of an actor, given by id or prefix.
    pub fn run(&mut self, reference: &mut String) -> Result<(), OperationError> {
        let Some(context) = self.context else {
            return Ok(());
        };
        let given = reference.clone();
        let absent = || {
            OperationError::from(RunServiceError::NotFound {
                reference: given.clone(),
                candidates: Vec::new(),
            })
        };
        let run = context.runs().resolve(reference);
        let run = run.map_err(|error| self.hide_unless_local(error.into(), absent))?;
        *reference = run.id.to_string();
        self.add_target(&run.namespace, Some(absent()));
        Ok(())
    }

    /// Resolves a run to resume. Resuming a run needs the same permissions as starting it.
    pub fn resumed_run(&mut self, reference: &mut String) -> Result<(), OperationError> {
        self.run(reference)?;
        let Some(context) = self.context else {
            return Ok(());
        };
        let run = context.runs().resolve(reference)?;
        let options = run.options;
        self.add_target(namespace_of(&run.actor), None);
        let ground = &options["ground"];
        let is_plain = |(name, value): (&String, &Value)| {
            ["project", "read_only", "max_cost"].contains(&name.as_str()) || is_unset(value)
        };
        let has_local_rights = !ground
            .as_object()
            .is_none_or(|ground| ground.iter().all(is_plain));
        if !self.is_local() && (has_local_rights || !is_unset(&options["context"])) {
            let message = format!(
                "the run {reference} has permissions that were granted on the server's machine"
            );
            return Err(OperationError::new(Code::LocalOnly, message)
                .with_hint("resume the run there, with --local"));
        }
        if let Some(project) = ground["project"].as_str() {
            self.add_target(namespace_of(project), None);
        }
        for list in ["skills", "servers", "tools"] {
            let names = options[list].as_array().into_iter().flatten();
            for name in names.filter_map(Value::as_str) {
                self.add_read_target(namespace_of(name));
            }
        }
        Ok(())
    }

    /// Resolves an invariant, given by id or prefix. It belongs to the namespace of its scope.
    pub fn invariant(&mut self, reference: &mut String) -> Result<(), OperationError> {
        let Some(context) = self.context else {
            return Ok(());
        };
        let given = reference.clone();
        let absent = || OperationError::from(InvariantError::NotFound(given.clone()));
        let found = InvariantService::new(context.engine()).get(reference);
        let found = found.map_err(|error| self.hide_unless_local(error.into(), absent))?;
        *reference = found.id.to_string();
        let namespace = match (found.scope, &found.source_name) {
            (InvariantScope::Project | InvariantScope::Action, Some(name)) => {
                namespace_of(name).to_owned()
            }
            (InvariantScope::Plan, Some(plan)) => match plan.parse() {
                Ok(plan) => namespace_of_plan(context, plan)?,
                Err(_) => LOCAL_NAMESPACE.to_owned(),
            },
            // Global invariants belong to the machine of the database.
            _ => LOCAL_NAMESPACE.to_owned(),
        };
        self.add_target(&namespace, Some(absent()));
        Ok(())
    }

    /// Resolves an attachment of a validation. It belongs to the namespace of its resource.
    pub fn attachment(&mut self, reference: &mut String) -> Result<(), OperationError> {
        let Some(context) = self.context else {
            return Ok(());
        };
        let given = reference.clone();
        let absent = || {
            OperationError::from(ValidationError::AttachmentNotFound {
                reference: given.clone(),
                candidates: Vec::new(),
            })
        };
        let found = ValidationService::new(context.engine()).attachment(reference);
        let found = found.map_err(|error| self.hide_unless_local(error.into(), absent))?;
        *reference = found.attachment.id.to_string();
        self.add_target(namespace_of(&found.resource), Some(absent()));
        Ok(())
    }

    /// Resolves the namespace of a new object.
    pub fn new_in(&mut self, namespace: &mut Option<String>) -> Result<(), OperationError> {
        match namespace {
            Some(given) => {
                self.check_sendable(given)?;
                *given = given.to_lowercase();
                let name = format!("{given}/x").parse::<Name>();
                name.map_err(|error| OperationError::new(Code::InvalidName, error.to_string()))?;
            }
            None if self.is_local() || self.context.is_none() => return Ok(()),
            None => namespace.clone_from(&self.home),
        }
        if let Some(namespace) = namespace.clone() {
            self.add_target(&namespace, None);
        } else {
            self.missing_namespace.get_or_insert_with(|| {
                OperationError::usage("the namespace of the new object is not given")
                    .with_hint("set the parameter `namespace`")
            });
        }
        Ok(())
    }

    /// Resolves the name of the object that the operation acts on.
    pub fn name(&mut self, name: &mut String, kind: NamedKind) -> Result<(), OperationError> {
        self.complete(name, kind)?;
        if name.contains('/') {
            self.add_target(namespace_of(name), None);
        }
        Ok(())
    }

    /// Resolves the name of an object that is only read or run.
    pub fn read_name(&mut self, name: &mut String, kind: NamedKind) -> Result<(), OperationError> {
        self.complete(name, kind)?;
        if name.contains('/') {
            self.add_read_target(namespace_of(name));
        }
        Ok(())
    }

    /// Refuses a parameter that only callers on the machine of the database may use.
    pub fn local_only(&self, parameter: &str) -> Result<(), OperationError> {
        if self.is_local() {
            return Ok(());
        }
        let message = format!("`{parameter}` cannot be used by callers from other machines");
        Err(OperationError::new(Code::LocalOnly, message)
            .with_hint("run the command on this machine with --local"))
    }

    /// Adds the caller's namespace to a name without one.
    fn complete(&mut self, name: &mut String, kind: NamedKind) -> Result<(), OperationError> {
        self.check_sendable(name)?;
        let Some(context) = self.context else {
            return Ok(());
        };
        if self.is_local() || AutomationProfile::find_built_in(name).is_some() {
            return Ok(());
        }
        if name.contains('/') {
            // The search for resources also tries `local/NAME`, so the name of the resource found is authorized.
            if matches!(kind, NamedKind::Resource | NamedKind::ProjectOrResource)
                && let Ok(found) = context.resources().resolve(name)
            {
                *name = found.name.to_string();
            }
            return Ok(());
        }
        let is_id = name.len() == 26 && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_id
            && matches!(kind, NamedKind::Project | NamedKind::ProjectOrResource)
            && let Ok((project, _)) = context.projects().view(name)
        {
            *name = project.name.to_string();
        } else if is_id
            && matches!(kind, NamedKind::Resource | NamedKind::ProjectOrResource)
            && let Ok(details) = context.resources().show(name)
        {
            *name = details.resource.name.to_string();
        } else if let Some(home) = &self.home {
            *name = format!("{home}/{name}");
        } else {
            self.missing_namespace
                .get_or_insert_with(|| no_namespace(name));
        }
        Ok(())
    }

    /// Adds the objects that an exported session names. Importing the session needs read access to its actor.
    pub fn exported_session(&mut self, document: &str) -> Result<(), OperationError> {
        if self.is_local() || self.context.is_none() {
            return Ok(());
        }
        let tree: Value = serde_json::from_str(document).unwrap_or_default();
        match tree["actor_name"].as_str() {
            Some(actor) if actor.contains('/') => self.add_read_target(namespace_of(actor)),
            Some(actor) => return Err(no_namespace(actor)),
            None => {}
        }
        Ok(())
    }

    /// The text of a definition: its `name` determines the namespace. Definitions of remote callers can use neither
    /// variables of the server nor objects that exist only on its machine.
    pub fn definition(&mut self, text: &mut String) -> Result<(), OperationError> {
        let malformed = |message: &str| OperationError::new(Code::MalformedRequest, message);
        if self.is_local() || self.context.is_none() {
            return Ok(());
        }
        let tree: Value = serde_saphyr::from_str(text)
            .map_err(|error| malformed("the definition is not valid YAML").caused_by(error))?;
        let name = tree["name"]
            .as_str()
            .ok_or_else(|| malformed("the definition has no `name`"))?
            .to_owned();
        if text.contains("${") {
            return Err(malformed(
                "a definition from another machine cannot use variables (`${…}`) of the server",
            ));
        }
        if refers_to_local_objects(&tree) {
            return Err(OperationError::new(
                Code::LocalOnly,
                "the definition refers to an object in `local/` or a model file, which only local callers may use",
            ));
        }
        if !name.contains('/') {
            let home = self.home.clone().ok_or_else(|| no_namespace(&name))?;
            *text = add_namespace(text, &name, &home)?;
            self.add_target(&home, None);
            return Ok(());
        }
        self.add_target(namespace_of(&name), None);
        Ok(())
    }

    /// Hides details about objects that a remote caller did not name exactly.
    fn hide_unless_local(
        &self,
        error: OperationError,
        absent: impl FnOnce() -> OperationError,
    ) -> OperationError {
        if self.is_local() {
            return error;
        }
        hide(error, absent)
    }
}

/// Kinds of objects whose id may be given in place of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedKind {
    Project,
    Resource,
    ProjectOrResource,
    /// Any other object, which has no id.
    Definition,
}

/// The error for a reference that cannot be resolved, without details about objects of other callers.
fn hide(error: OperationError, absent: impl FnOnce() -> OperationError) -> OperationError {
    match error.code().kind() {
        Kind::NotFound | Kind::Usage => absent(),
        _ => error,
    }
}

fn namespace_of_plan(context: &OperationContext, plan: PlanId) -> Result<String, OperationError> {
    let engine = context.engine();
    let namespace = engine.read(|reader| plans::namespace(reader, plan))?;
    Ok(namespace.unwrap_or_else(|| LOCAL_NAMESPACE.to_owned()))
}

/// Checks a request before it is sent to a server: it must not name objects of this machine.
pub fn check_sendable<O: Operation>(request: &mut O) -> Result<(), OperationError> {
    request.resolve(&mut Resolver {
        context: None,
        requirement: O::REQUIREMENT,
        home: None,
        targets: Vec::new(),
        missing_namespace: None,
    })
}

pub fn namespace_of(name: &str) -> &str {
    let (prefix, _) = name.split_once('/').unwrap_or((LOCAL_NAMESPACE, name));
    prefix
        .split_once(':')
        .map_or(prefix, |(_, namespace)| namespace)
}

/// A namespace in stored form.
fn canonical_namespace(namespace: &str) -> String {
    namespace.trim().to_lowercase()
}

/// The error for a request that names no plan: only local callers may omit it.
fn missing_plan() -> OperationError {
    OperationError::new(
        Code::MalformedRequest,
        "the parameter `reference` is missing",
    )
    .with_hint("name a plan; only callers on the machine of the server may omit it")
}

/// Whether an option that is stored with a run is unset.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_set) => !is_set,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_unset),
        Value::Number(_) | Value::String(_) => false,
    }
}

/// A definition with a namespace added to its name. The rest of the text stays unchanged.
fn add_namespace(text: &str, name: &str, home: &str) -> Result<String, OperationError> {
    let line = regex::Regex::new(&format!(
        r#"(?m)^name:[ \t]*["']?{}["']?[ \t]*(#.*)?$"#,
        regex::escape(name)
    ))
    .map_err(|error| {
        OperationError::internal("the name of the definition cannot be found").caused_by(error)
    })?;
    let completed = line.replace(text, format!("name: {home}/{name}").as_str());
    if completed == text {
        return Err(no_namespace(name));
    }
    Ok(completed.into_owned())
}

fn refers_to_local_objects(tree: &Value) -> bool {
    match tree {
        Value::String(text) => {
            let text = text.trim().to_lowercase();
            let (first, _) = text.split_once('/').unwrap_or((&text, ""));
            holds_model_files(first) || text.starts_with("local/")
        }
        Value::Array(items) => items.iter().any(refers_to_local_objects),
        Value::Object(fields) => fields.values().any(refers_to_local_objects),
        _ => false,
    }
}

fn no_namespace(name: &str) -> OperationError {
    OperationError::usage(format!("`{name}` has no namespace"))
        .with_hint(format!("add a namespace: NAMESPACE/{name}"))
}
