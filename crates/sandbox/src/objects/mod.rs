//! [`Objects`]: content addressed by its hash, in files next to the sandbox.
//!
//! Stores all content of a sandbox's history, compressed, until the sandbox is removed. A few new contents are stored
//! in a file each, many small ones together in a [`pack`]. Incomplete objects are never visible.

mod pack;

use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use cleveragents_domain::ContentHash;
use sha2::{Digest as _, Sha256};

use crate::scan_cancel::ScanCancel;
use pack::{Pack, Writer};

/// Maximum size of content that is loaded completely, in bytes. Larger content is read twice: once to hash it, once to
/// store it.
const MAX_BUFFERED_BYTES: u64 = 4 << 20;
/// Maximum size of stored content, in bytes. The history records a larger file and can remove it, but cannot restore or
/// apply it. Otherwise a huge sparse file would block every operation.
pub const MAX_CONTENT_BYTES: u64 = 16 << 30;
const COMPRESSION_LEVEL: i32 = 1;

/// Maximum number of new files that are synced one by one. For more files, one call syncs the whole file system.
const MAX_SINGLE_SYNCS: usize = 64;

/// Maximum number of unsynced separate files. Further small contents go into a pack.
const MAX_LOOSE: usize = 8;

/// A content store.
#[derive(Debug)]
pub(crate) struct Objects {
    folder: PathBuf,
    /// New files that are not durable yet.
    unsynced: Vec<PathBuf>,
    /// Pack of new content that is not durable yet.
    writer: Option<Writer>,
    /// Complete packs, opened at the first lookup.
    packs: OnceCell<Vec<Pack>>,
    /// Cancels long operations.
    stop: ScanCancel,
}

