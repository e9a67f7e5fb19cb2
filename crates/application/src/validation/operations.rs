//! The operations on validations and their attachments.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::collections::BTreeMap;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{AttachmentId, Code, PlanId, Timestamp, ValidationMode, ValidationScope};
use cleveragents_models::Redactor;
use cleveragents_store::definitions::StoredDefinition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::{CommandLine, Validation, ValidationCheck};
use super::error::ValidationError;
use super::service::{AttachRequest, AttachmentQuery, AttachmentView};
use crate::definition::{
    DefinitionText, add_request, remove_confirmed, remove_request, show_request,
};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, RemovedDefinition,
    Requirement, Resolver, name_filter, redacted,
};
use crate::resource::{Outcome, Register};

/// The operations on validations.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<AddValidation>(),
    OperationEntry::new::<ListValidations>(),
    OperationEntry::new::<ShowValidation>(),
    OperationEntry::new::<RemoveValidation>(),
    OperationEntry::new::<AttachValidation>(),
    OperationEntry::new::<ListAttachments>(),
    OperationEntry::new::<DetachValidation>(),
];

/// A validation. Environment variables appear by name, never with their values.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationInfo {
    pub name: String,
    pub description: String,
    pub mode: ValidationMode,
    /// The placeholders that each attachment must fill.
    pub arguments: Vec<String>,
    #[serde(flatten)]
    pub check: CheckInfo,
}

/// The implementation of a validation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CheckInfo {
    /// The validation runs a command.
    Command(CommandCheckInfo),
    /// The validation calls a tool.
    Tool(ToolCheckInfo),
}

/// A validation that runs a command.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CommandCheckInfo {
    pub command: CommandText,
    /// Time limit in seconds.
    pub timeout: f64,
    /// Whether the command may use the network.
    pub network: bool,
    /// Names of environment variables.
    pub environment: Vec<String>,
    /// Working directory within the resource; `null` for the root of the resource.
    pub working_directory: Option<String>,
    pub passes_when: PassCondition,
    /// Regular expressions that read numbers from the output, each with one group.
    pub metrics: BTreeMap<String, String>,
    /// Minimum values of metrics.
    pub minimum: BTreeMap<String, f64>,
    /// Maximum values of metrics.
    pub maximum: BTreeMap<String, f64>,
}

/// A command line.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CommandText {
    Shell(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

/// Conditions under which a command passes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PassCondition {
    pub exit_code: Vec<i32>,
    /// A regular expression that the output must also match.
    pub output_matches: Option<String>,
}

/// A validation that calls a tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolCheckInfo {
    /// Name of the tool.
    pub wraps: String,
    pub tool_arguments: Value,
    /// The expression that computes the verdict from the output.
    pub transform: String,
}

impl Validation {
    /// The validation without the values of secrets and environment variables.
    pub fn summary(&self) -> ValidationInfo {
        let hide = |text: &str| self.keys.hide(text);
        let check = match &self.check {
            ValidationCheck::Command(check) => CheckInfo::Command(CommandCheckInfo {
                command: match &check.command {
                    CommandLine::Shell(text) => CommandText::Shell(hide(text)),
                    CommandLine::Words(words) => {
                        CommandText::Words(words.iter().map(|word| hide(word)).collect())
                    }
                },
                timeout: check.timeout.as_secs_f64(),
                network: check.network,
                environment: check.environment.keys().cloned().collect(),
                working_directory: check
                    .working_directory
                    .as_ref()
                    .map(|folder| hide(&folder.to_string())),
                passes_when: PassCondition {
                    exit_code: check.exit_codes.clone(),
                    output_matches: check
                        .output_matches
                        .as_ref()
                        .map(|pattern| hide(pattern.as_str())),
                },
                metrics: check
                    .metrics
                    .iter()
                    .map(|(name, pattern)| (name.clone(), hide(pattern.as_str())))
                    .collect(),
                minimum: check.minimum.clone(),
                maximum: check.maximum.clone(),
            }),
            ValidationCheck::Wraps(check) => CheckInfo::Tool(ToolCheckInfo {
                wraps: check.tool.clone(),
                tool_arguments: self.keys.hide_in(&check.arguments),
                transform: hide(check.transform.text()),
            }),
        };
        ValidationInfo {
            name: self.name.clone(),
            description: hide(&self.description),
            mode: self.mode,
            arguments: self.placeholder_names().into_iter().collect(),
            check,
        }
    }
}

