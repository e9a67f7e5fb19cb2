//! [`ToolName`]: what a tool is called, how a model may be told of it, and the other spellings under
//! which built-in tools are known.

use std::fmt;
use std::str::FromStr;

use cleveragents_domain::{Name, NameError};
use serde::{Deserialize, Serialize};

/// Providers of models accept no longer name.
const WIRE_MAXIMUM: usize = 128;

/// Other spellings of built-in tools, and the tool each stands for.
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

/// Why a text is not the name of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolNameError {
    /// The text is no name at all.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Capital letters mark the places of `:` and `/` in the form that models see.
    #[error("`{0}` has a capital letter: names of tools are written in lower case")]
    Capital(String),
    /// Something that only names of models may hold.
    #[error(
        "`{0}` is not the name of a tool: write `namespace/name` with letters, digits, `_` or `-`"
    )]
    NotATool(String),
    /// Too long for a provider.
    #[error("`{0}` is too long: models accept names of {WIRE_MAXIMUM} characters at most")]
    TooLong(String),
}

/// The name of a tool: `namespace/name`, or `server:namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Name);

impl ToolName {
    /// The namespace of the tools that are part of the program.
    pub const BUILTIN: &'static str = "builtin";

    /// The namespace of the tools through which a model uses agent skills.
    pub const SKILL: &'static str = "skill";

    /// A built-in tool, by the last part of its name.
    pub(crate) fn builtin(name: &'static str) -> Self {
        format!("{}/{name}", Self::BUILTIN)
            .parse()
            .expect("the names of built-in tools are well formed, as a test shows")
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        self.0.namespace()
    }

    /// The last part.
    pub fn short(&self) -> &str {
        self.0.name()
    }

    /// The name itself.
    pub fn as_name(&self) -> &Name {
        &self.0
    }

    /// Whether it is in the namespace of the program's own tools.
    pub fn is_builtin(&self) -> bool {
        self.0.server().is_none() && self.namespace() == Self::BUILTIN
    }

    /// Whether its namespace is kept for tools that come with the program.
    pub fn is_programs(&self) -> bool {
        [Self::BUILTIN, Self::SKILL].contains(&self.namespace())
    }

    /// The name as models are told it: letters, digits, `_` and `-` only.
    pub fn wire_name(&self) -> String {
        self.to_string().replace(':', "_C_").replace('/', "_S_")
    }

    /// Reads a name as a model says it.
    pub fn from_wire(wire: &str) -> Result<Self, ToolNameError> {
        wire.replace("_C_", ":").replace("_S_", "/").parse()
    }

    /// The tool that is meant: the name itself, unless it is another spelling of a built-in one.
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
        if name.wire_name().len() > WIRE_MAXIMUM {
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
    fn other_spellings_mean_the_same_tool() {
        for (given, meant) in [
            ("builtin/read_file", "builtin/file-read"),
            ("builtin/file_read", "builtin/file-read"),
            ("builtin/git_commit", "builtin/git-commit"),
            ("builtin/shell_execute", "builtin/shell"),
            ("local/read_file", "local/read_file"),
            ("server:builtin/read_file", "server:builtin/read_file"),
        ] {
            assert_eq!(parse(given).expect(given).canonical().to_string(), meant);
        }
    }

    #[test]
    fn every_alias_leads_to_a_name_that_is_its_own_canonical_form() {
        for (_, name) in ALIASES {
            assert_eq!(ToolName::builtin(name).canonical(), ToolName::builtin(name));
        }
    }

    #[test]
    fn names_that_no_model_could_be_told_are_refused() {
        let long = format!("a/{}", "b".repeat(126));
        for wrong in ["", "Local/x", "local/X", "openai/gpt-4.1", "a/b/c", &long] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(parse(&format!("a/{}", "b".repeat(120))).is_ok());
    }

    proptest! {
        #[test]
        fn the_name_for_models_leads_back(
            name in "([a-z0-9][a-z0-9_-]{0,12}:)?[a-z0-9][a-z0-9_-]{0,12}/[a-z0-9][a-z0-9_-]{0,12}",
        ) {
            if let Ok(name) = parse(&name) {
                let wire = name.wire_name();
                prop_assert!(wire.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
                prop_assert_eq!(ToolName::from_wire(&wire).expect("its own form"), name);
            }
        }

        #[test]
        fn reading_what_a_model_says_never_panics(text in "\\PC{0,40}") {
            let _outcome = ToolName::from_wire(&text);
        }
    }
}
