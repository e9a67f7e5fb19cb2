//! Resolves keys: the strongest level that sets a key wins, and every level says what it holds.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::document::{Loaded, Owner};
use super::environment::Environment;
use super::error::Error;
use super::home::Home;
use super::key::{self, Fallback, KEYS, Key};
use super::project::project_file;
use super::settings::Settings;
use super::value::Value;

/// Who can set a key, from the strongest to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A flag of the command line.
    Flag,
    /// An environment variable.
    Environment,
    /// The file of the project.
    Project,
    /// The file in the home folder.
    Global,
    /// Nobody; built in.
    Default,
}

impl Level {
    /// The level as printed.
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

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Where exactly a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A flag, such as `--format`.
    Flag(&'static str),
    /// An environment variable, by name.
    Variable(&'static str),
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
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

/// What one level says about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The level.
    pub level: Level,
    /// The value it sets, if it sets one.
    pub value: Option<Value>,
    /// Where exactly, if it sets one.
    pub source: Option<Source>,
}

/// A key with its value and where that comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The key.
    pub key: &'static Key,
    /// The value; nothing when the program decides by the circumstances.
    pub value: Option<Value>,
    /// The level that won.
    pub level: Level,
    /// Where exactly.
    pub source: Source,
    /// Every level from the strongest to the weakest, with what it says.
    pub chain: Vec<Step>,
}

impl Resolved {
    /// What programs read: `key`, `value`, `level`, `source`, and `chain` with the last three of
    /// each level. Passwords are hidden.
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

/// Values given as flags of the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags(Vec<(&'static str, Source, Value)>);

impl Flags {
    /// No flags.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds the value of a flag, when it was given.
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

/// Everything that sets keys, read and checked.
#[derive(Debug, Clone)]
pub struct Configuration {
    flags: Flags,
    environment: Environment,
    project: Option<Loaded>,
    global: Loaded,
    home: Home,
}

impl Configuration {
    /// Reads the files. An unknown key, an illegal value or a key that does not belong in a file
    /// is refused here, whether or not it would win.
    pub fn load(environment: &Environment, home: &Home, flags: Flags) -> Result<Self, Error> {
        let project = project_file(environment, home)
            .map(|path| Loaded::read(&path, Owner::Project))
            .transpose()?;
        Ok(Self {
            flags,
            environment: environment.clone(),
            project,
            global: Loaded::read(&home.config_file(), Owner::Person)?,
            home: home.clone(),
        })
    }

    /// The project's file, if the working folder is in a project that has one.
    pub fn project_file(&self) -> Option<&Path> {
        self.project.as_ref().map(|project| project.path.as_path())
    }

    /// The value of a key by name, with its provenance.
    pub fn resolve(&self, name: &str) -> Result<Resolved, Error> {
        self.resolve_key(key::find(name)?)
    }

    /// Every key with its value, in the order of the registry.
    pub fn all(&self) -> Result<Vec<Resolved>, Error> {
        KEYS.into_iter().map(|key| self.resolve_key(key)).collect()
    }

    /// The values the commands need, in their types.
    pub fn settings(&self) -> Result<Settings, Error> {
        Settings::new(self)
    }

    /// The value of a key, with its provenance.
    pub fn resolve_key(&self, key: &'static Key) -> Result<Resolved, Error> {
        let found = [
            (Level::Flag, self.flags.get(key.name)),
            (Level::Environment, self.variable(key)?),
            (
                Level::Project,
                self.project.as_ref().and_then(|file| file.get(key.name)),
            ),
            (Level::Global, self.global.get(key.name)),
            (
                Level::Default,
                self.default(key).map(|value| (value, Source::BuiltIn)),
            ),
        ];
        let chain: Vec<Step> = found
            .into_iter()
            .map(|(level, found)| {
                let (value, source) = found.unzip();
                Step {
                    level,
                    value,
                    source,
                }
            })
            .collect();
        let winner = chain.iter().find(|step| step.value.is_some());
        Ok(Resolved {
            key,
            value: winner.and_then(|step| step.value.clone()),
            level: winner.map_or(Level::Default, |step| step.level),
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
