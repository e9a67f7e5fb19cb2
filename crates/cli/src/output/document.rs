//! A document that a command outputs byte for byte: printed in place of its report, or written to a
//! file.

use std::path::{Path, PathBuf};

use cleveragents_domain::Code;
use serde::{Deserialize, Serialize};

use super::CommandError;
use crate::commands::write_file;

/// A path as text. JSON requires UTF-8: other bytes are shown as `\u{fffd}`.
pub(crate) fn path_text(path: &std::path::Path) -> String {
    path.display().to_string()
}

/// A document and its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) content: Vec<u8>,
    /// Destination; standard output when `None`.
    pub(crate) file: Option<Target>,
}

/// A file that a document is written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    pub(crate) care: WriteMode,
}

/// Treatment of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WriteMode {
    /// Overwrites the file directly: for drawings, which are easily created again.
    Plain,
    /// Writes atomically; fails if the file exists.
    New,
    /// Writes atomically; replaces an existing file.
    Replaced,
}

impl Target {
    /// Fails if the file exists and must not be replaced.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        if self.care == WriteMode::New && self.path.exists() {
            return Err(exists(&self.path));
        }
        Ok(())
    }

    /// Calls `write` with a temporary file next to the target, so that the target is written
    /// atomically.
    pub(crate) fn fill<T>(
        &self,
        write: impl FnOnce(&mut dyn std::io::Write) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        self.check()?;
        let path = &self.path;
        let failure = |error: &std::io::Error| {
            CommandError::new(Code::FileAccess, format!("cannot write {}", path.display()))
                .caused_by(error)
                .with_hint("check that the folder exists and the disk has free space")
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or_else(|| Path::new("."));
        let temporary = tempfile::NamedTempFile::new_in(folder).map_err(|error| failure(&error))?;
        let mut out = std::io::BufWriter::new(temporary);
        let written = write(&mut out)?;
        let temporary = out.into_inner().map_err(|error| failure(error.error()))?;
        let synced = temporary.as_file().sync_all();
        synced.map_err(|error| failure(&error))?;
        let persisted = if self.care == WriteMode::New {
            temporary.persist_noclobber(path)
        } else {
            temporary.persist(path)
        };
        match persisted {
            Ok(_) => Ok(written),
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(exists(path))
            }
            Err(error) => Err(failure(&error.error)),
        }
    }
}

fn exists(path: &Path) -> CommandError {
    CommandError::new(
        Code::OutputExists,
        format!("{} already exists", path.display()),
    )
    .with_hint("choose another file, or overwrite it with --force")
}

impl Document {
    /// A document for standard output.
    pub(crate) fn printed(content: Vec<u8>) -> Self {
        Self {
            content,
            file: None,
        }
    }

    /// Writes the document to its file; does nothing for standard output.
    pub(crate) fn place(&self) -> Result<(), CommandError> {
        let Some(target) = &self.file else {
            return Ok(());
        };
        if target.care == WriteMode::Plain {
            return write_file(&target.path, &self.content);
        }
        target.fill(|out| {
            out.write_all(&self.content).map_err(|error| {
                let message = format!("cannot write {}", target.path.display());
                CommandError::new(Code::FileAccess, message).caused_by(&error)
            })
        })
    }
}
