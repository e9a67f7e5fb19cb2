//! Random edits of a folder, like those of a user, a shell or a program.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use cleveragents_testkit::Dice;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};

use crate::tree::{
    Entry, FILE_MODES, FOLDER_MODES, Tree, at, content, name, set_mode, target, walk,
};

/// A random path whose entry satisfies a condition.
fn pick_path(tree: &Tree, dice: &mut Dice, condition: impl Fn(&Entry) -> bool) -> Option<Vec<u8>> {
    let paths: Vec<&Vec<u8>> = tree
        .iter()
        .filter(|(_, entry)| condition(entry))
        .map(|(path, _)| path)
        .collect();
    (!paths.is_empty()).then(|| (*dice.pick(&paths)).clone())
}

/// A free path in an existing folder.
pub(crate) fn fresh(tree: &Tree, dice: &mut Dice) -> Option<Vec<u8>> {
    let mut path = match dice.roll(2) {
        0 => Vec::new(),
        _ => pick_path(tree, dice, Entry::is_folder).unwrap_or_default(),
    };
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend(name(dice));
    (path.len() < 1500 && !tree.contains_key(&path)).then_some(path)
}

pub(crate) fn file(tree: &Tree, dice: &mut Dice) -> Option<Vec<u8>> {
    pick_path(tree, dice, |entry| matches!(entry, Entry::File(..)))
}

fn remove(place: &Path) {
    let is_folder = fs::symlink_metadata(place).is_ok_and(|found| found.is_dir());
    if is_folder {
        fs::remove_dir_all(place).expect("a folder can be removed");
    } else {
        fs::remove_file(place).expect("a file can be removed");
    }
}

/// Changes the content of a file, but neither its size nor its modification time.
fn edit_keeping_size_and_time(place: &Path) {
    let before = fs::symlink_metadata(place).expect("a file");
    let mut bytes = fs::read(place).expect("a file");
    let Some(last) = bytes.last_mut() else { return };
    *last ^= 0x55;
    fs::write(place, &bytes).expect("a file can be written");
    let time = Timespec {
        tv_sec: before.mtime(),
        tv_nsec: before.mtime_nsec(),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, place, &times, AtFlags::empty()).expect("times can be set");
}

fn create_random_entry(place: &Path, dice: &mut Dice) {
    match dice.roll(4) {
        0 => {
            fs::create_dir(place).expect("a folder");
            if dice.once_in(2) {
                fs::write(place.join("inside"), content(dice)).expect("a file");
            }
            set_mode(place, *dice.pick(&FOLDER_MODES));
        }
        1 => symlink(OsStr::from_bytes(&target(dice)), place).expect("a link"),
        _ => {
            fs::write(place, content(dice)).expect("a file");
            set_mode(place, *dice.pick(&FILE_MODES));
        }
    }
}

/// Makes an edit with temporary write permission on all entries, as their owner could grant it.
fn with_write_permission<T>(root: &Path, edit: impl FnOnce(&Tree) -> T) -> T {
    let tree = walk(root);
    if rustix::process::geteuid().is_root() {
        return edit(&tree);
    }
    let is_closed = |entry: &Entry| match entry {
        Entry::Folder(mode) | Entry::File(mode, _) => mode & 0o200 == 0,
        Entry::Link(_) => false,
    };
    let closed: Vec<&Vec<u8>> = tree
        .iter()
        .filter(|(_, entry)| is_closed(entry))
        .map(|(path, _)| path)
        .collect();
    for path in &closed {
        set_mode(
            &at(root, path),
            tree[*path].state().mode.permissions() | 0o200,
        );
    }
    let result = edit(&tree);
    for path in closed.iter().rev() {
        let place = at(root, path);
        let is_unchanged = |found: &fs::Metadata| {
            found.is_dir() == tree[*path].is_folder()
                && found.mode() & 0o7777 == tree[*path].state().mode.permissions() | 0o200
        };
        // The edit may have replaced the entry, so its type and mode are checked first.
        if fs::symlink_metadata(&place).is_ok_and(|found| is_unchanged(&found)) {
            set_mode(&place, tree[*path].state().mode.permissions());
        }
    }
    result
}

/// Makes one edit as a shell command would. Makes none if the tree has no suitable path.
pub(crate) fn shell(root: &Path, dice: &mut Dice) {
    with_write_permission(root, |tree| shell_in(root, tree, dice));
}

