//! Resolves keys: the level with the highest precedence that sets a key wins. The result also lists
//! the values of the other levels.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::document::{LoadedFile, Owner};
use super::environment::Environment;
use super::error::Error;
use super::home::Home;
use super::key::{self, Fallback, KEYS, Key};
use super::project::project_file;
use super::settings::Settings;
use super::value::Value;

/// Levels that can set a key, highest precedence first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigLevel {
    /// A command-line flag.
    Flag,
    /// An environment variable.
    Environment,
    /// The file of the project.
    Project,
    /// The file in the home folder.
    Global,
    /// Built-in default.
    Default,
}

impl ConfigLevel {
    /// Printed name of the level.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Project => "project",
            Self::Global => "global",
            Self::Default => "default",
        }
    }
}

impl fmt::Display for ConfigLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Exact source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A flag, such as `--format`.
    Flag(&'static str),
    /// An environment variable, by name.
    Variable(&'static str),
    /// A line of a file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line, starting at 1.
        line: usize,
    },
    /// The program itself.
    BuiltIn,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) => formatter.write_str(name),
            Self::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Self::BuiltIn => formatter.write_str("built in"),
        }
    }
}

impl Serialize for Source {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Value of a key at one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub level: ConfigLevel,
    /// The value, if the level sets one.
    pub value: Option<Value>,
    /// Exact source of the value, if the level sets one.
    pub source: Option<Source>,
}

/// A key with its value and source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedKey {
    pub key: &'static Key,
    /// The value; `None` when the program decides at run time.
    pub value: Option<Value>,
    /// The level that sets the value; `Default` if no level does.
    pub level: ConfigLevel,
    /// Exact source of the value.
    pub source: Source,
    /// The values of all levels, highest precedence first.
    pub chain: Vec<Step>,
}

impl ResolvedKey {
    /// The JSON form: `key`, `value`, `level`, `source`, and `chain` with `level`, `value` and
    /// `source` of each level. Passwords are hidden.
    pub fn to_json(&self) -> serde_json::Value {
        let value = |value: Option<&Value>| value.map(|value| self.key.to_json(value));
        let step = |step: &Step| {
            json!({
                "level": step.level,
                "value": value(step.value.as_ref()),
                "source": step.source,
            })
        };
        json!({
            "key": self.key.name,
            "value": value(self.value.as_ref()),
            "level": self.level,
            "source": self.source,
            "chain": self.chain.iter().map(step).collect::<Vec<_>>(),
        })
    }
}

/// Values given as command-line flags.
#[derive(Debug, Clone, Default)]
pub struct Flags(Vec<(&'static str, Source, Value)>);

impl Flags {
    /// No flags.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds the value of a flag, if it was given.
    pub fn with(
        mut self,
        key: &'static Key,
        flag: &'static str,
        text: Option<&str>,
    ) -> Result<Self, Error> {
        if let Some(text) = text {
            let source = Source::Flag(flag);
            self.0.push((
                key.name,
                source.clone(),
                key.parse_from(text, Some(source))?,
            ));
        }
        Ok(self)
    }

    fn get(&self, key: &str) -> Option<(Value, Source)> {
        let (_, source, value) = self.0.iter().rev().find(|(name, ..)| *name == key)?;
        Some((value.clone(), source.clone()))
    }
}

/// All sources of values, read and validated.
#[derive(Debug, Clone)]
pub struct Configuration {
    flags: Flags,
    environment: Environment,
    project: Option<LoadedFile>,
    global: LoadedFile,
    home: Home,
}

impl Configuration {
    /// Reads the configuration files. Rejects unknown keys, invalid values, and keys that a file must not set, even if
    /// a level with higher precedence overrides them.
    pub fn load(environment: &Environment, home: &Home, flags: Flags) -> Result<Self, Error> {
        let project = project_file(environment, home)
            .map(|path| LoadedFile::read(&path, Owner::Project))
            .transpose()?;
        Ok(Self {
            flags,
            environment: environment.clone(),
            project,
            global: LoadedFile::read(&home.config_file(), Owner::User)?,
            home: home.clone(),
        })
    }

    /// The project's file, if the working directory is in a project that has one.
    pub fn project_file(&self) -> Option<&Path> {
        self.project.as_ref().map(|project| project.path.as_path())
    }

    /// The value of a key by name, with its provenance.
    pub fn resolve(&self, name: &str) -> Result<ResolvedKey, Error> {
        self.resolve_key(key::find(name)?)
    }

    /// Every key with its value, in the order of the registry.
    pub fn all(&self) -> Result<Vec<ResolvedKey>, Error> {
        KEYS.into_iter().map(|key| self.resolve_key(key)).collect()
    }

    /// The settings that commands need, in their types.
    pub fn settings(&self) -> Result<Settings, Error> {
        Settings::new(self)
    }

    /// The value of a key, with its provenance.
    pub fn resolve_key(&self, key: &'static Key) -> Result<ResolvedKey, Error> {
        let candidates = [
            (ConfigLevel::Flag, self.flags.get(key.name)),
            (ConfigLevel::Environment, self.variable(key)?),
            (
                ConfigLevel::Project,
                self.project.as_ref().and_then(|file| file.get(key.name)),
            ),
            (ConfigLevel::Global, self.global.get(key.name)),
            (
                ConfigLevel::Default,
                self.default(key).map(|value| (value, Source::BuiltIn)),
            ),
        ];
        let chain: Vec<Step> = candidates
            .into_iter()
            .map(|(level, candidate)| {
                let (value, source) = candidate.unzip();
                Step {
                    level,
                    value,
                    source,
                }
            })
            .collect();
        let winner = chain.iter().find(|step| step.value.is_some());
        Ok(ResolvedKey {
            key,
            value: winner.and_then(|step| step.value.clone()),
            level: winner.map_or(ConfigLevel::Default, |step| step.level),
            source: winner
                .and_then(|step| step.source.clone())
                .unwrap_or(Source::BuiltIn),
            chain,
        })
    }

    fn variable(&self, key: &Key) -> Result<Option<(Value, Source)>, Error> {
        let Some(given) = self.environment.get(key.variable) else {
            return Ok(None);
        };
        let source = Source::Variable(key.variable);
        let Some(text) = given.to_str() else {
            return Err(Error::InvalidValue {
                key: key.name,
                value: given.to_string_lossy().into_owned(),
                allowed: "UTF-8 text".to_owned(),
                origin: Some(source),
            });
        };
        let value = key.parse_from(text, Some(source.clone()))?;
        Ok(Some((value, source)))
    }

    fn default(&self, key: &Key) -> Option<Value> {
        match key.default {
            Fallback::Automatic => None,
            Fallback::DatabaseFile => Some(Value::Text(self.home.database_url())),
            Fallback::Text(text) => Some(Value::Text(text.to_owned())),
            Fallback::Integer(number) => Some(Value::Integer(number)),
        }
    }
}

#[cfg(test)]
mod tests;