impl Objects {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            unsynced: Vec::new(),
            writer: None,
            packs: OnceCell::new(),
            stop: ScanCancel::default(),
        })
    }

    /// Sets the cancellation.
    pub(crate) fn stopping(self, stop: &ScanCancel) -> Self {
        Self {
            stop: stop.clone(),
            ..self
        }
    }

    fn place(&self, hash: ContentHash) -> PathBuf {
        let hex = hash.hex();
        self.folder.join(&hex[..2]).join(&hex[2..])
    }

    /// The folder of packs. No hash starts with its name.
    fn pack_folder(&self) -> PathBuf {
        self.folder.join("packs")
    }

    fn packs(&self) -> io::Result<&[Pack]> {
        if let Some(packs) = self.packs.get() {
            return Ok(packs);
        }
        let packs = Pack::open_all(&self.pack_folder())?;
        Ok(self.packs.get_or_init(|| packs))
    }

    fn contains(&self, hash: ContentHash) -> io::Result<bool> {
        if self
            .writer
            .as_ref()
            .is_some_and(|writer| writer.holds(hash))
        {
            return Ok(true);
        }
        for pack in self.packs()? {
            if pack.find(hash)?.is_some() {
                return Ok(true);
            }
        }
        Ok(self.place(hash).exists())
    }

    /// Stores bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<ContentHash> {
        let hash = ContentHash::of_bytes(bytes);
        if self.contains(hash)? {
            return Ok(hash);
        }
        if self.unsynced.len() < MAX_LOOSE || bytes.len() > pack::LARGEST {
            self.write(hash, &mut &*bytes)?;
            return Ok(hash);
        }
        let writer = if let Some(writer) = &mut self.writer {
            writer
        } else {
            let folder = self.folder.join("packs");
            self.writer.insert(Writer::create(&folder)?)
        };
        writer.add(hash, bytes)?;
        Ok(hash)
    }

    /// Stores the content of a file. Returns its hash and length; `None` if the file changes while it is read.
    pub(crate) fn put_file(
        &mut self,
        file: &mut File,
        size: u64,
    ) -> io::Result<Option<(ContentHash, u64)>> {
        use std::io::Seek as _;
        if size <= MAX_BUFFERED_BYTES {
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
            file.read_to_end(&mut bytes)?;
            return Ok(Some((self.put(&bytes)?, bytes.len() as u64)));
        }
        let (hash, length) = hash_until(file, &self.stop)?;
        if self.contains(hash)? {
            return Ok(Some((hash, length)));
        }
        file.rewind()?;
        match self.write(hash, file) {
            Ok(()) => Ok(Some((hash, length))),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, hash: ContentHash, content: &mut dyn Read) -> io::Result<()> {
        let place = self.place(hash);
        let folder = place.parent().unwrap_or(&self.folder);
        std::fs::create_dir_all(folder)?;
        let temporary = tempfile::NamedTempFile::new_in(folder)?;
        let mut encoder = zstd::stream::Encoder::new(temporary, COMPRESSION_LEVEL)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = content.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            encoder.write_all(&buffer[..count])?;
            self.stop.check()?;
        }
        if ContentHash::from(hasher) != hash {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the content changed while it was read",
            ));
        }
        let temporary = encoder.finish()?;
        temporary.persist(&place).map_err(|error| error.error)?;
        self.unsynced.push(place);
        Ok(())
    }

    /// Whether stored content can be read and matches its hash.
    pub(crate) fn is_sound(&self, hash: ContentHash) -> bool {
        self.open_object(hash)
            .ok()
            .flatten()
            .is_some_and(|mut object| io::copy(&mut object, &mut io::sink()).is_ok())
    }

    /// Opens stored content; `None` if it is not stored. Reading to the end fails if the content does not match its
    /// hash.
    pub(crate) fn open_object(&self, hash: ContentHash) -> io::Result<Option<impl Read + use<>>> {
        let content: Box<dyn Read> = if let Some(bytes) = self.read_packed(hash)? {
            Box::new(io::Cursor::new(bytes))
        } else {
            match File::open(self.place(hash)) {
                Ok(file) => Box::new(zstd::stream::Decoder::new(file)?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        };
        Ok(Some(VerifyingReader {
            content,
            hasher: Sha256::new(),
            hash,
        }))
    }

    /// Unverified content from a pack; `None` if no pack contains it.
    fn read_packed(&self, hash: ContentHash) -> io::Result<Option<Vec<u8>>> {
        if let Some(writer) = &self.writer
            && let Some(bytes) = writer.read(hash)?
        {
            return Ok(Some(bytes));
        }
        for pack in self.packs()? {
            if let Some(span) = pack.find(hash)? {
                return pack.read(&span).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads stored content completely.
    pub(crate) fn read(&self, hash: ContentHash) -> io::Result<Option<Vec<u8>>> {
        let Some(mut object) = self.open_object(hash)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        object.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Stores content of another store. Returns `false` if the other store lacks it.
    pub(crate) fn import(&mut self, other: &Self, hash: ContentHash) -> io::Result<bool> {
        if self.contains(hash)? {
            return Ok(true);
        }
        let Some(mut object) = other.open_object(hash)? else {
            return Ok(false);
        };
        let mut start = Vec::new();
        (&mut object)
            .take(MAX_BUFFERED_BYTES)
            .read_to_end(&mut start)?;
        if (start.len() as u64) < MAX_BUFFERED_BYTES {
            self.put(&start)?;
        } else {
            self.write(hash, &mut io::Cursor::new(start).chain(object))?;
        }
        Ok(true)
    }

    /// Makes all content stored since the last call durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if let Some(writer) = self.writer.take() {
            let pack = writer.finish()?;
            if let Some(packs) = self.packs.get_mut() {
                packs.push(pack);
            }
        }
        let unsynced = std::mem::take(&mut self.unsynced);
        if unsynced.len() > MAX_SINGLE_SYNCS {
            rustix::fs::syncfs(File::open(&self.folder)?)?;
            return Ok(());
        }
        for place in unsynced {
            File::open(&place)?.sync_data()?;
            if let Some(folder) = place.parent() {
                File::open(folder)?.sync_data()?;
            }
        }
        Ok(())
    }
}

/// A reader that verifies the content against its hash.
struct VerifyingReader<R> {
    content: R,
    hasher: Sha256,
    hash: ContentHash,
}

impl<R: Read> Read for VerifyingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        if count == 0 && !buffer.is_empty() && ContentHash::from(self.hasher.clone()) != self.hash {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the stored content is damaged",
            ));
        }
        Ok(count)
    }
}

