//! [`ProjectCaches`]: package caches that the sandboxes of one project share.
//!
//! Commands in a sandbox keep their downloads and build caches here for reuse: cargo's registry, and the caches of npm,
//! pip, uv and Go. The caches are seeded with links to the user's earlier downloads, which commands can read but not
//! write. Credential files are never seeded.
//!
//! Commands can write to [`ProjectCaches::files`], so its content is untrusted. This module accesses it only through a
//! [`Root`], which follows no links.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cleveragents_domain::{ContentHash, FileKind, FileMode, TreePath};
use cleveragents_process::{home_folder, is_clean, toolchain_environment};

use crate::error::{Error, PathContext as _};
use crate::scoped_dir::{Root, Stat};

/// Time without use after which a cleanup removes the caches of a project.
pub const UNUSED_AFTER: Duration = Duration::from_hours(30 * 24);

/// The caches of one project.
#[derive(Debug, Clone)]
pub struct ProjectCaches {
    folder: PathBuf,
    project: PathBuf,
}

/// Disk usage of the caches of one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheUsage {
    pub folder: PathBuf,
    /// Total size of the files in bytes, without links.
    pub bytes: u64,
    /// Time of the last use by a command.
    pub last_used: SystemTime,
}

impl ProjectCaches {
    /// Caches of the project whose files are at `project`; `all` is the folder for the caches of all
    /// projects.
    pub fn new(all: &Path, project: &Path) -> Self {
        let hash = ContentHash::of_bytes(project.as_os_str().as_bytes()).hex();
        Self {
            folder: all.join(&hash[..16]),
            project: project.to_owned(),
        }
    }

    /// Folder of the caches, which commands may write.
    pub fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    /// Creates the caches and updates the links to the user's files. Returns the environment variables that point
    /// package managers to the caches; without `network`, also variables that make them work offline.
    pub fn prepare(&self, network: bool) -> Result<Vec<(OsString, OsString)>, Error> {
        let files = self.files();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&files)
            .during("creating", &files)?;
        // A failure, such as a full disk, does not stop the command, which uses the existing caches.
        let _best_effort = fs::write(
            self.folder.join("used"),
            self.project.as_os_str().as_bytes(),
        );
        let root = Root::open(&files).during("opening", &files)?;
        let sources = UserCaches::find();
        let seeded = self.folder.join("seeded");
        if !sources.are_seeded(&seeded) {
            // Written before the sources are read, so that later downloads of the user are newer than this file.
            let _best_effort = fs::write(&seeded, sources.fingerprint());
            // Fails if commands have damaged the caches; the command then runs with the parts seeded so far.
            let _best_effort = sources.seed(&root);
        }
        Ok(variables(&files, &sources, network))
    }

    /// The caches of all projects, least recently used first.
    pub fn list(all: &Path) -> io::Result<Vec<CacheUsage>> {
        let entries = match fs::read_dir(all) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let folder = entry?.path();
            let last_used = fs::metadata(folder.join("used")).and_then(|file| file.modified());
            found.push(CacheUsage {
                bytes: folder_bytes(&folder),
                last_used: last_used.unwrap_or(SystemTime::UNIX_EPOCH),
                folder,
            });
        }
        found.sort_by_key(|usage| usage.last_used);
        Ok(found)
    }
}

impl CacheUsage {
    /// Whether no command has used the caches for [`UNUSED_AFTER`].
    pub fn is_unused(&self, now: SystemTime) -> bool {
        now.duration_since(self.last_used)
            .is_ok_and(|age| age >= UNUSED_AFTER)
    }
}

/// Total size of all files in a folder; unreadable files count as zero.
pub fn folder_bytes(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.filter_map(Result::ok) {
            match entry.metadata() {
                Ok(found) if found.is_dir() => pending.push(entry.path()),
                Ok(found) if found.is_file() => bytes += found.len(),
                _ => {}
            }
        }
    }
    bytes
}

