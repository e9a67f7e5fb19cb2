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
    /// Commit or merge on the user's branch.
    pub landing: BranchUpdate,
    /// Commit message; by default one that names the sandbox.
    pub message: Option<String>,
    /// Whether the copies stay until a user discards them.
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
                    let more = by_products.remove(&preview.alias).unwrap_or_default();
                    preview.left_out.extend(more);
                    preview.left_out.sort();
                    preview.left_out.dedup();
                }
                Ok((planned, scratch))
            }
            Err(error) => {
                let _gone = cleveragents_sandbox::remove_folder(&scratch);
                Err(error.into())
            }
        }
    }

    /// Changes that an apply would make: plans a real apply and discards the plan.
    pub fn preview(
        &self,
        open: &mut OpenSandbox,
        request: &ApplyRequest,
    ) -> Result<ApplyResult, SandboxError> {
        let resources = self.lease_resources(open)?;
        let (planned, scratch) = self.plan_apply(open, request, true)?;
        drop(resources);
        let _gone = cleveragents_sandbox::remove_folder(&scratch);
        Ok(ApplyResult {
            parts: planned.previews,
        })
    }

    /// Applies everything and ends the sandbox, or changes nothing.
    pub fn apply(
        &self,
        mut open: OpenSandbox,
        request: &ApplyRequest,
    ) -> Result<ApplyResult, SandboxError> {
        let begun = Instant::now();
        let sandbox = open.view.sandbox.id;
        self.recover_unfinished(&open)?;
        let resources = self.lease_resources(&open)?;
        self.check_unfinished(&open)?;
        let (planned, scratch) = self.plan_apply(&mut open, request, false)?;
        let stored = report_of(&planned.previews, request.keeps_files);
        self.advance_under(
            &open,
            &resources,
            (SandboxState::Active, SandboxState::Applying),
            Some(stored),
        )?;
        let journal = journal_place(&open.view.folders().state());
        match planned.execute(&journal, &self.servers(&open.view)) {
            Ok(parts) => {
                let report = report_of(&parts, request.keeps_files);
                self.complete(&open, Some(&report))?;
                drop(resources);
                let files: usize = parts.iter().map(|part| part.files.len()).sum();
                let duration_ms = milliseconds(begun);
                tracing::info!(%sandbox, parts = parts.len(), files, duration_ms, "sandbox applied");
                Ok(ApplyResult { parts })
            }
            Err(error @ cleveragents_sandbox::Error::Stuck(_)) => Err(error.into()),
            Err(error) => {
                tracing::warn!(%sandbox, %error, "sandbox not applied; nothing was changed");
                self.advance(&open, SandboxState::Applying, SandboxState::Active, None)?;
                let _gone = cleveragents_sandbox::remove_folder(&scratch);
                Err(error.into())
            }
        }
    }

    /// Called after the last change is in place: removes the copies, unless they are to be kept, then ends the
    /// sandbox.
    pub(super) fn complete(
        &self,
        open: &OpenSandbox,
        report: Option<&Value>,
    ) -> Result<(), SandboxError> {
        let id = open.view.sandbox.id;
        let report = report.cloned();
        // A process that recovers an interrupted apply finds its options in the stored report.
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

    /// Other sandboxes with an unfinished apply to one of the same resources.
    fn unfinished(&self, open: &OpenSandbox) -> Result<Vec<SandboxView>, SandboxError> {
        let is_shared = |other: &SandboxView| {
            other.sandbox.id != open.view.sandbox.id
                && other.sandbox.machine == open.view.sandbox.machine
                && other.sandbox.state == SandboxState::Applying
                && other.stored.iter().any(|theirs| {
                    let mut ours = open.view.stored.iter();
                    ours.any(|ours| ours.location == theirs.location)
                })
        };
        let mut all = self.list(false)?;
        all.retain(is_shared);
        Ok(all)
    }

    /// Completes or rolls back applies to the same resources that killed processes left unfinished. While such
    /// a process is alive, or its lease has not expired, the resources are held.
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

    /// Refuses while the apply of another sandbox to the same resources is unfinished: it could then be
    /// neither completed nor rolled back.
    fn check_unfinished(&self, open: &OpenSandbox) -> Result<(), SandboxError> {
        match self.unfinished(open)?.into_iter().next() {
            Some(other) => Err(SandboxError::NotReady {
                name: other.sandbox.name,
                state: other.sandbox.state,
            }),
            None => Ok(()),
        }
    }

    /// Takes the leases of the real resources: two sandboxes of one resource are applied one after the other.
    pub(super) fn lease_resources(
        &self,
        open: &OpenSandbox,
    ) -> Result<Vec<HeldLease>, SandboxError> {
        let mut places: Vec<String> = open
            .view
            .stored
            .iter()
            .map(|member| format!("{} {}", open.view.sandbox.machine, member.location))
            .collect();
        places.sort();
        places.dedup();
        places
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

/// Field of a report: whether the copies stay.
const KEEPS_FILES: &str = "keeps_files";

fn keeps_files(report: &Value) -> bool {
    report[KEEPS_FILES] == true
}
