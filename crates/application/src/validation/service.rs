//! Registered validations and their attachments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{
    Attachment, AttachmentId, DefinitionFileError, DefinitionKind, PlanId, ProjectId, Resource,
    ResourceId, Timestamp, ValidationScope,
};
use cleveragents_store::definitions::{self, StoredDefinition};
use cleveragents_store::validations::{self, AttachmentFilter};
use cleveragents_store::{Reader, UnitOfWork, plans, projects, resources};
use cleveragents_tools::{Registry, ToolName};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::definition::Validation;
use super::error::ValidationError;
use super::{file, placeholders};
use crate::definition::{DefinitionService, DefinitionText, DefinitionType, find_definition};
use crate::project::find_project;
use crate::reference::{find_referenced, unnamed};
use crate::resource::find_resource;

/// An attachment to create.
#[derive(Debug, Clone, Default)]
pub struct AttachRequest {
    /// The resource: name, id or prefix of an id.
    pub resource: String,
    /// The name of the validation.
    pub validation: String,
    /// The project whose plans are validated. Cannot be combined with `plan`.
    pub project: Option<String>,
    /// The only plan that is validated.
    pub plan: Option<PlanId>,
    /// Values of the placeholders.
    pub arguments: BTreeMap<String, String>,
}

/// Filter for attachments.
#[derive(Debug, Clone, Default)]
pub struct AttachmentQuery {
    /// Only attachments of this validation.
    pub validation: Option<String>,
    /// Only attachments to this resource.
    pub resource: Option<String>,
    /// Only attachments for this project.
    pub project: Option<String>,
    /// Only attachments for this plan.
    pub plan: Option<PlanId>,
}

/// An attachment with the names of its resource and scope.
#[derive(Debug, Clone)]
pub struct AttachmentView {
    /// Stored attachment.
    pub attachment: Attachment,
    /// The name of the resource.
    pub resource: String,
    /// The name of the project, or the id of the plan.
    pub scope_target: Option<String>,
}

/// A validation that applies to a plan, through an attachment.
#[derive(Debug, Clone)]
pub struct EffectiveValidation {
    pub attachment_id: AttachmentId,
    /// The validation to run.
    pub validation: Validation,
    /// The hash of the file and of the arguments. When the hash changes, the validation must run again.
    pub definition_hash: String,
    /// The resource to validate.
    pub resource: Resource,
    /// Scope of the attachment.
    pub scope: ValidationScope,
    /// The name of the project or the id of the plan that the scope refers to.
    pub scope_target: Option<String>,
    /// Values of the placeholders.
    pub arguments: BTreeMap<String, String>,
}

/// The registered validations and their attachments.
pub type ValidationService = DefinitionService<Validation>;

impl DefinitionType for Validation {
    const KIND: DefinitionKind = DefinitionKind::Validation;
    type Reading<'a> = Variables<'a>;
    type Error = ValidationError;

    fn read(
        text: DefinitionText<'_>,
        _: &[StoredDefinition],
        variables: Variables<'_>,
    ) -> Result<Self, Box<DefinitionFileError>> {
        file::read(text.text, Path::new(text.source), variables).map_err(Box::new)
    }

