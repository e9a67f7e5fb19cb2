//! [`ValidationService`]: the validations there are, and what they are tied to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{
    Attachment, AttachmentId, PlanId, ProjectId, Resource, ResourceId, Timestamp, ValidationScope,
    check_prefix, nearest,
};
use cleveragents_store::tools::{StoredTool, ToolKind};
use cleveragents_store::validations::{self, AttachmentFilter};
use cleveragents_store::{Engine, Reader, UnitOfWork, plans, projects, resources, tools};
use cleveragents_tools::{FileError, Registry, ToolName};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::definition::Validation;
use super::error::ValidationError;
use super::{file, places};
use crate::project::find_project;
use crate::resource::{Outcome, Register, find_resource};

/// How many candidates an ambiguous reference is answered with.
const CANDIDATES: u64 = 20;

/// A validation as it is registered.
#[derive(Debug)]
pub struct RegisteredValidation {
    /// Its file and its dates.
    pub stored: StoredTool,
    /// What the file says now, with the variables of now.
    pub validation: Result<Validation, Box<FileError>>,
}

/// A validation that was just registered.
#[derive(Debug)]
pub struct AddedValidation {
    /// What its file says.
    pub validation: Validation,
    /// Its file and its dates.
    pub stored: StoredTool,
    /// Whether it is new or took the place of another.
    pub outcome: Outcome,
}

/// What to tie to what.
#[derive(Debug, Clone, Default)]
pub struct AttachRequest {
    /// The resource: an id, the beginning of one, or a name.
    pub resource: String,
    /// The name of the validation.
    pub validation: String,
    /// The project in whose plans it is to hold. Not together with a plan.
    pub project: Option<String>,
    /// The one plan in which it is to hold.
    pub plan: Option<PlanId>,
    /// What its places are filled with.
    pub arguments: BTreeMap<String, String>,
}

/// Which attachments are meant, as people name things.
#[derive(Debug, Clone, Default)]
pub struct AttachmentQuery {
    /// Of this validation.
    pub validation: Option<String>,
    /// To this resource.
    pub resource: Option<String>,
    /// In this project.
    pub project: Option<String>,
    /// In this plan.
    pub plan: Option<PlanId>,
}

/// An attachment with the names of what it ties.
#[derive(Debug, Clone)]
pub struct AttachmentView {
    /// The attachment.
    pub attachment: Attachment,
    /// The name of the resource.
    pub resource: String,
    /// The name of the project, or the id of the plan.
    pub scope_target: Option<String>,
}

/// A validation that judges a plan, by way of an attachment.
#[derive(Debug, Clone)]
pub struct InEffect {
    /// The attachment.
    pub attachment_id: AttachmentId,
    /// What judges.
    pub validation: Validation,
    /// The hash of its file and of the arguments: another hash, another judgement.
    pub definition_hash: String,
    /// What is judged.
    pub resource: Resource,
    /// Where the attachment holds.
    pub scope: ValidationScope,
    /// The name of the project, or the id of the plan, in which it holds.
    pub scope_target: Option<String>,
    /// What the places are filled with.
    pub arguments: BTreeMap<String, String>,
}

/// Keeps validations.
#[derive(Clone)]
pub struct ValidationService {
    engine: Arc<Engine>,
}

/// The whole name of a validation.
fn whole_name(name: &str) -> String {
    ToolName::from_wire(name.trim()).map_or_else(|_| name.to_owned(), |name| name.to_string())
}

/// The file of a validation; a tool of that name is told apart from nothing.
fn find(reader: &mut dyn Reader, name: &str) -> Result<StoredTool, ValidationError> {
    let whole = whole_name(name);
    match tools::get(reader, &whole)? {
        Some(stored) if stored.kind == ToolKind::Validation => Ok(stored),
        Some(_) => Err(ValidationError::Tool(whole)),
        None if Registry::with_builtins().get(&whole).is_ok() => Err(ValidationError::Tool(whole)),
        None => {
            let all = tools::list(reader, ToolKind::Validation)?;
            let known = all.iter().map(|stored| stored.name.as_str());
            Err(ValidationError::NotFound {
                name: name.to_owned(),
                nearest: nearest::best(name, known),
            })
        }
    }
}

