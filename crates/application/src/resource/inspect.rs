//! Looking at what is there now, beside what is registered.

use std::path::Path;

use cleveragents_domain::{Resource, Timestamp};

use super::arguments::{is_a, is_sqlite};
use super::error::ResourceError;
use super::git::{self, GitProblem, GitState, git_probe};
use super::service::ResourceService;

/// What is at a location.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// Something else, such as a socket.
    Other,
    /// Nothing.
    Missing,
    /// It cannot be looked at from here, such as an address.
    Unknown,
}

/// A resource and what is there now.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The resource.
    pub resource: Resource,
    /// What is at its location.
    pub presence: Presence,
    /// The bytes of a file.
    pub size: Option<u64>,
    /// When a file or folder last changed.
    pub modified: Option<Timestamp>,
    /// The state of a repository.
    pub git: Option<GitState>,
    /// What does not fit what is registered.
    pub warnings: Vec<String>,
}

impl ResourceService {
    /// Looks at a resource. Something that is missing or wrong is told, not an error.
    pub fn inspect(&self, reference: &str) -> Result<Inspection, ResourceError> {
        let details = self.show(reference)?;
        let mut inspection = Inspection {
            resource: details.resource,
            presence: Presence::Unknown,
            size: None,
            modified: None,
            git: None,
            warnings: Vec::new(),
        };
        let Some(kind) = details.inherited else {
            let name = &inspection.resource.type_name;
            inspection
                .warnings
                .push(format!("its type {name} does not exist any more"));
            return Ok(inspection);
        };
        let path = inspection.resource.location.clone().unwrap_or_default();
        let path = Path::new(&path);
        if !path.is_absolute() {
            return Ok(inspection);
        }
        let Ok(facts) = std::fs::metadata(path) else {
            inspection.presence = Presence::Missing;
            inspection
                .warnings
                .push(format!("there is nothing at {}", path.display()));
            return Ok(inspection);
        };
        inspection.presence = if facts.is_file() {
            Presence::File
        } else if facts.is_dir() {
            Presence::Folder
        } else {
            Presence::Other
        };
        inspection.size = facts.is_file().then_some(facts.len());
        inspection.modified = facts.modified().ok().and_then(|time| {
            let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
            i64::try_from(since.as_micros())
                .ok()
                .map(Timestamp::from_micros)
        });
        if is_a(&kind, "git-checkout") {
            match git_probe(path).and_then(|probe| git::state(path, &probe)) {
                Ok(state) => inspection.git = Some(state),
                Err(GitProblem::NotARepository(reason)) => inspection
                    .warnings
                    .push(format!("it is not a git repository any more: {reason}")),
                Err(GitProblem::Unavailable(reason)) => return Err(ResourceError::Git(reason)),
            }
        }
        if is_a(&kind, "sqlite") && !is_sqlite(path) {
            inspection
                .warnings
                .push("it is not an SQLite database any more".to_owned());
        }
        Ok(inspection)
    }
}
