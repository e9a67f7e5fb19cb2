//! [`ChangeRequestService`]: pushes the branch of an applied plan and opens a change request (pull request, merge
//! request) at the hosting service of the repository.
//!
//! Works with the user's git configuration and credentials, on the machine of the repository. All steps can be
//! repeated: a pushed branch is not pushed again, and an open change request is looked up.

mod body;
mod error;
mod forge;
mod programs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::{Plan, PlanId, PlanStage, ValidationResult};
use cleveragents_models::Variables;
use cleveragents_process::Cancel;
use cleveragents_sandbox::{Base, Member};
use cleveragents_store::{Engine, plans};
use serde::Serialize;
use serde_json::Value;

use crate::forge::Remote;
use crate::plan::{PlanQueries, PlanQueryError};
use crate::sandbox::SandboxService;
use crate::scheduler::APPLICABLE_STAGES;
use body::PlanRecords;
pub use error::ChangeRequestError;
use forge::{ChangeRequest, OpenedRequest, command_line};
use programs::Programs;

/// The git remote that branches are pushed to.
const REMOTE: &str = "origin";

/// Field of the report of a plan with the addresses of its change requests.
const REPORT_FIELD: &str = "change_request";

/// Maximum number that is appended to a default branch name that is taken, as in `agents/fix-parser-9`.
const MAX_NUMBER: u32 = 99;

/// The plan and branch of a change request.
#[derive(Debug, Clone)]
pub struct ChangeRequestTarget {
    pub plan: Plan,
    /// The branch on which the plan was applied, or is to be applied.
    pub branch: String,
    pub is_applied: bool,
}

/// A branch that was pushed.
#[derive(Debug, Clone, Serialize)]
pub struct PublishedBranch {
    /// The folder of the repository.
    pub repository: String,
    pub branch: String,
    /// The branch into which the changes are to be merged; `None` if the remote has no branch.
    pub base: Option<String>,
    pub commit: String,
    /// False if the remote already had the commit.
    pub is_pushed: bool,
    /// The address of the change request.
    pub url: Option<String>,
    /// False if the change request was open before.
    pub is_created: bool,
    /// The reason why there is no change request.
    pub problem: Option<String>,
    /// The page on which the user can create the change request.
    pub page: Option<String>,
    /// The commands that ran.
    pub commands: Vec<String>,
}

/// Publishes the branches of applied plans.
pub struct ChangeRequestService {
    engine: Arc<Engine>,
    queries: PlanQueries,
    variables: Variables,
    cancel: Cancel,
}

impl ChangeRequestService {
    /// A service for the plans of a database. `variables` looks up environment variables of the user; `folder` is the
    /// folder of the caller.
    pub fn new(
        engine: Arc<Engine>,
        sandboxes: SandboxService,
        variables: Variables,
        folder: &Path,
    ) -> Self {
        Self {
            queries: PlanQueries::new(Arc::clone(&engine), sandboxes).in_folder(folder),
            engine,
            variables,
            cancel: Cancel::new(),
        }
    }

