//! The operations on resource types.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    ArgumentType, AutoDiscovery, Capabilities, ChildType, InheritedType, ResourceKind,
    ResourceType, SandboxStrategy, TypeName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::operations::ResourceListSummary;
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};

/// Origin of a resource type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TypeSource {
    #[serde(rename = "built-in")]
    BuiltIn,
    Custom,
}

impl TypeSource {
    fn from_type(declared: &ResourceType) -> Self {
        if declared.is_built_in() {
            Self::BuiltIn
        } else {
            Self::Custom
        }
    }

    /// The value in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Custom => "custom",
        }
    }
}

/// Lists resource types, the built-in ones first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListResourceTypes {}

/// The response of `registry/resource-type/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResourceTypeList {
    pub resource_types: Vec<ListedResourceType>,
    pub summary: ResourceListSummary,
}

/// A listed resource type.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedResourceType {
    pub name: String,
    pub source: TypeSource,
    pub description: String,
    pub physical_virtual: ResourceKind,
    /// Whether users can register resources of this type.
    pub user_addable: bool,
    pub inherits: Option<String>,
    pub sandbox: ListedSandbox,
}

/// The isolation of a listed type.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedSandbox {
    /// The strategy of the type, which may be inherited.
    pub strategy: Option<SandboxStrategy>,
}

impl Operation for ListResourceTypes {
    const NAME: &'static str = "registry/resource-type/list";
    const SUMMARY: &'static str = "List resource types";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ResourceTypeList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ResourceTypeList, OperationError> {
        let types = context.resources().types()?;
        let listed = types.all().map(|declared| ListedResourceType {
            name: declared.name.to_string(),
            source: TypeSource::from_type(declared),
            description: declared.description.clone(),
            physical_virtual: declared.kind,
            user_addable: declared.user_addable,
            inherits: declared.inherits.as_ref().map(ToString::to_string),
            sandbox: ListedSandbox {
                strategy: types.strategy(&declared.name),
            },
        });
        let resource_types: Vec<ListedResourceType> = listed.collect();
        Ok(ResourceTypeList {
            summary: ResourceListSummary {
                total: resource_types.len() as u64,
            },
            resource_types,
        })
    }
}

/// Shows a resource type with everything that it inherits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowResourceType {
    pub name: String,
}

/// A resource type with everything that it inherits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceTypeInfo {
    pub name: String,
    pub source: TypeSource,
    pub description: String,
    pub physical_virtual: ResourceKind,
    /// Whether users can register resources of this type.
    pub user_addable: bool,
    pub inherits: Option<String>,
    /// The type and the types that it inherits from, the most specific first.
    pub chain: Vec<TypeName>,
    /// The flags of `resource add`.
    pub cli_arguments: Vec<TypeArgument>,
    /// Types that may be parents. If empty, any type that allows this type as a child.
    pub parent_types: Vec<TypeName>,
    /// Types that may be children.
    pub child_types: Vec<ChildType>,
    /// Discovery of resources of this type below other resources.
    pub auto_discovery: Option<AutoDiscovery>,
    /// Properties that identify a resource: resources with equal values are the same object. Only for virtual types.
    pub equivalence: Vec<String>,
    pub sandbox: TypeSandbox,
    pub capabilities: Capabilities,
}

/// A flag of `resource add`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeArgument {
    /// The flag with its dashes, such as `--path`.
    pub argument: String,
    pub required: bool,
    #[serde(rename = "type")]
    pub kind: ArgumentType,
    pub description: String,
    pub default: Option<String>,
    /// A regular expression that the whole value must match.
    pub validation_pattern: Option<String>,
}

/// Isolation of resources of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeSandbox {
    pub strategy: Option<SandboxStrategy>,
    /// Whether the state of the resources can be checkpointed.
    pub checkpointable: bool,
    /// The handler that reads and writes the content of the resources.
    pub handler: Option<String>,
}

impl From<InheritedType> for ResourceTypeInfo {
    fn from(kind: InheritedType) -> Self {
        let InheritedType { whole, chain } = kind;
        let capabilities = whole.capabilities.unwrap_or_default();
        let source = TypeSource::from_type(&whole);
        let arguments = whole.arguments.into_iter().map(|argument| TypeArgument {
            argument: format!("--{}", argument.name),
            required: argument.required,
            kind: argument.kind,
            description: argument.description,
            default: argument.default,
            validation_pattern: argument.validation_pattern,
        });
        Self {
            name: whole.name.to_string(),
            source,
            description: whole.description,
            physical_virtual: whole.kind,
            user_addable: whole.user_addable,
            inherits: whole.inherits.map(|name| name.to_string()),
            chain,
            cli_arguments: arguments.collect(),
            parent_types: whole.parent_types,
            child_types: whole.child_types,
            auto_discovery: whole.auto_discovery,
            equivalence: whole.equivalence,
            sandbox: TypeSandbox {
                strategy: whole.sandbox_strategy,
                checkpointable: capabilities.checkpoint,
                handler: whole.handler,
            },
            capabilities,
        }
    }
}

impl Operation for ShowResourceType {
    const NAME: &'static str = "registry/resource-type/show";
    const SUMMARY: &'static str = "Show a resource type with everything that it inherits";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ResourceTypeInfo;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ResourceTypeInfo, OperationError> {
        Ok(context.resources().show_type(&self.name)?.into())
    }
}
