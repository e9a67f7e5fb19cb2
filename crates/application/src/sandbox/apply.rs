//! Applies the changes of a sandbox to the real resources.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use cleveragents_domain::{LeaseSubject, SandboxState, TreePath, Ttl};
use cleveragents_sandbox::BranchUpdate;
use cleveragents_sandbox::apply::{ApplyOptions, ApplyPlan, MemberPreview, journal_place, plan};
use serde_json::{Value, json};

use super::error::SandboxError;
use super::service::{OpenSandbox, SandboxService, SandboxView};
use crate::lease::HeldLease;
use crate::log_fields::milliseconds;

/// Options of an apply.
#[derive(Debug, Clone, Default)]
pub struct ApplyRequest {
    /// Whether to commit or merge on the user's branch.
    pub landing: BranchUpdate,
    /// Name of a new branch that receives the commits, instead of the user's current branch and files.
    pub branch: Option<String>,
    /// Commit message; by default a message with the name of the sandbox.
    pub message: Option<String>,
    /// Whether to keep the files of the sandbox until the user discards it.
    pub keeps_files: bool,
}

/// Result of an apply or of its preview.
#[derive(Debug)]
pub struct ApplyResult {
    /// Changes of each part.
    pub parts: Vec<MemberPreview>,
}

impl SandboxService {
    fn plan_apply(
        &self,
        open: &mut OpenSandbox,
        request: &ApplyRequest,
        is_preview: bool,
    ) -> Result<(ApplyPlan, PathBuf), SandboxError> {
        let diff = self.diff(open)?;
        let folders = open.view.folders();
        let scratch = folders.state().join("apply");
        let files = |source: std::io::Error| cleveragents_sandbox::Error::Files {
            action: "making",
            path: scratch.clone(),
            source,
        };
        cleveragents_sandbox::remove_folder(&scratch).map_err(files)?;
        std::fs::create_dir_all(&scratch).map_err(files)?;
        let mut by_products: BTreeMap<String, Vec<TreePath>> = BTreeMap::new();
        let mut parts = Vec::with_capacity(diff.parts.len());
        for part in diff.parts {
            by_products.insert(part.member.alias.clone(), part.by_products);
            parts.push((part.member, part.changes));
        }
        let options = ApplyOptions {
            landing: request.landing,
            message: request.message.clone().unwrap_or_else(|| {
                format!(
                    "Apply sandbox {}\n\nSandbox: {}\n",
                    open.view.sandbox.name, open.view.sandbox.id
                )
            }),
            is_preview,
            new_branch: request.branch.clone(),
        };
        let planned = plan(
            &open.view.sandbox.id.to_string(),
            &parts,
            &options,
            &folders.objects(),
            &scratch,
            &self.servers(&open.view),
        );
        match planned {
            Ok(mut planned) => {
                for preview in &mut planned.previews {
                    let part_by_products = by_products.remove(&preview.alias).unwrap_or_default();
                    preview.left_out.extend(part_by_products);
                    preview.left_out.sort();
                    preview.left_out.dedup();
                }
                Ok((planned, scratch))
            }
            Err(error) => {
                let _ignored = cleveragents_sandbox::remove_folder(&scratch);
                Err(error.into())
            }
        }
    }

    /// Returns the changes that an apply would make, without changing the real resources.
    pub fn preview(
        &self,
        open: &mut OpenSandbox,
        request: &ApplyRequest,
    ) -> Result<ApplyResult, SandboxError> {
        let resources = self.lease_resources(open)?;
        let (planned, scratch) = self.plan_apply(open, request, true)?;
        drop(resources);
        let _ignored = cleveragents_sandbox::remove_folder(&scratch);
        Ok(ApplyResult {
            parts: planned.previews,
        })
    }

