//! [`Table`]: the saved part of a manifest, in a format that is fast to read.
//!
//! Rows have a fixed size and are sorted bytewise by folder and name. A folder can thus be compared by iterating over
//! its rows, and a path be found by binary search. All numbers are little-endian. The parts in order: the head, a row
//! per folder, a row per path, the hashes of the rows, the bytes of all folders and names, the end mark.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cleveragents_domain::{ContentHash, FileMode, TreePath};

use super::PathRecord;

const MAGIC: [u8; 8] = *b"CAmanif2";

/// End mark. The file is not synced; after a power failure, the mark shows whether it is complete.
const END: [u8; 8] = *b"CAmanEND";

const HEAD: u64 = 40;
const FOLDER: u64 = 24;
const ROW: u64 = 56;
const HASH: u64 = 32;

/// Source of bytes: a file, or a buffer with its content.
pub(super) trait ByteSource {
    fn length(&self) -> io::Result<u64>;
    fn bytes(&self, from: u64, count: u64) -> io::Result<Cow<'_, [u8]>>;
}

impl ByteSource for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn bytes(&self, from: u64, count: u64) -> io::Result<Cow<'_, [u8]>> {
        let place = |at: u64| usize::try_from(at).ok();
        place(from)
            .zip(from.checked_add(count).and_then(place))
            .and_then(|(from, to)| self.get(from..to))
            .map(Cow::Borrowed)
            .ok_or_else(unreadable)
    }
}

impl ByteSource for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn bytes(&self, from: u64, count: u64) -> io::Result<Cow<'_, [u8]>> {
        if from
            .checked_add(count)
            .is_none_or(|end| end > self.length().unwrap_or(0))
        {
            return Err(unreadable());
        }
        let mut bytes = vec![0; usize::try_from(count).map_err(|_| unreadable())?];
        self.read_exact_at(&mut bytes, from)?;
        Ok(Cow::Owned(bytes))
    }
}

pub(super) fn unreadable() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the manifest of its files cannot be read",
    )
}

/// Reads a number from the start of a row.
fn number(row: &mut &[u8]) -> io::Result<u64> {
    let (first, rest) = row.split_first_chunk().ok_or_else(unreadable)?;
    *row = rest;
    Ok(u64::from_le_bytes(*first))
}

fn signed(row: &mut &[u8]) -> io::Result<i64> {
    number(row).map(u64::cast_signed)
}

/// Position in the history, and number of rows of each kind.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    position: u64,
    folders: u64,
    rows: u64,
    hashes: u64,
}

impl Head {
    fn read(source: &impl ByteSource) -> io::Result<Self> {
        let bytes = source.bytes(0, HEAD)?;
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or_else(unreadable)?;
        let head = Self {
            position: number(&mut rest)?,
            folders: number(&mut rest)?,
            rows: number(&mut rest)?,
            hashes: number(&mut rest)?,
        };
        let length = source.length()?;
        let end = length
            .checked_sub(END.len() as u64)
            .ok_or_else(unreadable)?;
        // No number exceeds the file size, so their sums cannot overflow.
        let all = [head.folders, head.rows, head.hashes];
        let is_complete = all.iter().all(|count| *count <= length)
            && head.texts() <= end
            && source.bytes(end, END.len() as u64)?.as_ref() == END;
        is_complete.then_some(head).ok_or_else(unreadable)
    }

    const fn paths(self) -> u64 {
        HEAD + self.folders * FOLDER
    }

    const fn hash_table(self) -> u64 {
        self.paths() + self.rows * ROW
    }

    const fn texts(self) -> u64 {
        self.hash_table() + self.hashes * HASH
    }
}

/// Content of a folder's row.
#[derive(Debug, Clone, Copy)]
struct FolderRow {
    text: u64,
    length: u64,
    /// Index of the folder's first row; rows before it belong to earlier folders.
    first: u64,
}

/// A table in a [`ByteSource`].
#[derive(Debug)]
pub(super) struct Table<S> {
    source: S,
    head: Head,
}

impl Default for Table<Vec<u8>> {
    /// An empty table.
    fn default() -> Self {
        Self {
            source: Vec::new(),
            head: Head::default(),
        }
    }
}

impl Table<File> {
    /// Opens a saved table for reading a small part of it.
    pub(super) fn open(place: &Path) -> io::Result<Self> {
        Self::from_source(File::open(place)?)
    }
}

impl Table<Vec<u8>> {
    /// Loads a saved table completely.
    pub(super) fn load(place: &Path) -> io::Result<Self> {
        Self::from_source(std::fs::read(place)?)
    }