fn shell_in(root: &Path, tree: &Tree, dice: &mut Dice) {
    let done = match dice.roll(14) {
        0..=2 => fresh(tree, dice).map(|path| create_random_entry(&at(root, &path), dice)),
        3 => file(tree, dice).map(|path| {
            fs::write(at(root, &path), content(dice)).expect("written");
        }),
        4 => file(tree, dice).map(|path| {
            let mut file = fs::OpenOptions::new()
                .append(true)
                .open(at(root, &path))
                .expect("opened");
            file.write_all(b"appended\n").expect("appended");
        }),
        5 => file(tree, dice).map(|path| edit_keeping_size_and_time(&at(root, &path))),
        6 => file(tree, dice).map(|path| {
            let file = fs::OpenOptions::new()
                .write(true)
                .open(at(root, &path))
                .expect("opened");
            file.set_len(dice.roll(10)).expect("truncated");
        }),
        7 => rename(root, tree, dice),
        8 => pick_path(tree, dice, |_| true).map(|path| remove(&at(root, &path))),
        9 => pick_path(tree, dice, |_| true).map(|path| {
            // A file becomes a folder or a link, or vice versa.
            remove(&at(root, &path));
            create_random_entry(&at(root, &path), dice);
        }),
        10 => pick_path(tree, dice, |entry| !matches!(entry, Entry::Link(_))).map(|path| {
            let modes: &[u32] = if tree[&path].is_folder() {
                &FOLDER_MODES
            } else {
                &FILE_MODES
            };
            set_mode(&at(root, &path), *dice.pick(modes));
        }),
        11 => fresh(tree, dice).map(|path| {
            symlink(OsStr::from_bytes(&target(dice)), at(root, &path)).expect("a link");
        }),
        12 => file(tree, dice).zip(fresh(tree, dice)).map(|(from, to)| {
            fs::hard_link(at(root, &from), at(root, &to)).expect("a second name");
        }),
        _ => change_case(root, tree, dice),
    };
    let () = done.unwrap_or_default();
}

fn rename(root: &Path, tree: &Tree, dice: &mut Dice) -> Option<()> {
    let (from, to) = pick_path(tree, dice, |_| true).zip(fresh(tree, dice))?;
    let into_itself = to.starts_with(&[from.as_slice(), b"/"].concat());
    if !into_itself {
        fs::rename(at(root, &from), at(root, &to)).expect("renamed");
    }
    Some(())
}

fn change_case(root: &Path, tree: &Tree, dice: &mut Dice) -> Option<()> {
    let from = pick_path(tree, dice, |_| true)?;
    let start = from
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |index| index + 1);
    let mut to = from.clone();
    for byte in &mut to[start..] {
        *byte = if byte.is_ascii_lowercase() {
            byte.to_ascii_uppercase()
        } else {
            byte.to_ascii_lowercase()
        };
    }
    if !tree.contains_key(&to) {
        fs::rename(at(root, &from), at(root, &to)).expect("renamed");
    }
    Some(())
}

/// Makes one edit as a file tool would. Returns the paths that the tool reports.
pub(crate) fn tool(root: &Path, dice: &mut Dice) -> Vec<Vec<u8>> {
    with_write_permission(root, |tree| tool_in(root, tree, dice))
}

fn tool_in(root: &Path, tree: &Tree, dice: &mut Dice) -> Vec<Vec<u8>> {
    match dice.roll(4) {
        0 => match fresh(tree, dice) {
            Some(mut path) => {
                // The tool creates missing folders and reports only its file.
                for _ in 0..dice.roll(3) {
                    path.extend_from_slice(b"/made");
                }
                let place = at(root, &path);
                let parent = place.parent().expect("it is in a folder");
                fs::create_dir_all(parent).expect("folders");
                fs::write(&place, content(dice)).expect("a file");
                vec![path]
            }
            None => Vec::new(),
        },
        1 => file(tree, dice).map_or_else(Vec::new, |path| {
            // The tool replaces the file, so other hard links to the old file do not change.
            remove(&at(root, &path));
            fs::write(at(root, &path), content(dice)).expect("written");
            vec![path]
        }),
        2 => file(tree, dice).map_or_else(Vec::new, |path| {
            remove(&at(root, &path));
            vec![path]
        }),
        _ => match file(tree, dice).zip(fresh(tree, dice)) {
            Some((from, to)) => {
                fs::rename(at(root, &from), at(root, &to)).expect("renamed");
                vec![from, to]
            }
            None => Vec::new(),
        },
    }
}
