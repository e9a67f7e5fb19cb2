//! Resource types: what a kind of resource is called, which arguments it takes, what it may contain
//! and how it is isolated.
//!
//! A type says what it declares itself; what it inherits is worked out in `inheritance.rs`, the
//! types that are always there stand in `builtin.rs`. [`ResourceType::check`] holds the rules that
//! need no other type.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SandboxStrategy;
use crate::name::{Name, NameError, is_plain_segment};

/// Flags that every `resource add` has; a type cannot declare them.
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

/// The name of a type: a bare word for built-in ones (`git-checkout`), a name with its namespace for
/// others (`local/database`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub struct TypeName(String);

impl TypeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it has no namespace, as built-in types do.
    pub fn is_bare(&self) -> bool {
        !self.0.contains('/')
    }

    /// The part after the namespace.
    pub fn last_segment(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The same name in `local/` when it has no namespace.
    #[must_use]
    pub fn in_local(&self) -> Self {
        if self.is_bare() {
            Self(format!("local/{}", self.0))
        } else {
            self.clone()
        }
    }

    /// Refuses a namespace that is not for users.
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

/// Whether a resource has a place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// It has a location and content.
    Physical,
    /// It is what physical resources with the same content have in common.
    Virtual,
}

impl ResourceKind {
    /// The kind as written in type files and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Physical => "physical",
            Self::Virtual => "virtual",
        }
    }
}

/// What the value of an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArgumentType {
    /// One line of text.
    String,
    /// A file or folder that exists.
    Path,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// An address with a scheme.
    Url,
}

impl ArgumentType {
    /// The type as written in type files and reports.
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
    /// Its name, without the dashes.
    pub name: String,
    /// What its value is.
    #[serde(rename = "type")]
    pub kind: ArgumentType,
    /// Whether it must be given.
    pub required: bool,
    /// What the help says about it.
    pub description: String,
    /// Its value when it is not given.
    pub default: Option<String>,
    /// What its value must look like as a whole.
    pub validation_pattern: Option<String>,
}

/// A type of resource that may lie below another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChildType {
    /// The type of the child.
    #[serde(rename = "type")]
    pub name: TypeName,
    /// Whether such children are looked for when the parent is registered.
    pub auto_discover: bool,
}

/// When a discovered resource is made ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// When it is found.
    Eager,
    /// When it is first used.
    #[default]
    Lazy,
}

/// How resources of a type are found below a parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AutoDiscovery {
    /// Whether they are looked for.
    pub enabled: bool,
    /// How many folders deep to look; 0 is the parent's own folder.
    pub scan_depth: u32,
    /// Only in folders that match one of these; all when there is none.
    pub include_patterns: Vec<String>,
    /// Not in folders that match one of these.
    pub exclude_patterns: Vec<String>,
    /// The types below which to look.
    pub parent_types: Vec<TypeName>,
    /// The paths whose presence means that there is one.
    pub scan_paths: Vec<String>,
    /// When what was found is made ready.
    pub activation: Activation,
}

/// What can be done with a resource of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four answers to four questions"
)]
pub struct Capabilities {
    /// Its content can be read.
    pub read: bool,
    /// Its content can be changed.
    pub write: bool,
    /// It can be isolated.
    pub sandbox: bool,
    /// Its state can be kept and restored.
    pub checkpoint: bool,
}

/// A type of resource, as it declares itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceType {
    /// Its name.
    pub name: TypeName,
    /// What it is, for people.
    pub description: String,
    /// Whether it has a place of its own.
    pub kind: ResourceKind,
    /// Whether people can register one.
    pub user_addable: bool,
    /// What `resource add` takes.
    pub arguments: Vec<Argument>,
    /// The types it may lie below; any that allows it when there is none.
    pub parent_types: Vec<TypeName>,
    /// The types that may lie below it.
    pub child_types: Vec<ChildType>,
    /// How it is found below others.
    pub auto_discovery: Option<AutoDiscovery>,
    /// What two resources must share to be the same; virtual types only.
    pub equivalence: Vec<String>,
    /// What works with its content.
    pub handler: Option<String>,
    /// How it is isolated.
    pub sandbox_strategy: Option<SandboxStrategy>,
    /// What can be done with it.
    pub capabilities: Option<Capabilities>,
    /// The type it is a special case of.
    pub inherits: Option<TypeName>,
}

/// Why a type cannot be.
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
    /// A required argument with a default is never missing.
    #[error("the argument `{0}` is required and has a default; it can be one of them only")]
    RequiredWithDefault(String),
    /// Only texts have a pattern.
    #[error("the argument `{0}` has a validation_pattern, which is for `string` and `url` only")]
    PatternForType(String),
    /// A virtual type without equivalence, or a physical one with it.
    #[error("{}", equivalence_phrase(*.0))]
    Equivalence(ResourceKind),
    /// A virtual resource has no place, so nobody can register or isolate one.
    #[error("a virtual type has no location: it cannot have {0}")]
    VirtualHas(&'static str),
    /// A capability that nothing backs.
    #[error("the capability `{0}` needs {1}")]
    Capability(&'static str, &'static str),
    /// A path to look for that leads out of the parent.
    #[error("the scan path `{0}` must be relative and stay below the parent")]
    ScanPath(String),
    /// Discovery deeper than is sensible.
    #[error("the scan depth {0} is more than {MAXIMUM_SCAN_DEPTH}")]
    ScanDepth(u32),
    /// A type that is its own child or ancestor in name.
    #[error("a type cannot inherit from itself")]
    InheritsItself,
}

/// How deep discovery may look.
pub const MAXIMUM_SCAN_DEPTH: u32 = 5;

fn equivalence_phrase(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Virtual => "a virtual type needs `equivalence`",
        ResourceKind::Physical => "`equivalence` is for virtual types only",
    }
}

impl ResourceType {
    /// A physical type with nothing declared but its name.
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

    /// Checks the rules of a type with everything it inherits.
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
        let able = self.capabilities.unwrap_or_default();
        if able.sandbox && !isolates {
            return Err(TypeRuleError::Capability("sandbox", "a sandbox_strategy"));
        }
        if able.checkpoint && !able.sandbox {
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
        if self.scan_depth > MAXIMUM_SCAN_DEPTH {
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
#[path = "resource_type/tests.rs"]
mod tests;
