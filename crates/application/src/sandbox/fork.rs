//! Forks of sandboxes: a second sandbox that starts from the current state of the first, and the merge of its changes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use cleveragents_domain::{FileState, MergeStrategy, PlanId, SandboxId, SandboxName, TreePath};
use cleveragents_sandbox::{
    Base, Change, Folders, Member, MergeConflict, MergeTargets, Merger, Resolutions,
};
use cleveragents_store::sandboxes::{self, NewSandbox};
use cleveragents_store::{UnitOfWork, leases};

use super::error::SandboxError;
use super::history::fencing_token;
use super::service::{OpenSandbox, SandboxService, SandboxView, base_text, machine, path_text};
use crate::log_fields::milliseconds;

/// Tool name of the history entries of a merge.
const BY_MERGE: &str = "sandbox/merge";

/// A fork whose changes are merged, and the decisions about its conflicts by part.
#[derive(Debug)]
pub struct ForkToMerge<'a> {
    pub view: &'a SandboxView,
    pub resolutions: BTreeMap<String, Resolutions>,
}

/// A computed merge of forks. Nothing is written yet.
#[derive(Debug, Default)]
pub struct ComputedMerge {
    /// New states of paths by part.
    pub targets: BTreeMap<String, MergeTargets>,
    /// The changes by index of the fork, each with its part. Empty if the targets do not come from forks.
    pub by_fork: Vec<Vec<(String, Change)>>,
    /// Conflicts by index of the fork, with the part.
    pub conflicts: Vec<(usize, String, MergeConflict)>,
}

impl ComputedMerge {
    /// The positions that the changes of a fork will have in the history, if it has `position` entries now.
    pub fn range_of(&self, fork: usize, position: u64) -> Range<u64> {
        let count = |changes: &Vec<(String, Change)>| changes.len() as u64;
        let start = position + self.by_fork.iter().take(fork).map(count).sum::<u64>();
        start..start + self.by_fork.get(fork).map_or(0, count)
    }
}

impl SandboxService {
    /// Creates a sandbox for a child plan from the current state of a sandbox.
    pub fn fork(
        &self,
        open: &mut OpenSandbox,
        plan: PlanId,
        name: &str,
    ) -> Result<SandboxView, SandboxError> {
        let started = Instant::now();
        let name: SandboxName = name.parse()?;
        self.capture(open, None)?;
        let id = SandboxId::generate();
        let lease = self.lease(id)?;
        let folders = Folders {
            whole: self.home().join(id.to_string().to_ascii_lowercase()),
        };
        let new = NewSandbox {
            id,
            name: name.to_string(),
            machine: machine(),
            folder: path_text(&folders.whole),
            origin: format!("fork of {}", open.view.sandbox.name),
            plan: Some(plan),
            members: open.view.stored.clone(),
        };
        self.engine.write(move |unit| {
            if sandboxes::insert(unit, &new)? {
                Ok(())
            } else {
                Err(SandboxError::Exists(new.name.clone()))
            }
        })?;
        let mut fork = OpenSandbox {
            view: self.view(id)?,
            lease,
        };
        match self.fill_fork(open, &mut fork, &folders) {
            Ok(()) => {
                let duration_ms = milliseconds(started);
                let original = open.view.sandbox.id;
                tracing::info!(sandbox = %id, name = %name, %original, duration_ms, "sandbox forked");
                self.view(id)
            }
            Err(error) => {
                tracing::warn!(sandbox = %id, name = %name, %error, "sandbox not forked");
                self.abandon(fork);
                Err(error)
            }
        }
    }

    fn fill_fork(
        &self,
        open: &OpenSandbox,
        fork: &mut OpenSandbox,
        folders: &Folders,
    ) -> Result<(), SandboxError> {
        let id = fork.view.sandbox.id;
        folders.create()?;
        let mut changed: BTreeMap<String, BTreeMap<TreePath, FileState>> = BTreeMap::new();
        for (alias, change) in self.all_net_changes_since(open, 0)? {
            if let Some(state) = change.after {
                changed.entry(alias).or_default().insert(change.path, state);
            }
        }
        let none = BTreeMap::new();
        for original in &open.view.members {
            let of_member = changed.get(&original.alias).unwrap_or(&none);
            let member = folders.fork_member(&id.to_string(), original, of_member)?;
            let alias = member.alias.clone();
            let (location, base) = (member_location(&member), base_text(&member.base));
            self.write(fork, move |unit| {
                sandboxes::set_location(unit, id, &alias, &location)?;
                Ok(sandboxes::set_base(unit, id, &alias, &base)?)
            })?;
        }
        self.activate(fork)?;
        fork.view = self.view(id)?;
        // Stores the content of the paths that differ from the base of the original.
        self.capture(fork, None)?;
        Ok(())
    }