    pub(super) fn rows(&self, folder: u64) -> io::Result<FolderRows<'_>> {
        Ok(FolderRows {
            table: self,
            remaining: self.range(folder)?,
        })
    }

    /// The paths of one folder.
    pub(super) fn entries_of(&self, folder: u64) -> io::Result<Vec<(TreePath, PathRecord)>> {
        let row = self.folder_row(folder)?;
        let path = self.text(row.text, row.length)?;
        self.rows(folder)?
            .map(|row| {
                let (name, known) = row?;
                let path = if path.is_empty() {
                    name.to_vec()
                } else {
                    [path.as_ref(), b"/", name].concat()
                };
                let path = TreePath::from_bytes(path).map_err(|_| unreadable())?;
                Ok((path, known))
            })
            .collect()
    }
}

impl<S: ByteSource> Table<S> {
    fn from_source(source: S) -> io::Result<Self> {
        let head = Head::read(&source)?;
        Ok(Self { source, head })
    }

    /// Position in the history up to which the table is current.
    pub(super) const fn position(&self) -> u64 {
        self.head.position
    }

    /// Number of paths.
    pub(super) const fn count(&self) -> u64 {
        self.head.rows
    }

    /// Number of folders.
    pub(super) const fn folders(&self) -> u64 {
        self.head.folders
    }

    /// Index of a folder. An empty path is the root.
    pub(super) fn folder(&self, path: &[u8]) -> io::Result<Option<u64>> {
        search(0..self.head.folders, |at| {
            let row = self.folder_row(at)?;
            Ok(self.text(row.text, row.length)?.as_ref().cmp(path))
        })
    }

    /// Recorded state of a path.
    pub(super) fn find(&self, path: &TreePath) -> io::Result<Option<PathRecord>> {
        let Some(folder) = self.folder(folder_of(path))? else {
            return Ok(None);
        };
        let name = path.name();
        let found = search(self.range(folder)?, |at| {
            let row = self.row(at)?;
            let (text, length) = name_of(&row)?;
            Ok(self.text(text, length)?.as_ref().cmp(name))
        })?;
        found.map(|at| self.record(&self.row(at)?)).transpose()
    }

    fn text(&self, from: u64, length: u64) -> io::Result<Cow<'_, [u8]>> {
        let from = self.head.texts().checked_add(from).ok_or_else(unreadable)?;
        self.source.bytes(from, length)
    }

    fn folder_row(&self, at: u64) -> io::Result<FolderRow> {
        let bytes = self.source.bytes(HEAD + at * FOLDER, FOLDER)?;
        let mut remaining = bytes.as_ref();
        Ok(FolderRow {
            text: number(&mut remaining)?,
            length: number(&mut remaining)?,
            first: number(&mut remaining)?,
        })
    }

    /// Range of the rows of a folder.
    fn range(&self, folder: u64) -> io::Result<Range<u64>> {
        let first = self.folder_row(folder)?.first;
        let end = if folder + 1 < self.head.folders {
            self.folder_row(folder + 1)?.first
        } else {
            self.head.rows
        };
        let is_sound = first <= end && end <= self.head.rows;
        is_sound.then_some(first..end).ok_or_else(unreadable)
    }

    fn row(&self, at: u64) -> io::Result<Cow<'_, [u8]>> {
        self.source.bytes(self.head.paths() + at * ROW, ROW)
    }

    fn record(&self, row: &[u8]) -> io::Result<PathRecord> {
        let mut rest = row.get(8..).ok_or_else(unreadable)?;
        let mode = number(&mut rest)? >> 32;
        let (size, modified, changed) =
            (number(&mut rest)?, signed(&mut rest)?, signed(&mut rest)?);
        let inode = number(&mut rest)?;
        let hash = match number(&mut rest)? {
            0 => None,
            at if at <= self.head.hashes => {
                let place = self.head.hash_table() + (at - 1) * HASH;
                let bytes = self.source.bytes(place, HASH)?;
                let bytes: [u8; 32] = bytes.as_ref().try_into().map_err(|_| unreadable())?;
                Some(ContentHash::from_bytes(bytes))
            }
            _ => return Err(unreadable()),
        };
        Ok(PathRecord {
            mode: u32::try_from(mode)
                .ok()
                .and_then(FileMode::from_raw)
                .ok_or_else(unreadable)?,
            size,
            modified,
            changed,
            inode,
            hash,
        })
    }
}

/// Offset and length of a row's name.
fn name_of(mut row: &[u8]) -> io::Result<(u64, u64)> {
    let start = number(&mut row)?;
    Ok((start, number(&mut row)? & u64::from(u32::MAX)))
}

/// The parent folder of a path; empty for a path at the top.
pub(super) fn folder_of(path: &TreePath) -> &[u8] {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/');
    &bytes[..end.unwrap_or(0)]
}