/// Environment variables that point package managers to `files`.
fn variables(files: &Path, sources: &UserCaches, network: bool) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = [
        ("CARGO_HOME", "cargo"),
        ("npm_config_cache", "npm"),
        ("PIP_CACHE_DIR", "pip"),
        ("UV_CACHE_DIR", "uv"),
        ("GOCACHE", "go-build"),
        ("GOMODCACHE", "go-mod"),
    ]
    .into_iter()
    .map(|(name, folder)| (name.into(), files.join(folder).into_os_string()))
    .collect();
    if !network {
        let offline = [
            ("CARGO_NET_OFFLINE", "true"),
            ("npm_config_offline", "true"),
            ("npm_config_update_notifier", "false"),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
            ("PIP_RETRIES", "0"),
            ("UV_OFFLINE", "1"),
        ];
        variables.extend(offline.map(|(name, value)| (name.into(), value.into())));
        // Go reads modules from the user's download cache in the same way as from a server.
        let mut proxy = OsString::from("off");
        if let Some(modules) = &sources.go_modules {
            proxy = OsString::from("file://");
            proxy.push(modules.join("cache/download"));
            proxy.push(",off");
        }
        variables.push(("GOPROXY".into(), proxy));
    }
    variables
}

/// Form of the files in a mirrored tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MirrorForm {
    /// A link to the user's file or folder.
    Link,
    /// A copy of the user's file, because the package manager appends to it.
    Copy,
}

/// Existing caches of the user.
#[derive(Debug, Default)]
struct UserCaches {
    cargo: Option<PathBuf>,
    go_modules: Option<PathBuf>,
    npm: Option<PathBuf>,
}

impl UserCaches {
    fn find() -> Self {
        let mut sources = Self {
            npm: home_folder(".npm/_cacache"),
            ..Self::default()
        };
        for (name, folder) in toolchain_environment() {
            match name.to_str() {
                Some("CARGO_HOME") => sources.cargo = Some(folder.into()),
                Some("GOMODCACHE") => sources.go_modules = Some(folder.into()),
                _ => {}
            }
        }
        sources
    }

    /// The source paths as bytes, to detect changed paths.
    fn fingerprint(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for folder in [&self.cargo, &self.npm].into_iter().flatten() {
            text.extend_from_slice(folder.as_os_str().as_bytes());
            text.push(b'\n');
        }
        text
    }

    /// Whether nothing was added to the sources since the seeding.
    fn are_seeded(&self, seeded: &Path) -> bool {
        let is_same = fs::read(seeded).is_ok_and(|text| text == self.fingerprint());
        let Ok(seeded_at) = fs::metadata(seeded).and_then(|file| file.modified()) else {
            return false;
        };
        is_same && self.newest().is_none_or(|newest| newest < seeded_at)
    }

    /// Time of the last addition, from the times of the folders that receive new entries.
    fn newest(&self) -> Option<SystemTime> {
        let mut folders = Vec::new();
        if let Some(cargo) = &self.cargo {
            folders.extend(["", "bin", "git/db", "git/checkouts"].map(|name| cargo.join(name)));
            for name in ["cache", "src", "index"] {
                let registry = cargo.join("registry").join(name);
                folders.extend(inner_folders(&registry));
                folders.push(registry);
            }
        }
        if let Some(npm) = &self.npm {
            folders.extend(["tmp", "index-v5"].map(|name| npm.join(name)));
        }
        let folders = folders.iter();
        folders
            .filter_map(|folder| fs::metadata(folder).and_then(|found| found.modified()).ok())
            .max()
    }