fn read(stored: &StoredTool, variables: Variables<'_>) -> Result<Validation, Box<FileError>> {
    file::read(&stored.definition, Path::new(&stored.source), variables).map_err(Box::new)
}

/// The arguments of an attachment as they count.
fn arguments_of(attachment: &Attachment) -> BTreeMap<String, String> {
    serde_json::from_value(attachment.arguments.clone()).unwrap_or_default()
}

fn canonical(arguments: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    arguments
        .iter()
        .map(|(name, value)| (places::canonical(name), value.clone()))
        .collect()
}

fn hash(definition: &str, arguments: &Value) -> String {
    let hash = Sha256::new_with_prefix(definition.as_bytes())
        .chain_update([0])
        .chain_update(arguments.to_string().as_bytes())
        .finalize();
    format!("sha256:{}", hex::encode(hash))
}

impl ValidationService {
    /// A service over a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// The registered validations, those included whose files cannot be read any more.
    pub fn list(
        &self,
        variables: Variables<'_>,
    ) -> Result<Vec<RegisteredValidation>, ValidationError> {
        let all = self
            .engine
            .read(|reader| tools::list(reader, ToolKind::Validation))?;
        let read = |stored: StoredTool| RegisteredValidation {
            validation: read(&stored, variables),
            stored,
        };
        Ok(all.into_iter().map(read).collect())
    }

    /// A validation by its name, also one whose file cannot be read any more.
    pub fn get(
        &self,
        name: &str,
        variables: Variables<'_>,
    ) -> Result<RegisteredValidation, ValidationError> {
        let stored = self.engine.read(|reader| find(reader, name))?;
        Ok(RegisteredValidation {
            validation: read(&stored, variables),
            stored,
        })
    }

    /// Registers the validation that the text of a file describes. The text is kept, so that the file
    /// may go. A new text must still fit all attachments.
    pub fn add(
        &self,
        text: &str,
        source: &Path,
        register: Register,
        variables: Variables<'_>,
    ) -> Result<AddedValidation, ValidationError> {
        let validation = file::read(text, source, variables).map_err(Box::new)?;
        let (new, text, source) = (
            validation.clone(),
            text.to_owned(),
            source.display().to_string(),
        );
        let (stored, outcome) = self.engine.write(move |unit| {
            let (kind, name) = (ToolKind::Validation, new.name.as_str());
            let outcome = if tools::insert(unit, kind, name, &text, &source)? {
                Outcome::Created
            } else if register == Register::Update
                && tools::update(unit, kind, name, &text, &source)?
            {
                check_attachments(unit, &new)?;
                Outcome::Updated
            } else if find(unit, name)?.kind == kind {
                return Err(ValidationError::Exists(name.to_owned()));
            } else {
                return Err(ValidationError::Tool(name.to_owned()));
            };
            Ok((find(unit, name)?, outcome))
        })?;
        Ok(AddedValidation {
            validation,
            stored,
            outcome,
        })
    }

    /// Removes a validation that is not attached any more.
    pub fn remove(&self, name: &str) -> Result<StoredTool, ValidationError> {
        let name = name.to_owned();
        self.engine.write(move |unit| {
            let found = find(unit, &name)?;
            let attached = of_validation(unit, &found.name)?;
            if !attached.is_empty() {
                return Err(ValidationError::InUse {
                    name: found.name,
                    count: attached.len(),
                });
            }
            tools::remove(unit, ToolKind::Validation, &found.name)?;
            Ok(found)
        })
    }

