//! The history of a sandbox: captured changes, recorded as entries of its changeset.

use std::collections::BTreeMap;
use std::time::Instant;

use cleveragents_domain::{
    ChangeEntry, CheckpointNumber, CheckpointReason, EntryNumber, LeaseSubject, LeaseToken,
    NewChange, Operation, ToolInvocationId, TreePath,
};
use cleveragents_sandbox::apply::net_changes;
use cleveragents_sandbox::{Capture, Change, Member, patch};
use cleveragents_store::{UnitOfWork, changesets, leases, sandboxes};

use super::by_products;
use super::error::SandboxError;
use super::service::{OpenSandbox, SandboxService, SandboxView};
use crate::log_fields::milliseconds;

/// Changes of one part of a sandbox.
#[derive(Debug, Clone)]
pub struct MemberChanges {
    /// The part.
    pub member: Member,
    /// Net change of each path, without by-products.
    pub changes: Vec<Change>,
    /// Changed paths that are not applied: by-products, and paths that git ignores.
    pub by_products: Vec<TreePath>,
    /// New files among `changes` that a command created rather than a file tool.
    pub made_by_commands: Vec<TreePath>,
}

/// Changes of a sandbox since it was created.
#[derive(Debug)]
pub struct SandboxDiff {
    /// Changes of each part, including parts without changes.
    pub parts: Vec<MemberChanges>,
}

/// Recorded result of a capture.
#[derive(Debug, Default)]
pub struct CaptureReport {
    /// Each changed path with the alias of its part.
    pub changes: Vec<(String, Change)>,
    /// Devices, sockets and pipes, which are not captured.
    pub special: Vec<String>,
}

/// Tool that changes are attributed to.
#[derive(Debug, Clone, Copy)]
pub struct ChangeAuthor<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// The call of the tool.
    pub invocation: Option<ToolInvocationId>,
    /// Label of a checkpoint to create after the changes, in the same transaction.
    pub mark: Option<&'a str>,
}

impl<'a> From<&'a str> for ChangeAuthor<'a> {
    fn from(tool: &'a str) -> Self {
        Self {
            tool,
            invocation: None,
            mark: None,
        }
    }
}

/// Tool names of the history entries of a rollback and of a redo.
pub(super) const BY_ROLLBACK: &str = "sandbox/rollback";
pub(super) const BY_REDO: &str = "sandbox/redo";

pub(super) fn change_of(entry: &ChangeEntry) -> Option<Change> {
    Some(Change {
        path: entry.change.path().parse().ok()?,
        before: entry.change.operation().before(),
        after: entry.change.operation().after(),
    })
}

impl SandboxService {
    /// Entries of the history, starting at a position.
    pub(super) fn entries(
        &self,
        open: &OpenSandbox,
        from: u64,
    ) -> Result<Vec<ChangeEntry>, SandboxError> {
        self.entries_of(&open.view, from)
    }

    fn entries_of(&self, view: &SandboxView, from: u64) -> Result<Vec<ChangeEntry>, SandboxError> {
        Ok(self.engine.read(|reader| {
            changesets::entries(
                reader,
                view.sandbox.changeset,
                EntryNumber(from),
                u64::MAX >> 1,
            )
        })?)
    }

    /// Captures the changes in the sandbox since the last capture and records them.
    pub fn capture(
        &self,
        open: &mut OpenSandbox,
        by: Option<ChangeAuthor<'_>>,
    ) -> Result<CaptureReport, SandboxError> {
        let started = Instant::now();
        let (report, captures) = self.look(open)?;
        self.record(open, &report.changes, by)?;
        remember(open, captures)?;
        tracing::debug!(
            sandbox = %open.view.sandbox.id, changes = report.changes.len(), duration_ms = milliseconds(started),
            "sandbox captured"
        );
        Ok(report)
    }

