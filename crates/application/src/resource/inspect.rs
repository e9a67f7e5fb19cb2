//! Inspects the current state of a resource and compares it with the registration.

use std::path::Path;

use cleveragents_domain::{Resource, Timestamp};

use super::arguments::{is_a, is_sqlite};
use super::error::ResourceError;
use super::git::{self, GitProblem, GitState, git_probe};
use super::service::ResourceService;

/// Kind of the object at a location.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    File,
    Folder,
    /// Another kind, such as a socket.
    Other,
    /// The location does not exist.
    Missing,
    /// The location cannot be inspected, for example because it is a URL.
    Unknown,
}

/// A resource and its current state.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Registered row.
    pub resource: Resource,
    /// Kind of the object at the location.
    pub presence: Presence,
    /// Size of a file in bytes.
    pub size: Option<u64>,
    /// Time of the last change of a file or folder.
    pub modified: Option<Timestamp>,
    /// State of a repository.
    pub git: Option<GitState>,
    /// Differences from the registration.
    pub warnings: Vec<String>,
}

impl ResourceService {
    /// Inspects a resource. A missing or changed location is a warning, not an error.
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
                .push(format!("its type {name} no longer exists"));
            return Ok(inspection);
        };
        let path = inspection.resource.location.clone().unwrap_or_default();
        let path = Path::new(&path);
        if !path.is_absolute() {
            return Ok(inspection);
        }
        let Ok(metadata) = std::fs::metadata(path) else {
            inspection.presence = Presence::Missing;
            inspection
                .warnings
                .push(format!("{} does not exist", path.display()));
            return Ok(inspection);
        };
        inspection.presence = if metadata.is_file() {
            Presence::File
        } else if metadata.is_dir() {
            Presence::Folder
        } else {
            Presence::Other
        };
        inspection.size = metadata.is_file().then_some(metadata.len());
        inspection.modified = metadata.modified().ok().and_then(|time| {
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
                    .push(format!("it is no longer a git repository: {reason}")),
                Err(GitProblem::Unavailable(reason)) => return Err(ResourceError::Git(reason)),
            }
        }
        if is_a(&kind, "sqlite") && !is_sqlite(path) {
            inspection
                .warnings
                .push("it is no longer an SQLite database".to_owned());
        }
        Ok(inspection)
    }
}