    /// Ties a validation to a resource: everywhere, in the plans of a project, or in one plan.
    pub fn attach(
        &self,
        request: &AttachRequest,
        variables: Variables<'_>,
    ) -> Result<AttachmentView, ValidationError> {
        let registered = self.get(&request.validation, variables)?;
        let validation = registered.validation?;
        let arguments = canonical(&request.arguments);
        if let Some(why) = validation.misfit(&arguments) {
            return Err(ValidationError::Arguments {
                name: validation.name,
                why,
            });
        }
        let (id, request) = (AttachmentId::generate(), request.clone());
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            // It may have become another one since it was read, or be gone.
            let name = find(unit, &validation.name)?.name;
            let resource = find_resource(unit, &request.resource)?;
            let project = match &request.project {
                Some(project) => Some(find_project(unit, project)?.id),
                None => None,
            };
            if let Some(plan) = request.plan
                && plans::get(unit, plan)?.is_none()
            {
                return Err(ValidationError::PlanNotFound(plan));
            }
            let attachment = Attachment {
                id,
                validation: name.clone(),
                resource: resource.id,
                project,
                plan: request.plan,
                arguments: json!(arguments),
                created_at: Timestamp::now(),
            };
            if !validations::attach(unit, &attachment)? {
                return Err(ValidationError::Attached {
                    validation: name,
                    resource: resource.name.to_string(),
                });
            }
            let stored = validations::with_prefix(unit, &id.to_string(), 1)?;
            let attachment = stored.into_iter().next().unwrap_or(attachment);
            view(unit, attachment)
        })
    }

    /// Unties a validation, by the id of the attachment or its beginning.
    pub fn detach(&self, reference: &str) -> Result<AttachmentView, ValidationError> {
        let reference = reference.to_owned();
        self.engine.write(move |unit| {
            let view = find_attachment(unit, &reference)?;
            validations::detach(unit, &view.attachment)?;
            Ok(view)
        })
    }

    /// An attachment, by its id or the beginning of that.
    pub fn attachment(&self, reference: &str) -> Result<AttachmentView, ValidationError> {
        self.engine
            .read(|reader| find_attachment(reader, reference))
    }

    /// The attachments that are meant, oldest first.
    pub fn attachments(
        &self,
        query: &AttachmentQuery,
    ) -> Result<Vec<AttachmentView>, ValidationError> {
        self.engine.read(|reader| {
            let filter = AttachmentFilter {
                validation: match &query.validation {
                    Some(name) => Some(find(reader, name)?.name),
                    None => None,
                },
                resource: match &query.resource {
                    Some(resource) => Some(find_resource(reader, resource)?.id),
                    None => None,
                },
                project: match &query.project {
                    Some(project) => Some(find_project(reader, project)?.id),
                    None => None,
                },
                plan: query.plan,
            };
            let found = validations::attachments(reader, &filter)?;
            found
                .into_iter()
                .map(|attachment| view(reader, attachment))
                .collect()
        })
    }

    /// The validations that judge a plan of these projects on these resources, oldest attachment
    /// first. One that is attached to a resource in several ways with the same arguments judges once,
    /// by the narrowest attachment. One whose file cannot be read is an error, never passed over.
    pub fn for_plan(
        &self,
        plan: PlanId,
        projects: &[ProjectId],
        resources: &[ResourceId],
        variables: Variables<'_>,
    ) -> Result<Vec<InEffect>, ValidationError> {
        let found = self
            .engine
            .read(|reader| in_effect(reader, plan, projects, resources))?;
        found
            .into_iter()
            .map(|(stored, resource, view)| {
                Ok(InEffect {
                    attachment_id: view.attachment.id,
                    validation: read(&stored, variables)?,
                    definition_hash: hash(&stored.definition, &view.attachment.arguments),
                    resource,
                    scope: view.attachment.scope(),
                    scope_target: view.scope_target,
                    arguments: arguments_of(&view.attachment),
                })
            })
            .collect()
    }

    /// The attachments of [`Self::for_plan`], each with the hash of what it does, within a unit of work.
    pub(crate) fn judging(
        reader: &mut dyn Reader,
        plan: PlanId,
        projects: &[ProjectId],
        resources: &[ResourceId],
    ) -> Result<Vec<(AttachmentId, String)>, ValidationError> {
        let found = in_effect(reader, plan, projects, resources)?;
        let judging = found.into_iter().map(|(stored, _, view)| {
            let hash = hash(&stored.definition, &view.attachment.arguments);
            (view.attachment.id, hash)
        });
        Ok(judging.collect())
    }
}