/// A registered validation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StoredValidation {
    #[serde(flatten)]
    pub validation: ValidationInfo,
    /// File that the definition was read from.
    pub config: String,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// Grows with every update of the definition.
    pub version: u64,
}

impl StoredValidation {
    fn new(
        validation: &Validation,
        stored: StoredDefinition,
        secrets: &Redactor,
    ) -> Result<Self, OperationError> {
        Ok(Self {
            validation: redacted(secrets, &validation.summary())?,
            config: stored.source,
            created: stored.created_at,
            updated: stored.updated_at,
            version: stored.version,
        })
    }
}

/// The response of `registry/validation/add`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedValidationInfo {
    pub validation_registered: RegisteredValidationInfo,
}

/// The registered validation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RegisteredValidationInfo {
    #[serde(flatten)]
    pub stored: StoredValidation,
    pub outcome: Outcome,
}

add_request! {
    /// Registers a validation.
    AddValidation("registry/validation/add", "Register a validation") -> AddedValidationInfo;
    update: "Replace a validation of the same name. The new definition must fit all attachments.";
    run: add;
}

fn add(
    context: &OperationContext,
    new: DefinitionText<'_>,
    register: Register,
) -> Result<AddedValidationInfo, OperationError> {
    let service = context.validations();
    let added = service.add(new.text, new.source, register, context.variables())?;
    let secrets = context.redactor()?;
    Ok(AddedValidationInfo {
        validation_registered: RegisteredValidationInfo {
            stored: StoredValidation::new(&added.definition, added.stored, &secrets)?,
            outcome: added.outcome,
        },
    })
}

/// Lists validations.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListValidations {
    /// Only validations whose name matches this regular expression.
    #[serde(default)]
    pub pattern: Option<String>,
}

/// The response of `registry/validation/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationList {
    pub validations: Vec<ListedValidation>,
    pub summary: Total,
}

/// The number of listed items.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Total {
    pub total: u64,
}

/// A listed validation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ListedValidation {
    Readable(Box<ValidationInfo>),
    /// A validation whose definition is no longer valid.
    Broken {
        name: String,
        problem: String,
    },
}

impl Operation for ListValidations {
    const NAME: &'static str = "registry/validation/list";
    const SUMMARY: &'static str = "List validations";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ValidationList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ValidationList, OperationError> {
        let matches = name_filter(self.pattern.as_deref())?;
        let secrets = context.redactor()?;
        let mut all = context.validations().list_registered(context.variables())?;
        all.retain(|registered| {
            let name = &registered.stored.name;
            matches(name) && context.may_read(Scope::Registry, name)
        });
        let listed = all
            .into_iter()
            .map(|registered| match registered.definition {
                Ok(validation) => redacted(&secrets, &validation.summary())
                    .map(|summary| ListedValidation::Readable(Box::new(summary))),
                Err(error) => Ok(ListedValidation::Broken {
                    name: registered.stored.name,
                    problem: secrets.text(&error.to_string()).into_owned(),
                }),
            });
        let validations: Vec<_> = listed.collect::<Result<_, OperationError>>()?;
        Ok(ValidationList {
            summary: Total {
                total: validations.len() as u64,
            },
            validations,
        })
    }
}

/// Resource and scope of an attached validation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AttachmentInfo {
    pub attachment_id: AttachmentId,
    pub validation: String,
    pub resource: String,
    pub scope: ValidationScope,
    /// The project, or the id of the plan; `null` when it applies to all plans.
    pub scope_target: Option<String>,
    /// Values of the placeholders.
    pub arguments: Value,
    pub created: Timestamp,
}

impl From<AttachmentView> for AttachmentInfo {
    fn from(view: AttachmentView) -> Self {
        Self {
            attachment_id: view.attachment.id,
            scope: view.attachment.scope(),
            validation: view.attachment.validation,
            resource: view.resource,
            scope_target: view.scope_target,
            arguments: view.attachment.arguments,
            created: view.attachment.created_at,
        }
    }
}