/// Hashes a stream and counts its bytes.
pub(crate) fn hash_of(content: &mut dyn Read) -> io::Result<(ContentHash, u64)> {
    hash_until(content, &ScanCancel::default())
}

fn hash_until(content: &mut dyn Read, stop: &ScanCancel) -> io::Result<(ContentHash, u64)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        let count = content.read(&mut buffer)?;
        if count == 0 {
            return Ok((ContentHash::from(hasher), length));
        }
        hasher.update(&buffer[..count]);
        length += count as u64;
        stop.check()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(number: usize) -> Vec<u8> {
        format!("content {number}\n")
            .repeat(number % 50)
            .into_bytes()
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let place = entry.expect("an entry").path();
            if place.is_dir() {
                paths.extend(files(&place));
            } else {
                paths.push(place);
            }
        }
        paths
    }

    #[test]
    fn many_contents_share_a_file_and_are_readable_before_and_after_sync() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut objects = Objects::open(folder.path()).expect("objects");
        let hashes: Vec<ContentHash> = (0..3_000)
            .map(|number| objects.put(&content(number)).expect("kept"))
            .collect();
        let check = |objects: &Objects| {
            for (number, hash) in hashes.iter().enumerate() {
                assert_eq!(objects.read(*hash).expect("read"), Some(content(number)));
                assert!(objects.is_sound(*hash));
            }
            let absent = ContentHash::of_bytes(b"absent");
            assert_eq!(objects.read(absent).expect("read"), None);
            assert!(!objects.is_sound(absent));
        };
        check(&objects);
        objects.sync().expect("durable");
        check(&objects);
        let reopened = Objects::open(folder.path()).expect("objects");
        check(&reopened);
        assert!(files(folder.path()).len() <= MAX_LOOSE + 2);
    }

    #[test]
    fn content_in_a_pack_is_not_stored_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let keep_all = || {
            let mut objects = Objects::open(folder.path()).expect("objects");
            for number in 0..200 {
                objects.put(&content(number)).expect("kept");
            }
            objects.sync().expect("durable");
            files(folder.path()).len()
        };
        assert_eq!(keep_all(), keep_all());
    }

    /// A killed process may leave a pack without a list, or with an incomplete list.
    #[test]
    fn a_pack_with_an_incomplete_list_is_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut objects = Objects::open(folder.path()).expect("objects");
        for number in 0..200 {
            objects.put(&content(number)).expect("kept");
        }
        objects.sync().expect("durable");
        let list = files(folder.path())
            .into_iter()
            .find(|place| place.extension().is_some_and(|end| end == "list"))
            .expect("a list");
        let complete = std::fs::read(&list).expect("a list");
        let hash = ContentHash::of_bytes(&content(151));
        for length in [0, 8, 500, 1032, complete.len() - 1] {
            std::fs::write(&list, &complete[..length]).expect("cut");
            let mut objects = Objects::open(folder.path()).expect("objects");
            assert_eq!(objects.read(hash).expect("read"), None, "{length}");
            objects.put(&content(1_000)).expect("kept");
        }
        std::fs::write(&list, &complete).expect("whole again");
        let objects = Objects::open(folder.path()).expect("objects");
        assert_eq!(objects.read(hash).expect("read"), Some(content(151)));
    }

    #[test]
    fn damaged_content_of_a_pack_is_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut objects = Objects::open(folder.path()).expect("objects");
        for number in 0..200 {
            objects.put(&content(number)).expect("kept");
        }
        objects.sync().expect("durable");
        let pack = files(folder.path())
            .into_iter()
            .find(|place| place.extension().is_some_and(|end| end == "pack"))
            .expect("a pack");
        let length = std::fs::metadata(&pack).expect("facts").len();
        std::fs::write(&pack, vec![7; usize::try_from(length).expect("small")]).expect("damaged");
        let objects = Objects::open(folder.path()).expect("objects");
        let hash = ContentHash::of_bytes(&content(151));
        assert!(!objects.is_sound(hash));
        assert!(objects.read(hash).is_err());
    }
}