    /// Like [`Self::capture`], but `author_of` returns the tool call that changed a path.
    pub(crate) fn capture_by<'a>(
        &self,
        open: &mut OpenSandbox,
        author_of: impl Fn(&str, &TreePath) -> Option<ChangeAuthor<'a>>,
    ) -> Result<(), SandboxError> {
        let (report, captures) = self.look(open)?;
        let mut by_call: BTreeMap<Option<ToolInvocationId>, (Option<ChangeAuthor<'a>>, Vec<_>)> =
            BTreeMap::new();
        for (alias, change) in report.changes {
            let by = author_of(&alias, &change.path);
            let call = by.and_then(|by| by.invocation);
            let (_, changes) = by_call.entry(call).or_insert_with(|| (by, Vec::new()));
            changes.push((alias, change));
        }
        for (by, changes) in by_call.values() {
            self.record(open, changes, *by)?;
        }
        remember(open, captures)
    }

    /// Captures the changes in the sandbox since the last capture, without recording them.
    pub(super) fn look(
        &self,
        open: &OpenSandbox,
    ) -> Result<(CaptureReport, Vec<Capture>), SandboxError> {
        let mut report = CaptureReport::default();
        let mut captures = Vec::new();
        let mut known_positions = Vec::with_capacity(open.view.members.len());
        for member in &open.view.members {
            known_positions.push(member.known_position()?);
        }
        let oldest = known_positions.iter().copied().min().unwrap_or(u64::MAX);
        let recent = if oldest < open.view.position {
            self.entries(open, oldest)?
        } else {
            Vec::new()
        };
        let stop = self.stop();
        for (member, known_position) in open.view.members.iter().zip(known_positions) {
            let unknown: Vec<Change> = recent
                .iter()
                .filter(|entry| {
                    entry.number.0 >= known_position && entry.change.resource() == member.alias
                })
                .filter_map(change_of)
                .collect();
            let capture = member.capture(&unknown, &stop)?;
            report.changes.extend(
                capture
                    .changes
                    .iter()
                    .map(|change| (member.alias.clone(), change.clone())),
            );
            report.special.extend(
                capture
                    .special
                    .iter()
                    .map(|path| format!("{}/{path}", member.alias)),
            );
            captures.push(capture);
        }
        Ok((report, captures))
    }

    /// Captures and records the changes of the given paths, by alias of the part. Reads only these paths, not the whole
    /// tree.
    pub fn capture_paths(
        &self,
        open: &mut OpenSandbox,
        paths: &[(&str, Vec<TreePath>)],
        by: Option<ChangeAuthor<'_>>,
    ) -> Result<CaptureReport, SandboxError> {
        let mut changes = Vec::new();
        for (alias, paths) in paths {
            let captured = self.look_at(open, alias, paths)?.into_iter();
            changes.extend(captured.map(|change| ((*alias).to_owned(), change)));
        }
        self.record(open, &changes, by)?;
        Ok(CaptureReport {
            changes,
            special: Vec::new(),
        })
    }

    /// Captures the changes of the given paths of one part since the last capture.
    fn look_at(
        &self,
        open: &OpenSandbox,
        alias: &str,
        paths: &[TreePath],
    ) -> Result<Vec<Change>, SandboxError> {
        let member = open
            .view
            .members
            .iter()
            .find(|member| member.alias == alias)
            .ok_or_else(|| SandboxError::PartNotFound {
                name: open.view.sandbox.name.clone(),
                part: alias.to_owned(),
            })?;
        let known = member.known_position()?;
        let recent: Vec<Change> = self
            .entries(open, known)?
            .iter()
            .filter(|entry| entry.change.resource() == alias)
            .filter_map(change_of)
            .collect();
        Ok(member.capture_paths(paths, &recent)?)
    }

    /// Appends changes to the history atomically.
    fn record(
        &self,
        open: &mut OpenSandbox,
        changes: &[(String, Change)],
        by: Option<ChangeAuthor<'_>>,
    ) -> Result<(), SandboxError> {
        if changes.is_empty() {
            return Ok(());
        }
        if let Some(label) = by.and_then(|by| by.mark) {
            let reason = CheckpointReason::BeforeExec;
            return self
                .add_checkpoint(open, changes, by, reason, Some(label))
                .map(drop);
        }
        self.write_with(open, changes, by, |_, _| Ok(()))
    }

    /// Appends changes to the history and runs `also` in the same unit of work. `also` receives the position after the
    /// changes.
    pub(super) fn write_with<T: Send + 'static>(
        &self,
        open: &mut OpenSandbox,
        changes: &[(String, Change)],
        by: Option<ChangeAuthor<'_>>,
        mut also: impl FnMut(&mut UnitOfWork<'_>, u64) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<T, SandboxError> {
        let entries = new_entries(changes, by)?;
        let (changeset, fence) = (open.view.sandbox.changeset, fencing_token(open));
        let position = open.view.position + entries.len() as u64;
        let result = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            for entry in &entries {
                changesets::record(unit, changeset, entry)?;
            }
            also(unit, position)
        })?;
        open.view.position = position;
        Ok(result)
    }

    /// Creates a checkpoint of the current state of the sandbox.
    pub fn checkpoint(
        &self,
        open: &mut OpenSandbox,
        reason: CheckpointReason,
        label: Option<&str>,
    ) -> Result<CheckpointNumber, SandboxError> {
        if reason == CheckpointReason::Manual {
            check_label(label)?;
        }
        let (report, captures) = self.look(open)?;
        let number = self.add_checkpoint(open, &report.changes, None, reason, label)?;
        remember(open, captures)?;
        Ok(number)
    }

    /// Creates a checkpoint of the recorded state, without scanning the files again.
    pub fn checkpoint_recorded(
        &self,
        open: &mut OpenSandbox,
        reason: CheckpointReason,
        label: Option<&str>,
    ) -> Result<CheckpointNumber, SandboxError> {
        self.add_checkpoint(open, &[], None, reason, label)
    }

    /// Records changes and creates a checkpoint after them.
    fn add_checkpoint(
        &self,
        open: &mut OpenSandbox,
        changes: &[(String, Change)],
        by: Option<ChangeAuthor<'_>>,
        reason: CheckpointReason,
        label: Option<&str>,
    ) -> Result<CheckpointNumber, SandboxError> {
        let (id, label) = (open.view.sandbox.id, label.map(str::to_owned));
        let checkpoint = self.write_with(open, changes, by, move |unit, position| {
            let label = label.as_deref();
            Ok(sandboxes::add_checkpoint(
                unit, id, reason, label, position, None,
            )?)
        })?;
        let number = checkpoint.number;
        // No other process can have added a checkpoint, because this process holds the lease.
        open.view.checkpoints.push(checkpoint);
        Ok(number)
    }

    /// Deletes checkpoints atomically. Fails if [`sandboxes::delete_checkpoint`] cannot delete one of them.
    pub fn delete_checkpoints(
        &self,
        open: &mut OpenSandbox,
        numbers: &[CheckpointNumber],
    ) -> Result<(), SandboxError> {
        let (id, name) = (open.view.sandbox.id, open.view.sandbox.name.clone());
        let numbers = numbers.to_vec();
        self.write_with(open, &[], None, move |unit, _| {
            for number in &numbers {
                if !sandboxes::delete_checkpoint(unit, id, *number)? {
                    return Err(SandboxError::CheckpointNotFound {
                        name: name.clone(),
                        checkpoint: number.to_string(),
                    });
                }
            }
            Ok(())
        })?;
        self.refresh_checkpoints(open)
    }

    pub(super) fn refresh_checkpoints(&self, open: &mut OpenSandbox) -> Result<(), SandboxError> {
        let id = open.view.sandbox.id;
        open.view.checkpoints = self
            .engine
            .read(|reader| sandboxes::checkpoints(reader, id))?;
        Ok(())
    }

    /// Captures the changes of the sandbox and returns the net changes since it was created.
    pub fn diff(&self, open: &mut OpenSandbox) -> Result<SandboxDiff, SandboxError> {
        self.diff_since(open, 0)
    }

    /// Like [`Self::diff`], but since a position of the history.
    pub(crate) fn diff_since(
        &self,
        open: &mut OpenSandbox,
        from: u64,
    ) -> Result<SandboxDiff, SandboxError> {
        self.capture(open, None)?;
        self.net(open, from)
    }

    /// Net changes since a position of the history.
    pub fn net(&self, open: &OpenSandbox, from: u64) -> Result<SandboxDiff, SandboxError> {
        self.recorded(&open.view, from)
    }

    /// Recorded net changes since a position of the history, without by-products. Needs no lease; changes that are not
    /// captured yet are missing.
    pub fn recorded(&self, view: &SandboxView, from: u64) -> Result<SandboxDiff, SandboxError> {
        let mut by_part: BTreeMap<String, Vec<ChangeEntry>> = BTreeMap::new();
        for entry in self.entries_of(view, 0)? {
            by_part
                .entry(entry.change.resource().to_owned())
                .or_default()
                .push(entry);
        }
        let mut parts = Vec::with_capacity(view.members.len());
        for member in &view.members {
            let entries = by_part.remove(&member.alias).unwrap_or_default();
            parts.push(by_products::split_changes(view, member, &entries, from)?);
        }
        Ok(SandboxDiff { parts })
    }

    /// Every path that differs from its state at a position, including by-products.
    pub(crate) fn all_net_changes_since(
        &self,
        open: &OpenSandbox,
        from: u64,
    ) -> Result<Vec<(String, Change)>, SandboxError> {
        let mut by_part: BTreeMap<String, Vec<Change>> = BTreeMap::new();
        for entry in self.entries(open, from)? {
            if let Some(change) = change_of(&entry) {
                by_part
                    .entry(entry.change.resource().to_owned())
                    .or_default()
                    .push(change);
            }
        }
        Ok(by_part
            .into_iter()
            .flat_map(|(alias, changes)| {
                let changes = net_changes(changes).into_iter();
                changes.map(move |change| (alias.clone(), change))
            })
            .collect())
    }

    /// The changes that restore each part to a position: for each path that changed since, its current state (`before`)
    /// and its state at the position (`after`), both from the history.
    pub(super) fn restoring_changes(
        &self,
        open: &OpenSandbox,
        position: u64,
    ) -> Result<BTreeMap<String, BTreeMap<TreePath, Change>>, SandboxError> {
        let mut reverse_changes: BTreeMap<String, BTreeMap<TreePath, Change>> = BTreeMap::new();
        for entry in self.entries(open, position)? {
            if let Some(change) = change_of(&entry) {
                reverse_changes
                    .entry(entry.change.resource().to_owned())
                    .or_default()
                    .entry(change.path.clone())
                    .and_modify(|reverse| reverse.before = change.after)
                    .or_insert(Change {
                        path: change.path,
                        before: change.after,
                        after: change.before,
                    });
            }
        }
        Ok(reverse_changes)
    }
}

