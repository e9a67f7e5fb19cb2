//! Resource types: their names, arguments, possible children and isolation.
//!
//! A type contains only its own declarations; `inheritance.rs` adds the inherited ones, and `builtin` lists the
//! built-in types. [`ResourceType::check`] implements the rules that need no other type.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SandboxStrategy;
use crate::name::{Name, NameError, is_plain_segment};

/// Flags of every `resource add`; a type cannot declare them.
pub const RESERVED_ARGUMENTS: [&str; 8] = [
    "database-url",
    "description",
    "format",
    "help",
    "name",
    "read-only",
    "update",
    "version",
];

/// Name of a type: a bare word for built-in ones (`git-checkout`), a name with its namespace for others
/// (`local/database`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub struct TypeName(String);

impl TypeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name has no namespace, like built-in types.
    pub fn is_bare(&self) -> bool {
        !self.0.contains('/')
    }

    /// The part after the namespace.
    pub fn last_segment(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The name with the namespace `local` if it has none.
    #[must_use]
    pub fn in_local(&self) -> Self {
        if self.is_bare() {
            Self(format!("local/{}", self.0))
        } else {
            self.clone()
        }
    }

    /// Refuses a reserved namespace.
    pub fn require_free_namespace(&self) -> Result<(), NameError> {
        self.in_local().0.parse::<Name>()?.require_free_namespace()
    }
}

impl FromStr for TypeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let name: Name = text.parse()?;
        if text.contains('/') {
            Ok(Self(name.to_string()))
        } else {
            Ok(Self(name.name().to_owned()))
        }
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for TypeName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TypeName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Whether a resource has a location of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// The resource has a location and content.
    Physical,
    /// The resource is an identity that physical resources with the same content share.
    Virtual,
}

impl ResourceKind {
    /// Name in type files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Physical => "physical",
            Self::Virtual => "virtual",
        }
    }
}

/// Type of an argument's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArgumentType {
    /// One line of text.
    String,
    /// An existing file or directory.
    Path,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// A URL with a scheme.
    Url,
}

impl ArgumentType {
    /// Name in type files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Path => "path",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Url => "url",
        }
    }
}

/// An argument that `resource add` takes for a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// Name, without the dashes.
    pub name: String,
    /// Type of the value.
    #[serde(rename = "type")]
    pub kind: ArgumentType,
    /// Whether the argument must be given.
    pub required: bool,
    /// Help text.
    pub description: String,
    /// Value when the argument is not given.
    pub default: Option<String>,
    /// Regular expression that the whole value must match.
    pub validation_pattern: Option<String>,
}

/// A resource type that may be a child of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChildType {
    /// Type of the child.
    #[serde(rename = "type")]
    pub name: TypeName,
    /// Whether discovery looks for such children when the parent is registered.
    pub auto_discover: bool,
}

/// Activation time of a discovered resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// On discovery.
    Eager,
    /// On first use.
    #[default]
    Lazy,
}

/// Discovery settings for resources of a type below a parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AutoDiscovery {
    /// Whether discovery looks for resources of the type.
    pub enabled: bool,
    /// Maximum directory depth; 0 is the parent's own directory.
    pub scan_depth: u32,
    /// Only directories that match one of these patterns; all directories when empty.
    pub include_patterns: Vec<String>,
    /// Excluded directories.
    pub exclude_patterns: Vec<String>,
    /// Types of resources below which discovery looks.
    pub parent_types: Vec<TypeName>,
    /// Paths whose existence indicates a resource.
    pub scan_paths: Vec<String>,
    /// Activation time of a found resource.
    pub activation: Activation,
}

/// Operations that resources of a type support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent capabilities"
)]
pub struct Capabilities {
    /// The content can be read.
    pub read: bool,
    /// The content can be changed.
    pub write: bool,
    /// The resource can be isolated in a sandbox.
    pub sandbox: bool,
    /// The state can be saved and restored.
    pub checkpoint: bool,
}

/// A resource type with its own declarations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceType {
    pub name: TypeName,
    /// Description for users.
    pub description: String,
    /// Whether resources of this type have locations of their own.
    pub kind: ResourceKind,
    /// Whether users can register resources of this type.
    pub user_addable: bool,
    /// Arguments of `resource add`.
    pub arguments: Vec<Argument>,
    /// Allowed parent types. If empty, every type that allows this type as a child.
    pub parent_types: Vec<TypeName>,
    /// Allowed child types.
    pub child_types: Vec<ChildType>,
    /// Discovery settings.
    pub auto_discovery: Option<AutoDiscovery>,
    /// Properties that two resources must share to be equivalent; virtual types only.
    pub equivalence: Vec<String>,
    /// Name of the handler for the content of resources.
    pub handler: Option<String>,
    /// Isolation strategy.
    pub sandbox_strategy: Option<SandboxStrategy>,
    /// Supported operations.
    pub capabilities: Option<Capabilities>,
    /// Type that this type inherits from.
    pub inherits: Option<TypeName>,
}

