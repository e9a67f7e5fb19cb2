//! The environment of the process as a value, so that tests can construct their own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Environment variables and the working folder. An empty variable counts as unset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    working_folder: Option<PathBuf>,
}

impl Environment {
    /// The environment of this process. No other function reads it.
    pub fn of_process() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            // The current folder may have been removed.
            working_folder: std::env::current_dir().ok(),
        }
    }

    /// An environment with the given variables.
    pub fn from_pairs(working_folder: impl Into<PathBuf>, pairs: &[(&str, &str)]) -> Self {
        Self {
            variables: pairs
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            working_folder: Some(working_folder.into()),
        }
    }

    /// Sets a variable to bytes that may not be UTF-8.
    #[cfg(test)]
    pub(crate) fn set_raw(&mut self, name: &str, value: &OsStr) {
        self.variables.insert(name.into(), value.into());
    }

    /// The variable, unless it is unset or empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let value = self.variables.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value.as_os_str())
    }

    /// The variable as text; invalid UTF-8 is replaced.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)
            .map(|value| value.to_string_lossy().into_owned())
    }

    /// All variables that are valid UTF-8.
    pub fn texts(&self) -> impl Iterator<Item = (String, String)> {
        let text = |value: &OsString| value.to_str().map(ToOwned::to_owned);
        self.variables
            .iter()
            .filter_map(move |(name, value)| Some((text(name)?, text(value)?)))
    }

    /// The working directory, unless it no longer exists.
    pub fn working_folder(&self) -> Option<&Path> {
        self.working_folder.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::Environment;

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let environment = Environment::from_pairs("/", &[("A", ""), ("B", "b")]);
        assert_eq!(environment.get("A"), None);
        assert_eq!(environment.text("B").as_deref(), Some("b"));
        assert_eq!(environment.text("C"), None);
    }
}