impl SandboxDiff {
    /// Number of changed paths.
    pub fn path_count(&self) -> usize {
        self.parts.iter().map(|part| part.changes.len()).sum()
    }

    /// The changed paths. In a sandbox with several parts, paths are prefixed with the name of the part.
    pub fn paths(&self) -> Vec<String> {
        let is_only = self.parts.len() == 1;
        let parts = self.parts.iter();
        let paths = parts.flat_map(|part| {
            part.changes.iter().map(move |change| {
                if is_only {
                    change.path.to_string()
                } else {
                    format!("{}/{}", part.member.alias, change.path)
                }
            })
        });
        paths.collect()
    }

    /// The patch of one part. In a sandbox with several parts, paths are prefixed with the name of the part.
    pub fn patch(
        &self,
        part: &MemberChanges,
        temporary: &std::path::Path,
    ) -> Result<Vec<u8>, SandboxError> {
        let prefix = (self.parts.len() > 1).then_some(part.member.alias.as_str());
        Ok(patch(&part.member, &part.changes, prefix, temporary)?)
    }
}

/// Updates the manifests of the parts with captures that the history already contains.
pub(super) fn remember(open: &OpenSandbox, captures: Vec<Capture>) -> Result<(), SandboxError> {
    for (member, capture) in open.view.members.iter().zip(captures) {
        member.remember(capture, open.view.position)?;
    }
    Ok(())
}