/// The response of `registry/validation/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ValidationDetails {
    pub validation: StoredValidation,
    /// Attachments to resources that the caller may read.
    pub attachments: Vec<AttachmentInfo>,
}

show_request! {
    /// Shows a validation and its attachments.
    ShowValidation("registry/validation/show", "Show a validation and its attachments") -> ValidationDetails;
    run: show;
}

fn show(context: &OperationContext, name: &str) -> Result<ValidationDetails, OperationError> {
    let service = context.validations();
    let registered = service.get_registered(name, context.variables())?;
    let validation = registered.definition.map_err(ValidationError::from)?;
    let query = AttachmentQuery {
        validation: Some(registered.stored.name.clone()),
        ..AttachmentQuery::default()
    };
    let mut attached = service.attachments(&query)?;
    attached.retain(|view| context.may_read(Scope::Registry, &view.resource));
    Ok(ValidationDetails {
        validation: StoredValidation::new(&validation, registered.stored, &context.redactor()?)?,
        attachments: attached.into_iter().map(Into::into).collect(),
    })
}

remove_request! {
    /// Removes a validation that is not attached.
    RemoveValidation("registry/validation/remove", "Remove a validation");
    run: remove;
}

fn remove(
    context: &OperationContext,
    name: &str,
    yes: bool,
) -> Result<RemovedDefinition, OperationError> {
    let variables: Variables<'_> = context.variables();
    remove_confirmed(&context.validations(), variables, name, yes, |_| Ok(()))
}

/// Attaches a validation to a resource: for every plan, for the plans of a project, or for one plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachValidation {
    /// The resource to check: id or name.
    pub resource: String,
    pub validation: String,
    /// Only for plans of this project.
    #[serde(default)]
    pub project: Option<String>,
    /// Only for this plan. Not together with `project`.
    #[serde(default)]
    pub plan: Option<String>,
    /// Values of the placeholders in the definition.
    #[serde(default)]
    pub arguments: ArgumentValues,
}

/// Values of placeholders.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ArgumentValues {
    Map(BTreeMap<String, String>),
    /// Each as `NAME=VALUE`.
    Pairs(Vec<String>),
}

impl Default for ArgumentValues {
    fn default() -> Self {
        Self::Map(BTreeMap::new())
    }
}

impl ArgumentValues {
    /// The values by name. `-` and `_` in names are equivalent.
    pub fn parse(self) -> Result<BTreeMap<String, String>, OperationError> {
        let wrong = |message: String| {
            OperationError::usage(message).with_hint("write each argument once, as NAME=VALUE")
        };
        let pairs = match self {
            Self::Map(values) => values.into_iter().collect(),
            Self::Pairs(pairs) => {
                let split = pairs.into_iter().map(|pair| {
                    let parts = pair.split_once('=').filter(|(name, _)| !name.is_empty());
                    let parts = parts.map(|(name, value)| (name.to_owned(), value.to_owned()));
                    parts.ok_or_else(|| wrong(format!("`{pair}` is not NAME=VALUE")))
                });
                split.collect::<Result<Vec<_>, _>>()?
            }
        };
        let mut values = BTreeMap::new();
        for (name, value) in pairs {
            if values.insert(name.replace('-', "_"), value).is_some() {
                return Err(wrong(format!("`{name}` is given twice")));
            }
        }
        Ok(values)
    }
}

/// The response of `registry/validation/attach`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AttachedValidation {
    pub attachment: NewAttachment,
}

/// The created attachment.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NewAttachment {
    #[serde(flatten)]
    pub attachment: AttachmentInfo,
    /// The mode of the validation; `null` when its definition is no longer valid.
    pub mode: Option<ValidationMode>,
}

fn resolve_plan(
    plan: &mut Option<String>,
    resolver: &mut Resolver<'_>,
) -> Result<(), OperationError> {
    match plan {
        Some(plan) => resolver.plan(plan),
        None => Ok(()),
    }
}