/// The type declaration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypeRuleError {
    /// An argument's name cannot be a flag.
    #[error("the argument `{0}` cannot be a flag: letters, digits and `-` are allowed")]
    ArgumentName(String),
    /// Every `resource add` has this flag.
    #[error("the argument `{0}` is a flag that every type has")]
    ReservedArgument(String),
    /// Two arguments share a name.
    #[error("the argument `{0}` is declared twice")]
    DuplicateArgument(String),
    /// A required argument cannot have a default.
    #[error("the argument `{0}` is required, so it cannot have a default")]
    RequiredWithDefault(String),
    /// Only texts can have a pattern.
    #[error("the argument `{0}` has a validation_pattern, which is for `string` and `url` only")]
    PatternForType(String),
    /// A virtual type without `equivalence`, or a physical type with `equivalence`.
    #[error("{}", equivalence_phrase(*.0))]
    Equivalence(ResourceKind),
    /// A virtual resource has no location, so it cannot be registered or isolated.
    #[error("a virtual type has no location: it cannot have {0}")]
    VirtualHas(&'static str),
    /// A capability is declared without the declaration that it depends on.
    #[error("the capability `{0}` needs {1}")]
    Capability(&'static str, &'static str),
    /// A scan path leads out of the parent.
    #[error("the scan path `{0}` must be relative and stay below the parent")]
    ScanPath(String),
    /// The scan depth exceeds the maximum.
    #[error("the scan depth {0} is more than {MAX_SCAN_DEPTH}")]
    ScanDepth(u32),
    /// The type inherits from itself.
    #[error("a type cannot inherit from itself")]
    InheritsItself,
}

pub const MAX_SCAN_DEPTH: u32 = 5;

fn equivalence_phrase(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Virtual => "a virtual type needs `equivalence`",
        ResourceKind::Physical => "`equivalence` is for virtual types only",
    }
}

impl ResourceType {
    /// A physical type without declarations.
    pub fn new(name: TypeName) -> Self {
        Self {
            name,
            description: String::new(),
            kind: ResourceKind::Physical,
            user_addable: true,
            arguments: Vec::new(),
            parent_types: Vec::new(),
            child_types: Vec::new(),
            auto_discovery: None,
            equivalence: Vec::new(),
            handler: None,
            sandbox_strategy: None,
            capabilities: None,
            inherits: None,
        }
    }

    /// Checks the rules that need no other type.
    pub fn check(&self) -> Result<(), TypeRuleError> {
        let mut seen = HashSet::new();
        for argument in &self.arguments {
            argument.check()?;
            if !seen.insert(&argument.name) {
                return Err(TypeRuleError::DuplicateArgument(argument.name.clone()));
            }
        }
        if self.inherits.as_ref() == Some(&self.name) {
            return Err(TypeRuleError::InheritsItself);
        }
        if self.kind == ResourceKind::Physical && !self.equivalence.is_empty() {
            return Err(TypeRuleError::Equivalence(self.kind));
        }
        if let Some(discovery) = &self.auto_discovery {
            discovery.check()?;
        }
        Ok(())
    }

    /// Checks the rules of a type after inheritance.
    pub fn check_whole(&self) -> Result<(), TypeRuleError> {
        self.check()?;
        let isolates = self.sandbox_strategy.is_some_and(SandboxStrategy::isolates);
        if self.kind == ResourceKind::Virtual {
            if self.equivalence.is_empty() {
                return Err(TypeRuleError::Equivalence(self.kind));
            }
            if self.user_addable {
                return Err(TypeRuleError::VirtualHas("user_addable"));
            }
            if isolates {
                return Err(TypeRuleError::VirtualHas("a sandbox_strategy"));
            }
        }
        let capabilities = self.capabilities.unwrap_or_default();
        if capabilities.sandbox && !isolates {
            return Err(TypeRuleError::Capability("sandbox", "a sandbox_strategy"));
        }
        if capabilities.checkpoint && !capabilities.sandbox {
            return Err(TypeRuleError::Capability(
                "checkpoint",
                "the capability sandbox",
            ));
        }
        Ok(())
    }
}

impl Argument {
    fn check(&self) -> Result<(), TypeRuleError> {
        let name = self.name.clone();
        if !is_plain_segment(&self.name) || self.name.contains('_') || self.name.ends_with('-') {
            return Err(TypeRuleError::ArgumentName(name));
        }
        if RESERVED_ARGUMENTS.contains(&self.name.as_str()) {
            return Err(TypeRuleError::ReservedArgument(name));
        }
        if self.required && self.default.is_some() {
            return Err(TypeRuleError::RequiredWithDefault(name));
        }
        let is_text = matches!(self.kind, ArgumentType::String | ArgumentType::Url);
        if self.validation_pattern.is_some() && !is_text {
            return Err(TypeRuleError::PatternForType(name));
        }
        Ok(())
    }
}

impl AutoDiscovery {
    fn check(&self) -> Result<(), TypeRuleError> {
        if self.scan_depth > MAX_SCAN_DEPTH {
            return Err(TypeRuleError::ScanDepth(self.scan_depth));
        }
        for path in &self.scan_paths {
            let stays_below = !path.is_empty()
                && !path.contains(['\0', '\\'])
                && path
                    .split('/')
                    .all(|part| !part.is_empty() && part != "." && part != "..");
            if !stays_below {
                return Err(TypeRuleError::ScanPath(path.clone()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