/// Converts changes to history entries. Skips changes whose state is the same before and after.
fn new_entries(
    changes: &[(String, Change)],
    by: Option<ChangeAuthor<'_>>,
) -> Result<Vec<NewChange>, SandboxError> {
    let mut entries = Vec::with_capacity(changes.len());
    for (alias, change) in changes {
        let Some(operation) = Operation::between(change.before, change.after) else {
            continue;
        };
        let entry = NewChange::new(alias.as_str(), change.path.to_string(), operation)
            .map_err(|error| cleveragents_store::Error::stored("a change", error.to_string()))?;
        entries.push(match by {
            Some(by) => entry.by_tool(by.tool, by.invocation),
            None => entry,
        });
    }
    Ok(entries)
}

pub(super) fn fencing_token(open: &OpenSandbox) -> (LeaseSubject, LeaseToken) {
    (open.lease.subject().clone(), open.lease.token())
}

/// Maximum number of characters of a checkpoint label.
pub(super) const MAX_LABEL: usize = 120;

/// Validates a label of a user. A label must differ from a number, because a number identifies a checkpoint.
fn check_label(label: Option<&str>) -> Result<(), SandboxError> {
    let is_valid = |label: &str| {
        !label.trim().is_empty()
            && label.chars().count() <= MAX_LABEL
            && !label.contains(char::is_control)
            && !label.chars().all(|letter| letter.is_ascii_digit())
    };
    match label {
        Some(label) if !is_valid(label) => Err(SandboxError::Label(label.to_owned())),
        _ => Ok(()),
    }
}
