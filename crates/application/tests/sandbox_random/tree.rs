//! Trees: the content of a folder by path, read and written without the code under test.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use cleveragents_domain::{ContentHash, FileKind, FileMode, FileState};
use cleveragents_testkit::Dice;

/// The content of a path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    Folder(u32),
    File(u32, Vec<u8>),
    Link(Vec<u8>),
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(mode) => write!(formatter, "folder {mode:o}"),
            Self::File(mode, content) => write!(
                formatter,
                "file {mode:o} {} bytes {:?}",
                content.len(),
                String::from_utf8_lossy(&content[..content.len().min(24)])
            ),
            Self::Link(target) => {
                write!(formatter, "link to {:?}", String::from_utf8_lossy(target))
            }
        }
    }
}

impl Entry {
    /// The entry as the type that the program uses.
    pub(crate) fn state(&self) -> FileState {
        match self {
            Self::Folder(mode) => FileState::directory(*mode),
            Self::File(mode, content) => FileState {
                hash: ContentHash::of_bytes(content),
                size: content.len() as u64,
                mode: FileMode::new(FileKind::File, *mode),
            },
            Self::Link(target) => FileState {
                hash: ContentHash::of_bytes(target),
                size: target.len() as u64,
                mode: FileMode::new(FileKind::Symlink, 0),
            },
        }
    }

    pub(crate) const fn is_folder(&self) -> bool {
        matches!(self, Self::Folder(_))
    }
}

/// Each path below a folder with its entry.
pub(crate) type Tree = BTreeMap<Vec<u8>, Entry>;

/// Reads a folder, without `.git` at its top.
pub(crate) fn walk(root: &Path) -> Tree {
    let mut tree = Tree::new();
    walk_into(root, Path::new(""), &mut tree);
    tree
}

fn walk_into(root: &Path, relative: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(root.join(relative)).expect("a folder can be read") {
        let name = entry.expect("an entry").file_name();
        if relative.as_os_str().is_empty() && name == ".git" {
            continue;
        }
        let path = relative.join(&name);
        let place = root.join(&path);
        let found = fs::symlink_metadata(&place).expect("it is there");
        let mode = found.mode() & 0o7777;
        let key = path.as_os_str().as_bytes().to_vec();
        if found.is_dir() {
            tree.insert(key, Entry::Folder(mode));
            walk_into(root, &path, tree);
        } else if found.is_symlink() {
            let target = fs::read_link(&place).expect("a link");
            tree.insert(key, Entry::Link(target.into_os_string().into_vec()));
        } else {
            let content = fs::read(&place).expect("a file");
            tree.insert(key, Entry::File(mode, content));
        }
    }
}

pub(crate) fn at(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path))
}

pub(crate) fn set_mode(place: &Path, mode: u32) {
    fs::set_permissions(place, fs::Permissions::from_mode(mode)).expect("a mode can be set");
}

/// Writes a tree into an empty folder.
pub(crate) fn write(tree: &Tree, root: &Path) {
    for (path, entry) in tree {
        let place = at(root, path);
        match entry {
            Entry::Folder(_) => fs::create_dir(&place).expect("a folder"),
            Entry::File(mode, content) => {
                fs::write(&place, content).expect("a file");
                set_mode(&place, *mode);
            }
            Entry::Link(target) => symlink(OsStr::from_bytes(target), &place).expect("a link"),
        }
    }
    for (path, entry) in tree.iter().rev() {
        if let Entry::Folder(mode) = entry {
            set_mode(&at(root, path), *mode);
        }
    }
}

const NAMES: [&[u8]; 20] = [
    b"a",
    b"b",
    b"README.md",
    b"with space",
    b" leading",
    b"new\nline",
    b"tab\there",
    b"quote\"s'`",
    b"back\\slash",
    b"--force",
    b"-",
    b"*?[x]",
    b"#hash",
    "\u{e9}t\u{e9} \u{1f980}".as_bytes(),
    b"not-utf8-\xff\xfe",
    b"x.plain",
    b"Case",
    b"case",
    b"a.b",
    b"a0",
];

/// A random name, often an unusual one.
pub(crate) fn name(dice: &mut Dice) -> Vec<u8> {
    match dice.roll(12) {
        0 => vec![b'l'; 255],
        1 => format!("n{}", dice.roll(1000)).into_bytes(),
        _ => dice.pick(&NAMES).to_vec(),
    }
}

/// Random content of any kind and size.
pub(crate) fn content(dice: &mut Dice) -> Vec<u8> {
    match dice.roll(8) {
        0 => Vec::new(),
        1 => (0..dice.roll(3000))
            .map(|_| dice.roll(256).to_le_bytes()[0])
            .collect(),
        2 => vec![b'x'; 200_000],
        3 => b"no newline at the end".to_vec(),
        4 => b"carriage\r\nreturns\r\n".to_vec(),
        _ => (0..dice.roll(40))
            .flat_map(|_| format!("line {}\n", dice.roll(50)).into_bytes())
            .collect(),
    }
}

/// A random target of a link, which may not exist.
pub(crate) fn target(dice: &mut Dice) -> Vec<u8> {
    let choices: [&[u8]; 6] = [
        b"a",
        b"../b",
        b"nowhere",
        b".",
        b"/nonexistent/abs",
        b"odd \xff\n",
    ];
    dice.pick(&choices).to_vec()
}

pub(crate) const FILE_MODES: [u32; 5] = [0o644, 0o600, 0o755, 0o444, 0o640];
pub(crate) const FOLDER_MODES: [u32; 4] = [0o755, 0o700, 0o555, 0o775];

pub(crate) fn random(dice: &mut Dice) -> Tree {
    let mut tree = Tree::new();
    let mut folders: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in 0..dice.roll(24) {
        let mut path = dice.pick(&folders).clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(name(dice));
        if path.len() > 1500 || tree.contains_key(&path) {
            continue;
        }
        let entry = match dice.roll(7) {
            0 | 1 => {
                folders.push(path.clone());
                Entry::Folder(*dice.pick(&FOLDER_MODES))
            }
            2 => Entry::Link(target(dice)),
            _ => Entry::File(*dice.pick(&FILE_MODES), content(dice)),
        };
        tree.insert(path, entry);
    }
    tree
}