    /// Sets the value that cancels the running programs.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    fn programs<'a>(&'a self, folder: &'a Path) -> Programs<'a> {
        Programs {
            folder,
            variables: &self.variables,
            cancel: &self.cancel,
        }
    }

    /// Finds the plan and its branch. Without a reference, the plan of the folder that can be applied, else the current
    /// plan if it was applied on a branch. Without a branch, chooses a free name from the task.
    pub fn target(
        &self,
        reference: Option<&str>,
        branch: Option<&str>,
    ) -> Result<ChangeRequestTarget, ChangeRequestError> {
        let plan = match reference {
            Some(reference) => self.queries.resolve(reference)?,
            None => match self.queries.only(&APPLICABLE_STAGES, "to be applied") {
                Err(error @ PlanQueryError::NoPlan { .. }) => {
                    let current = self.queries.current()?;
                    let current = current.filter(|plan| applied_branch(plan).is_some());
                    current.ok_or(error)?
                }
                other => other?,
            },
        };
        if plan.stage == PlanStage::ApplyApplied {
            let applied = applied_branch(&plan).ok_or(ChangeRequestError::NotOnBranch(plan.id))?;
            if branch.is_some_and(|branch| branch != applied) {
                return Err(ChangeRequestError::OtherBranch {
                    plan: plan.id,
                    branch: applied,
                });
            }
            return Ok(ChangeRequestTarget {
                plan,
                branch: applied,
                is_applied: true,
            });
        }
        let members = self.repositories(&plan)?;
        let mut places = Vec::new();
        for member in &members {
            if self.has_remote(&member.location)? {
                places.push(member.location.clone());
            }
        }
        if let (true, Some(member)) = (places.is_empty(), members.first()) {
            return Err(ChangeRequestError::NoRemote(member.location.clone()));
        }
        let branch = match branch {
            Some(branch) => branch.to_owned(),
            // An interrupted apply keeps its branch.
            None => match stored_branch(&plan) {
                Some(branch) => branch,
                None => self.free_branch(&body::default_branch(&plan), &places)?,
            },
        };
        Ok(ChangeRequestTarget {
            plan,
            branch,
            is_applied: false,
        })
    }

    /// Whether a plan was applied on a branch.
    pub fn is_applied(&self, plan: PlanId) -> Result<bool, ChangeRequestError> {
        Ok(applied_branch(&self.queries.get(plan)?).is_some())
    }

    /// The git repositories of a plan.
    fn repositories(&self, plan: &Plan) -> Result<Vec<Member>, ChangeRequestError> {
        let sandbox = self.queries.sandbox(plan)?;
        let members = sandbox.map(|view| view.members).unwrap_or_default();
        let is_repository = |member: &Member| matches!(member.base, Base::Git(_));
        Ok(members.into_iter().filter(is_repository).collect())
    }

    fn has_remote(&self, repository: &Path) -> Result<bool, ChangeRequestError> {
        Ok(self.remote_url(repository)?.is_some())
    }

    fn remote_url(&self, repository: &Path) -> Result<Option<String>, ChangeRequestError> {
        let programs = self.programs(repository);
        programs.git_line(&["remote", "get-url", "--push", REMOTE])
    }

    /// Returns `wanted`, or the first free `wanted-N` if it is taken. If all numbers are taken, returns `wanted`.
    fn free_branch(&self, wanted: &str, places: &[PathBuf]) -> Result<String, ChangeRequestError> {
        for number in 1..=MAX_NUMBER {
            let name = match number {
                1 => wanted.to_owned(),
                number => format!("{wanted}-{number}"),
            };
            let reference = format!("refs/heads/{name}");
            let mut is_free = true;
            for place in places {
                let verify = ["rev-parse", "--verify", "--quiet", &reference];
                is_free &= self.programs(place).git_line(&verify)?.is_none();
            }
            if is_free {
                return Ok(name);
            }
        }
        Ok(wanted.to_owned())
    }

    /// Pushes the branches of an applied plan and opens their change requests. Passes each command to `on_command`
    /// before it runs.
    pub fn publish(
        &self,
        plan: PlanId,
        title: Option<&str>,
        on_command: &dyn Fn(&str),
    ) -> Result<Vec<PublishedBranch>, ChangeRequestError> {
        let plan = self.queries.get(plan)?;
        let branch = applied_branch(&plan).ok_or(ChangeRequestError::NotOnBranch(plan.id))?;
        let mut results: Vec<ValidationResult> = Vec::new();
        for stored in self.queries.validations(plan.id)? {
            results.retain(|known| known.validation != stored.result.validation);
            results.push(stored.result);
        }
        let text = body::text(&PlanRecords {
            plan: &plan,
            steps: &self.queries.steps(plan.id)?,
            results: &results,
            is_cost_known: self.queries.is_cost_known(plan.id)?,
        });
        let title = title.map_or_else(|| body::title(&plan), str::to_owned);
        let members = self.repositories(&plan)?;
        let mut published = Vec::new();
        for repository in branch_repositories(&plan) {
            let member = members.iter().find(|member| member.location == repository);
            let base = member.and_then(|member| match &member.base {
                Base::Git(base) => base.branch.clone(),
                _ => None,
            });
            let publication = Publication {
                programs: &self.programs(&repository),
                repository: &repository,
                branch: &branch,
                started_on: base.as_deref(),
                title: &title,
                text: &text,
            };
            published.push(publication.run(on_command)?);
        }
        self.store(&plan, &published)?;
        Ok(published)
    }

    /// Stores the addresses in the report of the plan.
    fn store(&self, plan: &Plan, published: &[PublishedBranch]) -> Result<(), ChangeRequestError> {
        let urls: Vec<&str> = published
            .iter()
            .filter_map(|branch| branch.url.as_deref())
            .collect();
        let value = Value::from(urls.join(", "));
        let report = plan.report.as_ref();
        if urls.is_empty() || report.is_some_and(|report| report[REPORT_FIELD] == value) {
            return Ok(());
        }
        let id = plan.id;
        self.engine.write(move |unit| {
            plans::extend_report(unit, id, REPORT_FIELD, value.clone())?;
            Ok::<(), ChangeRequestError>(())
        })
    }
}

/// The branch that the report of a plan names.
fn stored_branch(plan: &Plan) -> Option<String> {
    let report = plan.report.as_ref()?;
    report["branch"].as_str().map(str::to_owned)
}

/// The branch on which a plan was applied.
fn applied_branch(plan: &Plan) -> Option<String> {
    (plan.stage == PlanStage::ApplyApplied).then(|| stored_branch(plan))?
}

/// The repositories in which the apply of a plan created its branch.
fn branch_repositories(plan: &Plan) -> Vec<PathBuf> {
    let parts = plan.report.as_ref().map(|report| report["parts"].clone());
    let parts = parts.unwrap_or_default();
    let parts = parts.as_array().into_iter().flatten();
    parts
        .filter(|part| part["commit"]["is_new_branch"] == true)
        .filter_map(|part| part["location"].as_str().map(PathBuf::from))
        .collect()
}

/// The publication of one branch.
struct Publication<'a> {
    programs: &'a Programs<'a>,
    repository: &'a Path,
    branch: &'a str,
    /// The user's branch when the sandbox was created.
    started_on: Option<&'a str>,
    title: &'a str,
    text: &'a str,
}