    /// Applies all changes atomically and ends the sandbox. If the apply fails, the real resources are
    /// unchanged.
    pub fn apply(
        &self,
        mut open: OpenSandbox,
        request: &ApplyRequest,
    ) -> Result<ApplyResult, SandboxError> {
        let started = Instant::now();
        let sandbox = open.view.sandbox.id;
        self.recover_unfinished(&open)?;
        let resources = self.lease_resources(&open)?;
        self.check_unfinished(&open)?;
        let (planned, scratch) = self.plan_apply(&mut open, request, false)?;
        let planned_report = report_of(&planned.previews, request.keeps_files);
        self.advance_under(
            &open,
            &resources,
            (SandboxState::Active, SandboxState::Applying),
            Some(planned_report),
        )?;
        let journal = journal_place(&open.view.folders().state());
        match planned.execute(&journal, &self.servers(&open.view)) {
            Ok(parts) => {
                let report = report_of(&parts, request.keeps_files);
                self.complete(&open, Some(&report))?;
                drop(resources);
                let files: usize = parts.iter().map(|part| part.files.len()).sum();
                let duration_ms = milliseconds(started);
                tracing::info!(%sandbox, parts = parts.len(), files, duration_ms, "sandbox applied");
                Ok(ApplyResult { parts })
            }
            Err(error @ cleveragents_sandbox::Error::Stuck(_)) => Err(error.into()),
            Err(error) => {
                tracing::warn!(%sandbox, %error, "sandbox not applied; nothing was changed");
                self.advance(&open, SandboxState::Applying, SandboxState::Active, None)?;
                let _ignored = cleveragents_sandbox::remove_folder(&scratch);
                Err(error.into())
            }
        }
    }

    /// Ends the sandbox after the last change is in place. Removes its files unless the request keeps them.
    pub(super) fn complete(
        &self,
        open: &OpenSandbox,
        report: Option<&Value>,
    ) -> Result<(), SandboxError> {
        let id = open.view.sandbox.id;
        let report = report.cloned();
        // The recovery of an interrupted apply reads the options from the stored report.
        let keeps_files = match &report {
            Some(report) => keeps_files(report),
            None => self
                .view(id)?
                .sandbox
                .result
                .and_then(|text| serde_json::from_str(&text).ok())
                .is_some_and(|report| keeps_files(&report)),
        };
        if !keeps_files {
            Self::remove_files(&open.view)?;
        }
        self.advance(open, SandboxState::Applying, SandboxState::Applied, report)
    }

    /// Other sandboxes with an unfinished apply to a resource of this sandbox.
    fn unfinished(&self, open: &OpenSandbox) -> Result<Vec<SandboxView>, SandboxError> {
        let is_shared = |other: &SandboxView| {
            other.sandbox.id != open.view.sandbox.id
                && other.sandbox.machine == open.view.sandbox.machine
                && other.sandbox.state == SandboxState::Applying
                && other.stored.iter().any(|theirs| {
                    let mut ours = open.view.stored.iter();
                    ours.any(|part| part.location == theirs.location)
                })
        };
        let mut all = self.list(false)?;
        all.retain(is_shared);
        Ok(all)
    }

    /// Completes or rolls back unfinished applies of dead processes to the same resources. Fails while such a process
    /// is alive or its lease has not expired.
    fn recover_unfinished(&self, open: &OpenSandbox) -> Result<(), SandboxError> {
        for view in self.unfinished(open)? {
            let lease = self.lease(view.sandbox.id)?;
            let mut other = OpenSandbox {
                view: self.view(view.sandbox.id)?,
                lease,
            };
            self.recover_one(&mut other)?;
        }
        Ok(())
    }

    /// Fails while the apply of another sandbox to the same resources is unfinished: a second apply would
    /// prevent its completion and its rollback.
    fn check_unfinished(&self, open: &OpenSandbox) -> Result<(), SandboxError> {
        match self.unfinished(open)?.into_iter().next() {
            Some(other) => Err(SandboxError::NotReady {
                name: other.sandbox.name,
                state: other.sandbox.state,
            }),
            None => Ok(()),
        }
    }

    /// Acquires the leases of the real resources, so that only one sandbox at a time is applied to a resource.
    pub(super) fn lease_resources(
        &self,
        open: &OpenSandbox,
    ) -> Result<Vec<HeldLease>, SandboxError> {
        let mut locations: Vec<String> = open
            .view
            .stored
            .iter()
            .map(|member| format!("{} {}", open.view.sandbox.machine, member.location))
            .collect();
        locations.sort();
        locations.dedup();
        locations
            .into_iter()
            .map(|place| {
                Ok(self
                    .leases()
                    .acquire(LeaseSubject::new("apply", place), Ttl::default())?)
            })
            .collect()
    }
}

fn report_of(previews: &[MemberPreview], keeps_files: bool) -> Value {
    let mut report = json!({"parts": previews});
    if keeps_files {
        report[KEEPS_FILES] = true.into();
    }
    report
}

/// Field of a report: whether the files of the sandbox are kept.
const KEEPS_FILES: &str = "keeps_files";

fn keeps_files(report: &Value) -> bool {
    report[KEEPS_FILES] == true
}