    /// Merges the recorded changes of forks into a sandbox, in order, without writing anything.
    pub fn compute_merge(
        &self,
        open: &mut OpenSandbox,
        forks: &[ForkToMerge<'_>],
        strategy: MergeStrategy,
    ) -> Result<ComputedMerge, SandboxError> {
        self.capture(open, None)?;
        let mut changes: Vec<BTreeMap<String, Vec<Change>>> = Vec::with_capacity(forks.len());
        for fork in forks {
            let parts = self.recorded(fork.view, 0)?.parts.into_iter();
            changes.push(
                parts
                    .map(|part| (part.member.alias, part.changes))
                    .collect(),
            );
        }
        let mut merge = ComputedMerge {
            by_fork: vec![Vec::new(); forks.len()],
            ..ComputedMerge::default()
        };
        let none = Resolutions::new();
        for member in &open.view.members {
            let mut merger = Merger::new(member, strategy)?;
            for (number, fork) in forks.iter().enumerate() {
                let Some(of_part) = changes[number].get(&member.alias) else {
                    continue;
                };
                let Some(copy) = fork
                    .view
                    .members
                    .iter()
                    .find(|copy| copy.alias == member.alias)
                else {
                    continue;
                };
                let resolutions = fork.resolutions.get(&member.alias).unwrap_or(&none);
                let alias = || member.alias.clone();
                let effect = merger.add(copy, of_part, resolutions)?;
                let changes = effect.changes.into_iter();
                merge.by_fork[number].extend(changes.map(|change| (alias(), change)));
                let conflicts = effect.conflicts.into_iter();
                merge
                    .conflicts
                    .extend(conflicts.map(|conflict| (number, alias(), conflict)));
            }
            merge.targets.insert(member.alias.clone(), merger.finish()?);
        }
        Ok(merge)
    }

    /// Writes a computed merge. `also` runs in the unit of work that records the changes. If the process dies before,
    /// the next one that opens the sandbox undoes the written files.
    pub fn write_merge<T: Send + 'static>(
        &self,
        open: &mut OpenSandbox,
        merge: &ComputedMerge,
        mut also: impl FnMut(&mut UnitOfWork<'_>) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<(Vec<(String, Change)>, T), SandboxError> {
        let id = open.view.sandbox.id;
        let none = MergeTargets::new();
        let targets = |alias: &str| merge.targets.get(alias).unwrap_or(&none);
        for member in &open.view.members {
            member.check_restore(targets(&member.alias))?;
        }
        let (position, fence) = (open.view.position, fencing_token(open));
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            Ok::<_, SandboxError>(sandboxes::set_rolling_back(unit, id, Some(position))?)
        })?;
        let mut changes = Vec::new();
        for member in &open.view.members {
            let written = member.restore(targets(&member.alias))?.into_iter();
            changes.extend(written.map(|change| (member.alias.clone(), change)));
        }
        // The history shows which fork caused which change, even if several forks changed a path.
        let recorded = match merge.by_fork.as_slice() {
            [] => changes.clone(),
            by_fork => by_fork.concat(),
        };
        let result = self.write_with(open, &recorded, Some(BY_MERGE.into()), move |unit, _| {
            sandboxes::set_rolling_back(unit, id, None)?;
            also(unit)
        })?;
        for member in &open.view.members {
            let of_member = changes.iter().filter(|(alias, _)| *alias == member.alias);
            let of_member: Vec<Change> = of_member.map(|(_, change)| change.clone()).collect();
            member.remember_restored(&of_member, open.view.position)?;
        }
        Ok((changes, result))
    }
}

/// Location of a member as text. The address of a server is already text.
fn member_location(member: &Member) -> String {
    match member.base {
        Base::Postgres => member.location.display().to_string(),
        _ => path_text(&member.location),
    }
}
