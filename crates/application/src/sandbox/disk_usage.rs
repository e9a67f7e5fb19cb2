//! Disk usage of sandboxes and the package caches of their projects, and removal of unused caches.

use std::time::SystemTime;

use cleveragents_sandbox::{CacheUsage, ProjectCaches, folder_bytes, remove_folder};

use super::error::SandboxError;
use super::service::{SandboxService, removing};

/// Disk usage of temporary files, home folders and package caches. The copies of resources are not
/// included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Temporary folders and private home folders of all sandboxes, which are removed with their
    /// sandbox.
    pub private_bytes: u64,
    /// Package caches that no command used for [`UNUSED_AFTER`](cleveragents_sandbox::UNUSED_AFTER).
    pub unused: CacheTotal,
    /// The other package caches.
    pub used: CacheTotal,
}

/// Totals over the caches of several projects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheTotal {
    /// Number of projects.
    pub projects: usize,
    /// Total size of the caches.
    pub bytes: u64,
}

impl CacheTotal {
    fn add(&mut self, usage: &CacheUsage) {
        self.projects += 1;
        self.bytes += usage.bytes;
    }
}

impl SandboxService {
    /// Measures temporary files, home folders and package caches.
    pub fn disk_usage(&self) -> Result<DiskUsage, SandboxError> {
        let mut usage = DiskUsage::default();
        for view in self.list(false)? {
            let folders = view.folders();
            usage.private_bytes += folder_bytes(&folders.temporary());
            usage.private_bytes += folder_bytes(&folders.home());
        }
        let now = SystemTime::now();
        for cache in self.caches()? {
            if cache.is_unused(now) {
                usage.unused.add(&cache);
            } else {
                usage.used.add(&cache);
            }
        }
        Ok(usage)
    }

    /// Removes the package caches that no command used for
    /// [`UNUSED_AFTER`](cleveragents_sandbox::UNUSED_AFTER).
    pub fn remove_unused_caches(&self) -> Result<(), SandboxError> {
        let now = SystemTime::now();
        for cache in self.caches()? {
            if cache.is_unused(now) {
                remove_folder(&cache.folder).map_err(removing(&cache.folder))?;
            }
        }
        Ok(())
    }

    fn caches(&self) -> Result<Vec<CacheUsage>, SandboxError> {
        let all = self.home().with_file_name("caches");
        let listed = ProjectCaches::list(&all);
        Ok(listed.map_err(|source| cleveragents_sandbox::Error::Files {
            action: "reading",
            path: all,
            source,
        })?)
    }
}
