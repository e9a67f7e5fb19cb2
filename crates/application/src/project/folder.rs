//! `project/of-folder`: the project of a folder, created with its resource when there is none.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::path::{Path, PathBuf};

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{Code, ProjectRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::service::{LinkRequest, NewProject};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};

/// Finds the project that links a folder and nothing else, or creates it. Only local callers may name folders.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectOfFolder {
    /// Relative paths start in the working folder of the process.
    pub folder: PathBuf,
    /// Use the git repository that contains the folder, if any.
    #[serde(default)]
    pub whole_repository: bool,
}

/// The response of `project/of-folder`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FolderProject {
    pub name: String,
    /// The absolute path of the folder.
    pub folder: PathBuf,
    /// Whether this request created the project.
    pub created: bool,
}

impl Operation for ProjectOfFolder {
    const NAME: &'static str = "project/of-folder";
    const SUMMARY: &'static str = "Find or create the project of a folder";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Registry, Permission::Manage);
    type Response = FolderProject;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("folder")
    }

    fn run(self, context: &OperationContext) -> Result<FolderProject, OperationError> {
        let folder = canonical_folder(&context.settings().process.working_folder, &self.folder)?;
        let folder = match repository_of(&folder) {
            Some(repository) if self.whole_repository => repository,
            _ => folder,
        };
        // This check must precede all writes.
        context.sandboxes().check_folder(&folder)?;
        let resource = context.resources().ensure_path(&folder)?;
        let projects = context.projects();
        let links_only_folder = |project: &cleveragents_domain::Project| {
            project.links.len() == 1
                && project
                    .links
                    .iter()
                    .all(|link| link.resource == resource.id)
        };
        if let Some(known) = projects.list()?.into_iter().find(links_only_folder) {
            return Ok(FolderProject {
                name: known.name.to_string(),
                folder,
                created: false,
            });
        }
        let created = projects.create(NewProject {
            name: format!("local/{}", resource.name.last_segment()),
            rules: ProjectRules {
                description: Some(format!("created for {}", folder.display())),
                ..ProjectRules::default()
            },
            links: vec![LinkRequest {
                resource: resource.id.to_string(),
                alias: None,
                read_only: false,
            }],
        })?;
        Ok(FolderProject {
            name: created.name.to_string(),
            folder,
            created: true,
        })
    }
}

/// The folder of the git repository that contains a folder.
fn repository_of(folder: &Path) -> Option<PathBuf> {
    let mut folders = folder.ancestors();
    let found = folders.find(|folder| folder.join(".git").exists());
    found.map(Path::to_owned)
}

fn canonical_folder(base: &Path, folder: &Path) -> Result<PathBuf, OperationError> {
    base.join(folder).canonicalize().map_err(|error| {
        let message = format!("`{}` cannot be used as a project", folder.display());
        OperationError::new(Code::LocationNotFound, message)
            .caused_by(error)
            .with_hint("name an existing folder")
    })
}
