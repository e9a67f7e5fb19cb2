//! Packs: many small contents in one file, each compressed separately, with a list of their offsets.
//!
//! A separate file for each of thousands of small contents would cost far more than the content. The list is written
//! after its pack is durable; a pack without a list counts as empty.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::ContentHash;

use super::COMPRESSION_LEVEL;

/// Maximum size of content in a pack, in bytes.
pub(super) const LARGEST: usize = 1 << 20;

/// Number of bytes buffered before a write.
const BUFFER_BYTES: usize = 256 << 10;

const MAGIC: [u8; 8] = *b"CAlist01";
const END: [u8; 8] = *b"CAlstEND";

/// Length of the header: the magic, then for each byte value the number of rows whose hashes start with that or a lower
/// value.
const HEADER_BYTES: usize = 8 + 256 * 4;

/// Length of a row: hash, offset, compressed length and size of a content.
const ROW_BYTES: usize = 48;

const LIST: &str = "list";
const PACK: &str = "pack";

/// Location of a content in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    offset: u64,
    length: u32,
    /// Uncompressed size in bytes.
    size: u32,
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the stored content is damaged")
}

fn decompress(bytes: &[u8], size: u32) -> io::Result<Vec<u8>> {
    thread_local! {
        static DECOMPRESSOR: std::cell::RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { std::cell::RefCell::new(None) };
    }
    let size = size as usize;
    if size > LARGEST {
        return Err(unreadable());
    }
    DECOMPRESSOR.with_borrow_mut(|cached| {
        let decompressor = match cached {
            Some(decompressor) => decompressor,
            None => cached.insert(zstd::bulk::Decompressor::new()?),
        };
        decompressor
            .decompress(bytes, size)
            .map_err(|_| unreadable())
    })
}

/// A pack that is being written.
pub(super) struct Writer {
    file: tempfile::NamedTempFile,
    /// Bytes that are not in the file yet.
    pending: Vec<u8>,
    /// Number of bytes in the file.
    written: u64,
    spans: HashMap<ContentHash, Span>,
    compressor: zstd::bulk::Compressor<'static>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.spans.len();
        formatter
            .debug_struct("Writer")
            .field("count", &count)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts a pack in a folder, which is created if missing. Dropping an unfinished pack leaves no file.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            file: tempfile::Builder::new()
                .prefix("")
                .suffix(&format!(".{PACK}"))
                .tempfile_in(folder)?,
            pending: Vec::with_capacity(BUFFER_BYTES),
            written: 0,
            spans: HashMap::new(),
            compressor: zstd::bulk::Compressor::new(COMPRESSION_LEVEL)?,
        })
    }

    pub(super) fn holds(&self, hash: ContentHash) -> bool {
        self.spans.contains_key(&hash)
    }

    /// Adds content of at most [`LARGEST`] bytes.
    pub(super) fn add(&mut self, hash: ContentHash, content: &[u8]) -> io::Result<()> {
        let packed = self.compressor.compress(content)?;
        let span = Span {
            offset: self.written + self.pending.len() as u64,
            length: u32::try_from(packed.len()).map_err(io::Error::other)?,
            size: u32::try_from(content.len()).map_err(io::Error::other)?,
        };
        self.pending.extend_from_slice(&packed);
        self.spans.insert(hash, span);
        if self.pending.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.pending)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Content that was added to this pack.
    pub(super) fn read(&self, hash: ContentHash) -> io::Result<Option<Vec<u8>>> {
        let Some(span) = self.spans.get(&hash) else {
            return Ok(None);
        };
        let packed = match span.offset.checked_sub(self.written) {
            Some(at) => {
                let at = usize::try_from(at).map_err(io::Error::other)?;
                let rest = self.pending.get(at..at + span.length as usize);
                rest.ok_or_else(unreadable)?.to_vec()
            }
            None => read_at(self.file.as_file(), span)?,
        };
        decompress(&packed, span.size).map(Some)
    }

    /// Makes the pack durable, then its list.
    pub(super) fn finish(mut self) -> io::Result<Pack> {
        self.flush()?;
        self.file.as_file().sync_data()?;
        let (_, place) = self.file.keep().map_err(|error| error.error)?;
        let mut rows: Vec<(ContentHash, Span)> = self.spans.into_iter().collect();
        rows.sort_unstable_by(|left, right| left.0.as_bytes().cmp(right.0.as_bytes()));
        let folder = place.parent().unwrap_or_else(|| Path::new("."));
        let mut list = tempfile::NamedTempFile::new_in(folder)?;
        list.write_all(&encode(&rows))?;
        list.as_file().sync_data()?;
        let list_place = place.with_extension(LIST);
        list.persist(&list_place).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()?;
        Pack::open(&list_place)
    }
}