    /// Mirrors the sources into the caches of a project.
    fn seed(&self, root: &Root) -> io::Result<()> {
        if let Some(cargo) = &self.cargo {
            let parts = [
                ("bin", 0),
                ("registry/cache", 1),
                ("registry/src", 1),
                // Links the folders inside each index, so that cargo's cache of the index is reused.
                ("registry/index", 2),
                ("git/db", 0),
                ("git/checkouts", 1),
            ];
            for (part, depth) in parts {
                let target = tree_path(&format!("cargo/{part}"))?;
                mirror(&cargo.join(part), root, &target, depth, MirrorForm::Link)?;
            }
            for name in ["config.toml", "config"] {
                let settings = cargo.join(name);
                let target = tree_path(&format!("cargo/{name}"))?;
                if is_clean(&settings) {
                    link(root, &target, &settings)?;
                }
            }
        }
        if let Some(npm) = &self.npm {
            for (part, depth, leaf) in [
                ("content-v2", 3, MirrorForm::Link),
                ("index-v5", 2, MirrorForm::Copy),
            ] {
                let target = tree_path(&format!("npm/_cacache/{part}"))?;
                mirror(&npm.join(part), root, &target, depth, leaf)?;
            }
        }
        Ok(())
    }
}

fn tree_path(text: &str) -> io::Result<TreePath> {
    TreePath::from_bytes(text).map_err(io::Error::other)
}