fn parse_plan(plan: Option<&str>) -> Result<Option<PlanId>, OperationError> {
    let parse = |text: &str| {
        text.parse::<PlanId>().map_err(|_| {
            OperationError::new(Code::PlanNotFound, format!("plan `{text}` does not exist"))
                .with_hint("give the full id of a plan")
        })
    };
    plan.map(parse).transpose()
}

impl Operation for AttachValidation {
    const NAME: &'static str = "registry/validation/attach";
    const SUMMARY: &'static str = "Attach a validation to a resource";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = AttachedValidation;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.resource, NamedKind::Resource)?;
        resolver.read_name(&mut self.validation, NamedKind::Definition)?;
        if let Some(project) = &mut self.project {
            resolver.name(project, NamedKind::Project)?;
        }
        resolve_plan(&mut self.plan, resolver)
    }

    fn run(self, context: &OperationContext) -> Result<AttachedValidation, OperationError> {
        if self.project.is_some() && self.plan.is_some() {
            return Err(OperationError::usage(
                "a validation is attached for a project or for a plan",
            )
            .with_hint("give either `project` or `plan`"));
        }
        let (service, variables) = (context.validations(), context.variables());
        let request = AttachRequest {
            resource: self.resource,
            validation: self.validation,
            project: self.project,
            plan: parse_plan(self.plan.as_deref())?,
            arguments: self.arguments.parse()?,
        };
        let view = service.attach(&request, variables)?;
        let registered = service.get_registered(&view.attachment.validation, variables)?;
        let mode = registered.definition.ok().map(|validation| validation.mode);
        Ok(AttachedValidation {
            attachment: NewAttachment {
                attachment: view.into(),
                mode,
            },
        })
    }
}

/// Lists attachments, oldest first. Callers from other machines must name the resource.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListAttachments {
    /// Only attachments of this validation.
    #[serde(default)]
    pub validation: Option<String>,
    /// Only attachments to this resource.
    #[serde(default)]
    pub resource: Option<String>,
    /// Only attachments for plans of this project.
    #[serde(default)]
    pub project: Option<String>,
    /// Only attachments for this plan.
    #[serde(default)]
    pub plan: Option<String>,
}

/// The response of `registry/validation/attachments`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AttachmentList {
    pub attachments: Vec<AttachmentInfo>,
    pub summary: Total,
}

impl Operation for ListAttachments {
    const NAME: &'static str = "registry/validation/attachments";
    const SUMMARY: &'static str = "List the validations that are attached to a resource";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = AttachmentList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.require_from_remote("resource", self.resource.is_some())?;
        if let Some(resource) = &mut self.resource {
            resolver.name(resource, NamedKind::Resource)?;
        }
        if let Some(validation) = &mut self.validation {
            resolver.read_name(validation, NamedKind::Definition)?;
        }
        if let Some(project) = &mut self.project {
            resolver.read_name(project, NamedKind::Project)?;
        }
        resolve_plan(&mut self.plan, resolver)
    }

    fn run(self, context: &OperationContext) -> Result<AttachmentList, OperationError> {
        let query = AttachmentQuery {
            validation: self.validation,
            resource: self.resource,
            project: self.project,
            plan: parse_plan(self.plan.as_deref())?,
        };
        let views = context.validations().attachments(&query)?;
        let attachments: Vec<_> = views.into_iter().map(AttachmentInfo::from).collect();
        Ok(AttachmentList {
            summary: Total {
                total: attachments.len() as u64,
            },
            attachments,
        })
    }
}

/// Detaches a validation from a resource.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DetachValidation {
    /// Id of the attachment, or a prefix of at least 6 characters.
    pub attachment: String,
}

/// The response of `registry/validation/detach`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DetachedValidation {
    pub detached: AttachmentInfo,
}

impl Operation for DetachValidation {
    const NAME: &'static str = "registry/validation/detach";
    const SUMMARY: &'static str = "Detach a validation from a resource";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = DetachedValidation;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.attachment(&mut self.attachment)
    }

    fn run(self, context: &OperationContext) -> Result<DetachedValidation, OperationError> {
        let view = context.validations().detach(&self.attachment)?;
        Ok(DetachedValidation {
            detached: view.into(),
        })
    }
}