/// Binary search in a sorted range.
fn search(
    mut remaining: Range<u64>,
    mut compare: impl FnMut(u64) -> io::Result<std::cmp::Ordering>,
) -> io::Result<Option<u64>> {
    while remaining.start < remaining.end {
        let middle = remaining.start + (remaining.end - remaining.start) / 2;
        match compare(middle)? {
            std::cmp::Ordering::Equal => return Ok(Some(middle)),
            std::cmp::Ordering::Less => remaining.start = middle + 1,
            std::cmp::Ordering::Greater => remaining.end = middle,
        }
    }
    Ok(None)
}

/// The names of a folder in order, each with its recorded state.
#[derive(Debug, Clone)]
pub(super) struct FolderRows<'a> {
    table: &'a Table<Vec<u8>>,
    remaining: Range<u64>,
}

impl<'a> FolderRows<'a> {
    fn name_at(&self, at: u64) -> io::Result<(&'a [u8], &'a [u8])> {
        let Cow::Borrowed(row) = self.table.row(at)? else {
            return Err(unreadable());
        };
        let (text, length) = name_of(row)?;
        match self.table.text(text, length)? {
            Cow::Borrowed(name) => Ok((name, row)),
            Cow::Owned(_) => Err(unreadable()),
        }
    }

    /// The names alone.
    pub(super) fn names(self) -> impl Iterator<Item = io::Result<&'a [u8]>> {
        let range = self.remaining.clone();
        range.map(move |at| Ok(self.name_at(at)?.0))
    }
}

impl<'a> Iterator for FolderRows<'a> {
    type Item = io::Result<(&'a [u8], PathRecord)>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.remaining.next()?;
        Some(
            self.name_at(at)
                .and_then(|(name, row)| Ok((name, self.table.record(row)?))),
        )
    }
}

/// A folder to be written: its path and its sorted names.
#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) path: Vec<u8>,
    names: Vec<u8>,
    rows: Vec<(u32, PathRecord)>,
}

impl Folder {
    pub(super) fn new(path: &[u8]) -> Self {
        Self {
            path: path.to_vec(),
            ..Self::default()
        }
    }

    /// Adds a name, which must sort after the names added before.
    pub(super) fn push(&mut self, name: &[u8], known: PathRecord) -> io::Result<()> {
        let length = u32::try_from(name.len()).map_err(io::Error::other)?;
        self.names.extend_from_slice(name);
        self.rows.push((length, known));
        Ok(())
    }
}

/// The bytes of a table of these folders.
pub(super) fn encode(position: u64, mut folders: Vec<Folder>) -> Vec<u8> {
    folders.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    let hashes: Vec<ContentHash> = folders
        .iter()
        .flat_map(|folder| folder.rows.iter().filter_map(|(_, known)| known.hash))
        .collect();
    let rows: usize = folders.iter().map(|folder| folder.rows.len()).sum();
    let head = Head {
        position,
        folders: folders.len() as u64,
        rows: rows as u64,
        hashes: hashes.len() as u64,
    };
    let texts: usize = folders
        .iter()
        .map(|folder| folder.path.len() + folder.names.len())
        .sum();
    let length = usize::try_from(head.texts()).unwrap_or(0) + texts + END.len();
    let mut bytes = Vec::with_capacity(length);
    let mut put = |numbers: &[u64]| {
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    };
    put(&[
        u64::from_le_bytes(MAGIC),
        position,
        head.folders,
        head.rows,
        head.hashes,
    ]);
    // In the text part, the paths of all folders precede the names.
    let (mut text, mut first) = (0, 0);
    for folder in &folders {
        let length = folder.path.len() as u64;
        put(&[text, length, first]);
        text += length;
        first += folder.rows.len() as u64;
    }
    let mut hash = 0;
    for (length, known) in folders.iter().flat_map(|folder| &folder.rows) {
        let hash_index = match known.hash {
            Some(_) => {
                hash += 1;
                hash
            }
            None => 0,
        };
        put(&[
            text,
            u64::from(*length) | u64::from(known.mode.raw()) << 32,
            known.size,
            known.modified.cast_unsigned(),
            known.changed.cast_unsigned(),
            known.inode,
            hash_index,
        ]);
        text += u64::from(*length);
    }
    for hash in &hashes {
        bytes.extend_from_slice(hash.as_bytes());
    }
    for folder in &folders {
        bytes.extend_from_slice(&folder.path);
    }
    for folder in &folders {
        bytes.extend_from_slice(&folder.names);
    }
    bytes.extend_from_slice(&END);
    bytes
}

/// Replaces a table atomically.
pub(super) fn replace(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = place.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(place).map_err(|error| error.error)?;
    Ok(())
}
