//! [`SharedNetwork`]: a network namespace that several confined commands use, so that one can talk to another over
//! loopback.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// A network of its own for several commands. The first command without network access that runs with it creates the
/// namespace, later ones join it. The namespace exists until the last clone is dropped and the last of its processes has
/// ended. Commands with network access use the network of the machine instead.
#[derive(Debug, Clone, Default)]
pub struct SharedNetwork {
    /// The network namespace, and the user namespace that owns it unless that is the user namespace of this process.
    files: Arc<Mutex<Vec<OwnedFd>>>,
}

impl PartialEq for SharedNetwork {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.files, &other.files)
    }
}

impl Eq for SharedNetwork {}

impl SharedNetwork {
    /// The files of the namespaces to join; empty if no command has created them.
    pub(crate) fn files(&self) -> io::Result<Vec<OwnedFd>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(OwnedFd::try_clone).collect()
    }

    /// Keeps the namespaces that a command created, unless another command was first.
    pub(crate) fn publish(&self, created: Vec<OwnedFd>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.is_empty() {
            *files = created;
        }
    }
}
