//! Converts a [`Policy`] to the form that the stages use: with resolved and checked directories, and the level of
//! isolation to request on this machine.

use crate::error::ProcessError;
use crate::invocation::{Invocation, Isolation, Policy};
use crate::readable;
use crate::wire::{BINDING_FOLDER, Confinement, OPENING_FOLDER};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

/// Strongest isolation that this machine supports, and the reason why stronger isolation failed. Set after a failure,
/// so that later commands do not try the stronger isolation again.
static ISOLATION_CACHE: Mutex<Option<(Isolation, String)>> = Mutex::new(None);

/// Resolves symbolic links; fails if the result is not a directory.
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

/// Resolves the directories of a policy and checks that they are consistent.
pub(crate) fn resolve(
    invocation: &Invocation,
    policy: &Policy,
) -> Result<Confinement, ProcessError> {
    let invalid_policy = |reason: String| ProcessError::InvalidPolicy {
        program: invocation.program.clone(),
        reason,
    };
    let writable: Vec<(&PathBuf, PathBuf)> = policy
        .writable
        .iter()
        .map(|folder| Ok((folder, resolve_folder(folder)?)))
        .collect::<Result<_, ProcessError>>()?;
    // An earlier command may have replaced a nested writable directory by a link to a place outside.
    for (inner, real_inner) in &writable {
        for (outer, real_outer) in &writable {
            if inner.starts_with(outer) && !real_inner.starts_with(real_outer) {
                let (inner, outer) = (inner.display(), outer.display());
                return Err(invalid_policy(format!(
                    "`{inner}` leads out of `{outer}` by a link"
                )));
            }
        }
    }
    let resolve_temporary = |name: &str, folder: &Path| {
        let real = resolve_folder(folder)?;
        if writable.iter().any(|(_, folder)| real.starts_with(folder)) {
            return Ok(real);
        }
        let folder = folder.display();
        Err(invalid_policy(format!(
            "{name} `{folder}` is not beneath a writable folder"
        )))
    };
    let mut variables = invocation.environment.iter();
    if let Some((_, folder)) = variables.find(|(name, _)| name == "TMPDIR") {
        resolve_temporary("TMPDIR", Path::new(folder))?;
    }
    let temporary = policy.temporary.as_ref();
    let temporary = temporary
        .map(|folder| resolve_temporary("the temporary folder", folder))
        .transpose()?;
    let cached = ISOLATION_CACHE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let (isolation, isolation_reason) = cached
        .filter(|(isolation, _)| *isolation < policy.layers.isolation)
        .unwrap_or_else(|| (policy.layers.isolation, "switched off".to_owned()));
    let writable: Vec<PathBuf> = writable.into_iter().map(|(_, real)| real).collect();
    let view = readable::resolve(invocation, policy, &writable)?;
    Ok(Confinement {
        writable: writable.into_iter().map(PathBuf::into_os_string).collect(),
        view,
        temporary: temporary.map(PathBuf::into_os_string),
        network: policy.network,
        loopback: policy.loopback && !policy.network,
        when_missing: policy.when_missing,
        layers: policy.layers,
        isolation,
        isolation_reason,
    })
}

impl Confinement {
    /// Falls back to the next weaker isolation. Caches the result if the machine lacks a feature, but not after a
    /// temporary shortage or a problem with a directory.
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
            let cached = (self.isolation, self.isolation_reason.clone());
            *ISOLATION_CACHE
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(cached);
        }
    }
}
