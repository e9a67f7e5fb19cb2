//! The sandbox of the tools of a session, a run or a single call.

use cleveragents_domain::{Code, Placeholder, hint, suggest};
use cleveragents_process::{Cancel, WhenMissing};

use super::AgentRuntime;
use crate::operation::OperationError;
use crate::sandbox::{SandboxError, Target};
use crate::tool::SandboxWorkspace;

impl AgentRuntime {
    /// Opens the named sandbox, or a sandbox of the resources of a project. `None` when neither is given.
    /// A missing project sandbox is created; `name_it` returns its name for the lowercase id of the
    /// project. `cancel` also stops captures of the files of the sandbox.
    pub fn workspace(
        &self,
        cancel: &Cancel,
        sandbox: Option<&str>,
        project: Option<&str>,
        name_it: impl FnOnce(&str) -> String,
    ) -> Result<Option<SandboxWorkspace>, OperationError> {
        let service = self.sandboxes().interrupted_by(cancel);
        let name = match (sandbox, project) {
            (Some(name), _) => name.to_owned(),
            (None, Some(project)) => {
                let (project, links) = self.projects().view(project)?;
                let name = name_it(&project.id.to_string().to_ascii_lowercase());
                let mut targets = Target::of_project(&self.resources(), &links)?;
                if targets.is_empty() {
                    let message = format!("the project `{}` links no resource", project.name);
                    return Err(
                        OperationError::new(Code::LocationNotFound, message).with_hint(hint!(
                            "link a resource: {}",
                            suggest::project_link_resource(
                                Placeholder("PROJECT"),
                                Placeholder("RESOURCE")
                            )
                        )),
                    );
                }
                Target::make_distinct(&mut targets);
                let exists = match service.find(&name) {
                    // The name of an applied or discarded sandbox can be used again.
                    Ok(found) => !found.sandbox.state.is_over(),
                    Err(SandboxError::NotFound(_)) => false,
                    Err(error) => return Err(error.into()),
                };
                if !exists {
                    service.create(&name, &format!("project {}", project.name), &targets)?;
                }
                name
            }
            (None, None) => return Ok(None),
        };
        let open = service.open(&name)?;
        Ok(Some(SandboxWorkspace::new(
            service,
            open,
            WhenMissing::Warn,
        )?))
    }
}