impl Publication<'_> {
    fn run(&self, on_command: &dyn Fn(&str)) -> Result<PublishedBranch, ChangeRequestError> {
        let reference = format!("refs/heads/{}", self.branch);
        let verify = ["rev-parse", "--verify", "--quiet", &reference];
        let commit = self.programs.git_line(&verify)?;
        let commit = commit.ok_or_else(|| ChangeRequestError::BranchGone {
            repository: self.repository.to_owned(),
            branch: self.branch.to_owned(),
        })?;
        let get_url = ["remote", "get-url", "--push", REMOTE];
        let url = self.programs.git_line(&get_url)?;
        let url = url.ok_or_else(|| ChangeRequestError::NoRemote(self.repository.to_owned()))?;
        let mut commands = Vec::new();
        let mut announce = |command: String| {
            on_command(&command);
            commands.push(command);
        };
        let is_pushed = self.remote_commit(&reference, &url)?.as_ref() != Some(&commit);
        if is_pushed {
            let refspec = format!("{reference}:{reference}");
            let push = ["push", "--porcelain", REMOTE, &refspec];
            announce(command_line("git", &push));
            let pushed = self.programs.run("git", &push, "")?;
            if !pushed.is_success {
                return Err(ChangeRequestError::Push {
                    repository: self.repository.to_owned(),
                    branch: self.branch.to_owned(),
                    reason: without_password(&pushed.reason(), &url),
                });
            }
        }
        // The address that the user configured names the service, even if git replaces it (`insteadOf`).
        let configured = self
            .programs
            .git_line(&["config", "--get", "remote.origin.url"])?;
        let remote = Remote::parse(&url).or_else(|| Remote::parse(&configured?));
        let base = self.base(&url)?;
        let (opened, page) = match (&remote, &base) {
            (Some(remote), Some(base)) => {
                let forge = remote.forge(&**self.programs.variables);
                let request = ChangeRequest {
                    remote,
                    forge,
                    branch: self.branch,
                    base,
                    title: self.title,
                    text: self.text,
                };
                let page = remote.page(forge, base, self.branch);
                (request.open(self.programs, &mut announce)?, Some(page))
            }
            (None, _) => (
                OpenedRequest::Impossible(format!("`{REMOTE}` is not at a hosting service")),
                None,
            ),
            (_, None) => (
                OpenedRequest::Impossible(format!("`{REMOTE}` has no other branch")),
                None,
            ),
        };
        let (url, is_created, problem) = match opened {
            OpenedRequest::Existing(url) => (Some(url), false, None),
            OpenedRequest::Created(url) => (Some(url), true, None),
            OpenedRequest::Impossible(reason) => (None, false, Some(reason)),
        };
        Ok(PublishedBranch {
            repository: self.repository.display().to_string(),
            branch: self.branch.to_owned(),
            base,
            commit,
            is_pushed,
            page: page.filter(|_| url.is_none()),
            url,
            is_created,
            problem,
            commands,
        })
    }

    /// The commit of a reference at the remote.
    fn remote_commit(
        &self,
        reference: &str,
        url: &str,
    ) -> Result<Option<String>, ChangeRequestError> {
        let listed = self
            .programs
            .run("git", &["ls-remote", url, reference], "")?;
        if !listed.is_success {
            return Err(ChangeRequestError::Push {
                repository: self.repository.to_owned(),
                branch: self.branch.to_owned(),
                reason: without_password(&listed.reason(), url),
            });
        }
        let mut lines = listed.out.lines().filter_map(|line| line.split_once('\t'));
        let found = lines.find(|(_, name)| *name == reference);
        Ok(found.map(|(commit, _)| commit.to_owned()))
    }

    /// The branch on which the work started if the remote has it, else the default branch of the remote.
    fn base(&self, url: &str) -> Result<Option<String>, ChangeRequestError> {
        if let Some(started_on) = self.started_on
            && self.remote_commit(started_on, url)?.is_some()
        {
            let name = started_on.strip_prefix("refs/heads/");
            return Ok(Some(name.unwrap_or(started_on).to_owned()));
        }
        let head = self
            .programs
            .run("git", &["ls-remote", "--symref", url, "HEAD"], "")?;
        let mut lines = head.out.lines();
        let target = lines.find_map(|line| line.strip_prefix("ref: refs/heads/"));
        let name = target.and_then(|line| line.split('\t').next());
        Ok(name.filter(|name| *name != self.branch).map(str::to_owned))
    }
}

/// Removes the password of a URL from a text.
fn without_password(text: &str, url: &str) -> String {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) if !user.is_empty() => text.replace(&format!("{user}@"), ""),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn a_password_in_the_address_of_a_remote_is_not_shown() {
        let url = "https://ada:secret@git.example/ada/shop";
        let shown = without_password(&format!("cannot read '{url}'"), url);
        assert_eq!(shown, "cannot read 'https://git.example/ada/shop'");
        assert_eq!(without_password("text", "/srv/git/shop"), "text");
    }
}