/// The bytes of a list, with rows sorted by hash.
fn encode(rows: &[(ContentHash, Span)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + rows.len() * ROW_BYTES + END.len());
    bytes.extend_from_slice(&MAGIC);
    let mut counted = 0;
    for first in 0..=u8::MAX {
        let of_first = rows[counted..].iter();
        counted += of_first
            .take_while(|(hash, _)| hash.as_bytes()[0] == first)
            .count();
        let count = u32::try_from(counted).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    for (hash, span) in rows {
        bytes.extend_from_slice(hash.as_bytes());
        bytes.extend_from_slice(&span.offset.to_le_bytes());
        bytes.extend_from_slice(&span.length.to_le_bytes());
        bytes.extend_from_slice(&span.size.to_le_bytes());
    }
    bytes.extend_from_slice(&END);
    bytes
}

fn read_at(file: &File, span: &Span) -> io::Result<Vec<u8>> {
    // Compressed content is at most slightly longer than the content.
    if span.length as usize > LARGEST * 2 {
        return Err(unreadable());
    }
    let mut packed = vec![0; span.length as usize];
    file.read_exact_at(&mut packed, span.offset)
        .map_err(|_| unreadable())?;
    Ok(packed)
}

/// A complete pack.
#[derive(Debug)]
pub(super) struct Pack {
    list: File,
    contents: File,
    /// For each byte value, the number of rows whose hashes start with that or a lower value.
    counts: Vec<u32>,
}

impl Pack {
    /// Opens all packs in a folder. Skips packs with an unreadable list.
    pub(super) fn open_all(folder: &Path) -> io::Result<Vec<Self>> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut lists: Vec<PathBuf> = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        lists.retain(|place| place.extension().is_some_and(|end| end == LIST));
        lists.sort_unstable();
        Ok(lists
            .iter()
            .filter_map(|list| Self::open(list).ok())
            .collect())
    }

    fn open(place: &Path) -> io::Result<Self> {
        let list = File::open(place)?;
        let pack = File::open(place.with_extension(PACK))?;
        let mut head = [0; HEADER_BYTES];
        list.read_exact_at(&mut head, 0)?;
        let counts = head.strip_prefix(&MAGIC).ok_or_else(unreadable)?;
        let counts: Vec<u32> = counts
            .as_chunks()
            .0
            .iter()
            .map(|count| u32::from_le_bytes(*count))
            .collect();
        let rows = u64::from(counts.last().copied().unwrap_or(0));
        let end = HEADER_BYTES as u64 + rows * ROW_BYTES as u64;
        let mut mark = [0; END.len()];
        list.read_exact_at(&mut mark, end)?;
        let is_sound = mark == END && counts.is_sorted();
        is_sound
            .then_some(Self {
                list,
                contents: pack,
                counts,
            })
            .ok_or_else(unreadable)
    }

    pub(super) fn find(&self, hash: ContentHash) -> io::Result<Option<Span>> {
        let first = usize::from(hash.as_bytes()[0]);
        let to = self.counts[first] as usize;
        let from = first
            .checked_sub(1)
            .map_or(0, |before| self.counts[before] as usize);
        let mut bytes = vec![0; (to - from) * ROW_BYTES];
        self.list
            .read_exact_at(&mut bytes, (HEADER_BYTES + from * ROW_BYTES) as u64)?;
        let rows: &[[u8; ROW_BYTES]] = bytes.as_chunks().0;
        let Ok(at) = rows.binary_search_by(|row| row[..32].cmp(hash.as_bytes())) else {
            return Ok(None);
        };
        let row = &rows[at];
        let number = |from: usize| {
            let bytes = row[from..from + 4].try_into().map_err(|_| unreadable())?;
            io::Result::Ok(u32::from_le_bytes(bytes))
        };
        let offset = row[32..40].try_into().map_err(|_| unreadable())?;
        Ok(Some(Span {
            offset: u64::from_le_bytes(offset),
            length: number(40)?,
            size: number(44)?,
        }))
    }

    pub(super) fn read(&self, span: &Span) -> io::Result<Vec<u8>> {
        decompress(&read_at(&self.contents, span)?, span.size)
    }
}
