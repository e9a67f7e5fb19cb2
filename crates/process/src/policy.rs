//! From a [`Policy`] to what the stages are told: folders resolved and checked, and how much
//! isolation to ask for on this machine.

use crate::error::ProcessError;
use crate::invocation::{Invocation, Isolation, Policy};
use crate::readable;
use crate::wire::{BINDING_FOLDER, Confinement, OPENING_FOLDER};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

/// What this machine was found not to allow, so that later commands need not try again.
static KNOWN: Mutex<Option<(Isolation, String)>> = Mutex::new(None);

/// The folder without links, when it is one.
pub(crate) fn resolve_folder(folder: &Path) -> Result<PathBuf, ProcessError> {
    let missing = |source| ProcessError::FolderMissing {
        folder: folder.to_path_buf(),
        source,
    };
    let real = fs::canonicalize(folder).map_err(missing)?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(missing(io::ErrorKind::NotADirectory.into()))
    }
}

/// Resolves the folders of a policy and checks that they make sense together.
pub(crate) fn resolve(
    invocation: &Invocation,
    policy: &Policy,
) -> Result<Confinement, ProcessError> {
    let wrong = |reason: String| ProcessError::InvalidPolicy {
        program: invocation.program.clone(),
        reason,
    };
    let writable: Vec<(&PathBuf, PathBuf)> = policy
        .writable
        .iter()
        .map(|folder| Ok((folder, resolve_folder(folder)?)))
        .collect::<Result<_, ProcessError>>()?;
    // What an earlier command could write may have become a link that leads out.
    for (inner, real_inner) in &writable {
        for (outer, real_outer) in &writable {
            if inner.starts_with(outer) && !real_inner.starts_with(real_outer) {
                let (inner, outer) = (inner.display(), outer.display());
                return Err(wrong(format!("`{inner}` leads out of `{outer}` by a link")));
            }
        }
    }
    if let Some((_, temporary)) = invocation
        .environment
        .iter()
        .find(|(name, _)| name == "TMPDIR")
    {
        let real = resolve_folder(Path::new(temporary))?;
        if !writable.iter().any(|(_, folder)| real.starts_with(folder)) {
            let temporary = temporary.display();
            return Err(wrong(format!(
                "TMPDIR `{temporary}` is not beneath a writable folder"
            )));
        }
    }
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (isolation, isolation_reason) = known
        .filter(|(isolation, _)| *isolation < policy.layers.isolation)
        .unwrap_or_else(|| (policy.layers.isolation, "switched off".to_owned()));
    let writable: Vec<PathBuf> = writable.into_iter().map(|(_, real)| real).collect();
    let view = readable::resolve(invocation, policy, &writable)?;
    Ok(Confinement {
        writable: writable.into_iter().map(PathBuf::into_os_string).collect(),
        view,
        network: policy.network,
        when_missing: policy.when_missing,
        layers: policy.layers,
        isolation,
        isolation_reason,
    })
}

impl Confinement {
    /// Goes on to the next weaker isolation. What the machine refuses is remembered; shortages and
    /// troubles with a folder are not.
    pub(crate) fn weaken(&mut self, step: &str, errno: Errno) {
        self.isolation = match self.isolation {
            Isolation::Whole => Isolation::WithoutProcesses,
            Isolation::WithoutProcesses | Isolation::None => Isolation::None,
        };
        self.isolation_reason = format!("{step}: {}", io::Error::from(errno));
        let refusals = [
            Errno::PERM,
            Errno::ACCESS,
            Errno::NOSYS,
            Errno::INVAL,
            Errno::OPNOTSUPP,
        ];
        let is_lasting = ![OPENING_FOLDER, BINDING_FOLDER].contains(&step);
        if is_lasting && refusals.contains(&errno) {
            let known = (self.isolation, self.isolation_reason.clone());
            *KNOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        }
    }
}
