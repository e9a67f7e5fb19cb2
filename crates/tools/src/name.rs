//! [`ToolName`]: the name of a tool, its form for models, and alternative spellings of built-in
//! tools.

use std::fmt;
use std::str::FromStr;

use cleveragents_domain::{Name, NameError};
use serde::{Deserialize, Serialize};

/// Maximum length, in bytes, of a tool name that model providers accept.
const MAX_WIRE_LENGTH: usize = 128;

/// Alternative spellings of built-in tools, and the tool each refers to.
const ALIASES: &[(&str, &str)] = &[
    ("read_file", "file-read"),
    ("write_file", "file-write"),
    ("edit_file", "file-edit"),
    ("delete_file", "file-delete"),
    ("move_file", "file-move"),
    ("copy_file", "file-copy"),
    ("create_directory", "dir-create"),
    ("delete_directory", "dir-delete"),
    ("list_directory", "dir-list"),
    ("file-list", "dir-list"),
    ("list_files", "dir-list"),
    ("search_files", "file-search"),
    ("search_text", "file-search"),
    ("find_files", "file-find"),
    ("shell_execute", "shell"),
    ("shell-execute", "shell"),
    ("read_output", "output-read"),
];

/// Errors of parsing the name of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolNameError {
    /// The text is not a valid name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Capital letters are reserved: they encode `:` and `/` in the form for models.
    #[error("`{0}` contains a capital letter: tool names are lowercase")]
    Capital(String),
    /// The text contains a character that is allowed only in names of models.
    #[error(
        "`{0}` is not a valid tool name: write `namespace/name` with letters, digits, `_` or `-`"
    )]
    NotATool(String),
    /// The name is longer than providers accept.
    #[error("`{0}` is too long: models accept names of at most {MAX_WIRE_LENGTH} characters")]
    TooLong(String),
}

/// The name of a tool: `namespace/name`, or `server:namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Name);

impl ToolName {
    /// Namespace of the built-in tools.
    pub const BUILTIN: &'static str = "builtin";

    /// Namespace of the tools through which a model uses agent skills.
    pub const SKILL: &'static str = "skill";

    /// Name of a built-in tool, from its short name.
    pub(crate) fn builtin(name: &'static str) -> Self {
        format!("{}/{name}", Self::BUILTIN)
            .parse()
            .expect("names of built-in tools are valid, as a test verifies")
    }

    /// The part before `/`, without the server.
    pub fn namespace(&self) -> &str {
        self.0.namespace()
    }

    /// The part after `/`.
    pub fn short(&self) -> &str {
        self.0.name()
    }

    /// The name as the type shared by all definitions.
    pub fn as_name(&self) -> &Name {
        &self.0
    }

    /// Returns whether the namespace is `builtin`.
    pub fn is_builtin(&self) -> bool {
        self.0.server().is_none() && self.namespace() == Self::BUILTIN
    }

    /// Returns whether the namespace is reserved: users cannot register tools in it.
    pub fn is_reserved(&self) -> bool {
        [Self::BUILTIN, Self::SKILL].contains(&self.namespace())
    }

    /// The name in the form for models: letters, digits, `_` and `-` only.
    pub fn wire_name(&self) -> String {
        self.to_string().replace(':', "_C_").replace('/', "_S_")
    }

    /// The name of the tool when it is declared separately, not as part of a model tool.
    pub fn declared_name(&self) -> String {
        crate::model_tools::separate_name(self)
    }

    /// Parses a name in the form for models.
    pub fn from_wire(wire: &str) -> Result<Self, ToolNameError> {
        wire.replace("_C_", ":").replace("_S_", "/").parse()
    }

    /// Resolves alternative spellings of built-in tools; other names are returned unchanged.
    #[must_use]
    pub fn canonical(&self) -> Self {
        if !self.is_builtin() {
            return self.clone();
        }
        let known = ALIASES.iter().find(|(alias, _)| *alias == self.short());
        match known {
            Some((_, name)) => Self::builtin(name),
            None => format!("{}/{}", Self::BUILTIN, self.short().replace('_', "-"))
                .parse()
                .unwrap_or_else(|_| self.clone()),
        }
    }
}

impl FromStr for ToolName {
    type Err = ToolNameError;

    fn from_str(text: &str) -> Result<Self, ToolNameError> {
        if text.chars().any(char::is_uppercase) {
            return Err(ToolNameError::Capital(text.to_owned()));
        }
        let name = Self(text.parse()?);
        if name.short().contains(['.', ':', '/', '@']) {
            return Err(ToolNameError::NotATool(text.to_owned()));
        }
        if name.wire_name().len() > MAX_WIRE_LENGTH {
            return Err(ToolNameError::TooLong(text.to_owned()));
        }
        Ok(name)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Serialize for ToolName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIASES, ToolName, ToolNameError};
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<ToolName, ToolNameError> {
        text.parse()
    }

    #[test]
    fn alternative_spellings_resolve_to_the_same_tool() {
        for (spelling, expected) in [
            ("builtin/read_file", "builtin/file-read"),
            ("builtin/file_read", "builtin/file-read"),
            ("builtin/git_commit", "builtin/git-commit"),
            ("builtin/shell_execute", "builtin/shell"),
            ("local/read_file", "local/read_file"),
            ("server:builtin/read_file", "server:builtin/read_file"),
        ] {
            assert_eq!(
                parse(spelling).expect(spelling).canonical().to_string(),
                expected
            );
        }
    }

    #[test]
    fn every_alias_resolves_to_a_canonical_name() {
        for (_, name) in ALIASES {
            assert_eq!(ToolName::builtin(name).canonical(), ToolName::builtin(name));
        }
    }

    #[test]
    fn names_that_providers_would_reject_are_refused() {
        let long = format!("a/{}", "b".repeat(126));
        for invalid in ["", "Local/x", "local/X", "openai/gpt-4.1", "a/b/c", &long] {
            assert!(parse(invalid).is_err(), "{invalid:?}");
        }
        assert!(parse(&format!("a/{}", "b".repeat(120))).is_ok());
    }

    proptest! {
        #[test]
        fn wire_names_round_trip(
            name in "([a-z0-9][a-z0-9_-]{0,12}:)?[a-z0-9][a-z0-9_-]{0,12}/[a-z0-9][a-z0-9_-]{0,12}",
        ) {
            if let Ok(name) = parse(&name) {
                let wire = name.wire_name();
                prop_assert!(wire.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
                prop_assert_eq!(ToolName::from_wire(&wire).expect("its own form"), name);
            }
        }

        #[test]
        fn parsing_wire_names_never_panics(text in "\\PC{0,40}") {
            let _outcome = ToolName::from_wire(&text);
        }
    }
}