/// What judges a plan, as it is stored.
fn in_effect(
    reader: &mut dyn Reader,
    plan: PlanId,
    projects: &[ProjectId],
    resources: &[ResourceId],
) -> Result<Vec<(StoredTool, Resource, AttachmentView)>, ValidationError> {
    let mut found = Vec::new();
    for attachment in validations::attachments(reader, &AttachmentFilter::default())? {
        let holds = match (attachment.plan, attachment.project) {
            (Some(one), _) => one == plan,
            (None, Some(project)) => projects.contains(&project),
            (None, None) => true,
        };
        if holds && resources.contains(&attachment.resource) {
            let stored = find(reader, &attachment.validation)?;
            let resource = find_resource(reader, &attachment.resource.to_string())?;
            found.push((stored, resource, view(reader, attachment)?));
        }
    }
    found.sort_by_key(|(_, _, view)| {
        (
            std::cmp::Reverse(view.attachment.scope()),
            view.attachment.id,
        )
    });
    let mut seen = BTreeSet::new();
    found.retain(|(_, _, AttachmentView { attachment, .. })| {
        seen.insert((
            attachment.validation.clone(),
            attachment.resource,
            attachment.arguments.to_string(),
        ))
    });
    found.sort_by_key(|(_, _, view)| view.attachment.id);
    Ok(found)
}

fn of_validation(reader: &mut dyn Reader, name: &str) -> Result<Vec<Attachment>, ValidationError> {
    let filter = AttachmentFilter {
        validation: Some(name.to_owned()),
        ..AttachmentFilter::default()
    };
    Ok(validations::attachments(reader, &filter)?)
}

/// Refuses a new text whose places the attachments do not fill.
fn check_attachments(
    unit: &mut UnitOfWork<'_>,
    validation: &Validation,
) -> Result<(), ValidationError> {
    for attachment in of_validation(unit, &validation.name)? {
        if let Some(why) = validation.misfit(&arguments_of(&attachment)) {
            return Err(ValidationError::Misfit {
                name: validation.name.clone(),
                attachment: attachment.id,
                why,
            });
        }
    }
    Ok(())
}

fn find_attachment(
    reader: &mut dyn Reader,
    reference: &str,
) -> Result<AttachmentView, ValidationError> {
    let not_found = |candidates: Vec<AttachmentId>| ValidationError::AttachmentNotFound {
        reference: reference.to_owned(),
        candidates,
    };
    let prefix = check_prefix(reference).map_err(|_| not_found(Vec::new()))?;
    let mut found = validations::with_prefix(reader, &prefix, CANDIDATES)?;
    if found.len() != 1 {
        let candidates = found.iter().map(|attachment| attachment.id);
        return Err(not_found(candidates.collect()));
    }
    view(reader, found.remove(0))
}

fn view(
    reader: &mut dyn Reader,
    attachment: Attachment,
) -> Result<AttachmentView, ValidationError> {
    let resource = resources::get(reader, attachment.resource)?.map_or_else(
        || attachment.resource.to_string(),
        |resource| resource.name.to_string(),
    );
    let scope_target = match (attachment.plan, attachment.project) {
        (Some(plan), _) => Some(plan.to_string()),
        (None, Some(project)) => projects::get(reader, project)?
            .map(|project| project.name.to_string())
            .or_else(|| Some(project.to_string())),
        (None, None) => None,
    };
    Ok(AttachmentView {
        attachment,
        resource,
        scope_target,
    })
}