/// Subfolders of a folder.
fn inner_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let entries = entries.filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Creates a link unless the name exists.
fn link(root: &Root, path: &TreePath, target: &Path) -> io::Result<()> {
    match root.create_link(path, target.as_os_str().as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates the folders of a tree down to a depth, and the files in them as `leaf` specifies. Existing
/// entries stay; links to files that the user has deleted are removed.
fn mirror(
    source: &Path,
    root: &Root,
    target: &TreePath,
    depth: usize,
    leaf: MirrorForm,
) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(source) else {
        return Ok(());
    };
    root.make_parents(target)?;
    root.make_folder(target)?;
    let existing: HashMap<Vec<u8>, Stat> = root.entries(Some(target))?.into_iter().collect();
    let mut found = HashSet::new();
    for entry in entries.filter_map(Result::ok) {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let name = entry.file_name();
        let path = target.join(name.as_bytes()).map_err(io::Error::other)?;
        if kind.is_dir() && depth > 0 {
            mirror(&entry.path(), root, &path, depth - 1, leaf)?;
            continue;
        }
        if !existing.contains_key(name.as_bytes()) {
            match leaf {
                MirrorForm::Link => link(root, &path, &entry.path())?,
                MirrorForm::Copy if kind.is_file() => {
                    let mut content = File::open(entry.path())?;
                    root.write_file(&path, FileMode::REGULAR, &mut content)?;
                }
                MirrorForm::Copy => {}
            }
        }
        found.insert(name.as_bytes().to_vec());
    }
    for (name, stat) in existing {
        let is_link = stat
            .mode
            .is_some_and(|mode| mode.kind() == FileKind::Symlink);
        if is_link && !found.contains(&name) {
            root.remove_file(&target.join(&name).map_err(io::Error::other)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TempFolder(tempfile::TempDir);

    impl TempFolder {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a folder"))
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            let place = self.path(name);
            fs::create_dir_all(place.parent().expect("a folder")).expect("made");
            fs::write(place, text).expect("written");
        }

        fn root(&self) -> Root {
            fs::create_dir_all(self.path("files")).expect("made");
            Root::open(&self.path("files")).expect("a root")
        }

        fn sources(&self) -> UserCaches {
            UserCaches {
                cargo: Some(self.path("user/.cargo")),
                npm: Some(self.path("user/.npm/_cacache")),
                go_modules: None,
            }
        }
    }

    #[test]
    fn crates_are_seeded_and_credentials_are_not() {
        let place = TempFolder::new();
        place.write("user/.cargo/registry/cache/index/a-1.crate", "crate");
        place.write("user/.cargo/registry/src/index/a-1/lib.rs", "code");
        place.write("user/.cargo/credentials.toml", "token = 'PLANTED'");
        place.write(
            "user/.cargo/config.toml",
            "[registries.x]\ntoken = 'PLANTED'\n",
        );
        place.sources().seed(&place.root()).expect("seeded");
        for name in [
            "registry/cache/index/a-1.crate",
            "registry/src/index/a-1/lib.rs",
        ] {
            assert!(place.path("files/cargo").join(name).is_file(), "{name}");
        }
        let cargo = place.path("files/cargo");
        assert!(!cargo.join("credentials.toml").exists());
        assert!(!cargo.join("config.toml").exists());
        // A crate that a command downloads is stored next to those of the user.
        place.write("files/cargo/registry/cache/index/b-1.crate", "crate");
        assert!(
            !place
                .path("user/.cargo/registry/cache/index/b-1.crate")
                .exists()
        );
    }

    #[test]
    fn append_only_files_of_package_managers_are_copied() {
        let place = TempFolder::new();
        place.write("user/.npm/_cacache/index-v5/aa/bb/entry", "one\n");
        place.write(
            "user/.npm/_cacache/content-v2/sha512/aa/bb/content",
            "bytes",
        );
        place.sources().seed(&place.root()).expect("seeded");
        let is_link = |name: &str| {
            let place = place.path("files/npm/_cacache").join(name);
            place.symlink_metadata().expect("the entry").is_symlink()
        };
        assert!(!is_link("index-v5/aa/bb/entry"));
        assert!(is_link("content-v2/sha512/aa/bb/content"));
    }

    #[test]
    fn links_to_removed_files_are_removed() {
        let place = TempFolder::new();
        let name = "user/.cargo/registry/cache/index/a-1.crate";
        place.write(name, "crate");
        let root = place.root();
        place.sources().seed(&root).expect("seeded");
        fs::remove_file(place.path(name)).expect("removed");
        place.sources().seed(&root).expect("seeded");
        let remaining = fs::read_dir(place.path("files/cargo/registry/cache/index"));
        assert_eq!(remaining.expect("a folder").count(), 0);
    }

    #[test]
    fn seeding_follows_no_link_of_a_command() {
        let place = TempFolder::new();
        place.write("user/.cargo/bin/tool", "program");
        let root = place.root();
        fs::create_dir(place.path("outside")).expect("made");
        fs::create_dir(place.path("files/cargo")).expect("made");
        std::os::unix::fs::symlink(place.path("outside"), place.path("files/cargo/bin"))
            .expect("a link");
        assert!(place.sources().seed(&root).is_err());
        let remaining = fs::read_dir(place.path("outside"))
            .expect("a folder")
            .count();
        assert_eq!(remaining, 0);
    }

    #[test]
    fn new_downloads_of_the_user_are_seeded() {
        let place = TempFolder::new();
        place.write("user/.cargo/registry/cache/index/a-1.crate", "crate");
        let (sources, seeded) = (place.sources(), place.path("seeded"));
        assert!(!sources.are_seeded(&seeded));
        let later = SystemTime::now() + Duration::from_mins(1);
        fs::write(&seeded, sources.fingerprint()).expect("written");
        let stamp = File::options().write(true).open(&seeded).expect("opened");
        stamp.set_modified(later).expect("modification time set");
        assert!(sources.are_seeded(&seeded));
        let folder = File::open(place.path("user/.cargo/registry/cache/index")).expect("opened");
        folder
            .set_modified(later + Duration::from_secs(1))
            .expect("modification time set");
        assert!(!sources.are_seeded(&seeded));
    }

    #[test]
    fn caches_become_unused_after_30_days() {
        let place = TempFolder::new();
        let caches = ProjectCaches::new(&place.path("caches"), Path::new("/project"));
        caches.prepare(false).expect("prepared");
        fs::write(caches.files().join("entry"), [0_u8; 100]).expect("written");
        let all = ProjectCaches::list(&place.path("caches")).expect("a list");
        let [usage] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert!(usage.bytes >= 100);
        assert!(!usage.is_unused(SystemTime::now()));
        assert!(usage.is_unused(SystemTime::now() + UNUSED_AFTER));
    }
}