    fn schema() -> Value {
        file::schema()
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn complete_name(name: &str) -> String {
        ToolName::from_wire(name.trim()).map_or_else(|_| name.to_owned(), |name| name.to_string())
    }

    /// Reports that the name belongs to a tool.
    fn explain_missing(
        reader: &mut dyn Reader,
        name: &str,
        _: Variables<'_>,
    ) -> Result<Option<ValidationError>, ValidationError> {
        let name = Self::complete_name(name);
        let is_tool = Registry::with_builtins().get(&name).is_ok()
            || definitions::get(reader, DefinitionKind::Tool, &name)?.is_some();
        Ok(is_tool.then_some(ValidationError::Tool(name)))
    }

    /// The new definition must still match all attachments.
    fn on_update(&self, unit: &mut UnitOfWork<'_>) -> Result<(), ValidationError> {
        check_attachments(unit, self)
    }

    fn check_name_free(reader: &mut dyn Reader, name: &str) -> Result<(), ValidationError> {
        match definitions::get(reader, DefinitionKind::Tool, name)? {
            Some(_) => Err(ValidationError::Tool(name.to_owned())),
            None => Ok(()),
        }
    }

    fn check_unused(
        reader: &mut dyn Reader,
        found: &StoredDefinition,
        _: &[StoredDefinition],
    ) -> Result<(), ValidationError> {
        match attachments_of(reader, &found.name)?.len() {
            0 => Ok(()),
            count => Err(ValidationError::InUse {
                name: found.name.clone(),
                count,
            }),
        }
    }
}

fn find(reader: &mut dyn Reader, name: &str) -> Result<StoredDefinition, ValidationError> {
    find_definition::<Validation>(reader, name, &|_| None)
}

/// The arguments of an attachment with canonical names.
fn arguments_of(attachment: &Attachment) -> BTreeMap<String, String> {
    serde_json::from_value(attachment.arguments.clone()).unwrap_or_default()
}

fn canonical(arguments: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    arguments
        .iter()
        .map(|(name, value)| (placeholders::canonical(name), value.clone()))
        .collect()
}

fn hash(definition: &str, arguments: &Value) -> String {
    let hash = Sha256::new_with_prefix(definition.as_bytes())
        .chain_update([0])
        .chain_update(arguments.to_string().as_bytes())
        .finalize();
    format!("sha256:{}", hex::encode(hash))
}

impl DefinitionService<Validation> {
    /// Attaches a validation to a resource: for all plans, the plans of a project, or one plan.
    pub fn attach(
        &self,
        request: &AttachRequest,
        variables: Variables<'_>,
    ) -> Result<AttachmentView, ValidationError> {
        let registered = self.get_registered(&request.validation, variables)?;
        let validation = registered.definition?;
        let arguments = canonical(&request.arguments);
        if let Some(why) = validation.argument_mismatch(&arguments) {
            return Err(ValidationError::Arguments {
                name: validation.name,
                why,
            });
        }
        let (id, request) = (AttachmentId::generate(), request.clone());
        self.engine().write(move |unit| {
            resources::lock(unit)?;
            // Another process may have changed or removed the validation since it was read.
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

    /// Deletes an attachment, by its id or a prefix of the id.
    pub fn detach(&self, reference: &str) -> Result<AttachmentView, ValidationError> {
        let reference = reference.to_owned();
        self.engine().write(move |unit| {
            let view = find_attachment(unit, &reference)?;
            validations::detach(unit, &view.attachment)?;
            Ok(view)
        })
    }

    /// An attachment, by its id or a prefix of the id.
    pub fn attachment(&self, reference: &str) -> Result<AttachmentView, ValidationError> {
        self.engine()
            .read(|reader| find_attachment(reader, reference))
    }

    /// The matching attachments, oldest first.
    pub fn attachments(
        &self,
        query: &AttachmentQuery,
    ) -> Result<Vec<AttachmentView>, ValidationError> {
        self.engine().read(|reader| {
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
            let attachments = validations::attachments(reader, &filter)?;
            attachments
                .into_iter()
                .map(|attachment| view(reader, attachment))
                .collect()
        })
    }

    /// The validations that apply to a plan of these projects on these resources, oldest attachment
    /// first. A validation that is attached to a resource several times with the same arguments runs
    /// once, by the attachment with the narrowest scope. A validation with an invalid file is an error
    /// and is never skipped.
    pub fn for_plan(
        &self,
        plan: PlanId,
        projects: &[ProjectId],
        resources: &[ResourceId],
        variables: Variables<'_>,
    ) -> Result<Vec<EffectiveValidation>, ValidationError> {
        let effective = self
            .engine()
            .read(|reader| in_effect(reader, plan, projects, resources))?;
        effective
            .into_iter()
            .map(|(stored, resource, view)| {
                Ok(EffectiveValidation {
                    attachment_id: view.attachment.id,
                    validation: Validation::read((&stored).into(), &[], variables)?,
                    definition_hash: hash(&stored.definition, &view.attachment.arguments),
                    resource,
                    scope: view.attachment.scope(),
                    scope_target: view.scope_target,
                    arguments: arguments_of(&view.attachment),
                })
            })
            .collect()
    }

    /// The ids of the attachments that [`Self::for_plan`] returns, each with its definition hash, read within a unit of
    /// work of the caller.
    pub(crate) fn effective_hashes(
        reader: &mut dyn Reader,
        plan: PlanId,
        projects: &[ProjectId],
        resources: &[ResourceId],
    ) -> Result<Vec<(AttachmentId, String)>, ValidationError> {
        let effective = in_effect(reader, plan, projects, resources)?;
        let hashes = effective.into_iter().map(|(stored, _, view)| {
            let hash = hash(&stored.definition, &view.attachment.arguments);
            (view.attachment.id, hash)
        });
        Ok(hashes.collect())
    }
}

/// The stored attachments that apply to a plan.
fn in_effect(
    reader: &mut dyn Reader,
    plan: PlanId,
    projects: &[ProjectId],
    resources: &[ResourceId],
) -> Result<Vec<(StoredDefinition, Resource, AttachmentView)>, ValidationError> {
    let mut effective = Vec::new();
    for attachment in validations::attachments(reader, &AttachmentFilter::default())? {
        let is_in_scope = match (attachment.plan, attachment.project) {
            (Some(attached_plan), _) => attached_plan == plan,
            (None, Some(project)) => projects.contains(&project),
            (None, None) => true,
        };
        if is_in_scope && resources.contains(&attachment.resource) {
            let stored = find(reader, &attachment.validation)?;
            let resource = find_resource(reader, &attachment.resource.to_string())?;
            effective.push((stored, resource, view(reader, attachment)?));
        }
    }
    effective.sort_by_key(|(_, _, view)| {
        (
            std::cmp::Reverse(view.attachment.scope()),
            view.attachment.id,
        )
    });
    let mut seen = BTreeSet::new();
    effective.retain(|(_, _, AttachmentView { attachment, .. })| {
        seen.insert((
            attachment.validation.clone(),
            attachment.resource,
            attachment.arguments.to_string(),
        ))
    });
    effective.sort_by_key(|(_, _, view)| view.attachment.id);
    Ok(effective)
}

fn attachments_of(reader: &mut dyn Reader, name: &str) -> Result<Vec<Attachment>, ValidationError> {
    let filter = AttachmentFilter {
        validation: Some(name.to_owned()),
        ..AttachmentFilter::default()
    };
    Ok(validations::attachments(reader, &filter)?)
}

/// Refuses a new definition whose placeholders do not match the arguments of an attachment.
fn check_attachments(
    unit: &mut UnitOfWork<'_>,
    validation: &Validation,
) -> Result<(), ValidationError> {
    for attachment in attachments_of(unit, &validation.name)? {
        if let Some(why) = validation.argument_mismatch(&arguments_of(&attachment)) {
            return Err(ValidationError::AttachmentMismatch {
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
    let found = find_referenced(
        reader,
        reference,
        unnamed,
        |reader, prefix, limit| Ok(validations::with_prefix(reader, prefix, limit)?),
        |found| ValidationError::AttachmentNotFound {
            reference: reference.to_owned(),
            candidates: found.iter().map(|attachment| attachment.id).collect(),
        },
    )?;
    view(reader, found)
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
