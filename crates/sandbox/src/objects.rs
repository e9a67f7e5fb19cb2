//! [`Objects`]: content under the name of its hash, in files beside the sandbox.
//!
//! What a sandbox held at any moment of its history is kept here, compressed, until the sandbox is
//! gone. An object is complete from the moment it has its name.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use cleveragents_domain::ContentHash;
use sha2::{Digest as _, Sha256};

use crate::stop::Stop;

/// Content up to this size is read once; larger content twice, never as a whole.
const IN_MEMORY: u64 = 4 << 20;
/// Content above this size is not kept: the history knows such a file and can remove it, but not bring it back
/// or apply it. It keeps a file of a size that no disk has from holding up everything.
pub const LARGEST_KEPT: u64 = 16 << 30;
const COMPRESSION_LEVEL: i32 = 1;

/// So many new objects are made durable one by one; more with one call for the whole file system.
const SYNC_ONE_BY_ONE: usize = 64;

/// A store of content.
#[derive(Debug)]
pub(crate) struct Objects {
    folder: PathBuf,
    fresh: Vec<PathBuf>,
    /// Ends what takes long.
    stop: Stop,
}

impl Objects {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            fresh: Vec::new(),
            stop: Stop::default(),
        })
    }

    /// The same, ending when it has to.
    pub(crate) fn stopping(self, stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            ..self
        }
    }

    fn place(&self, hash: ContentHash) -> PathBuf {
        let hex = hash.hex();
        self.folder.join(&hex[..2]).join(&hex[2..])
    }

    pub(crate) fn holds(&self, hash: ContentHash) -> bool {
        self.place(hash).exists()
    }

    /// Keeps bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<ContentHash> {
        let hash = ContentHash::of(bytes);
        if !self.holds(hash) {
            self.write(hash, &mut &*bytes)?;
        }
        Ok(hash)
    }

    /// Keeps the content of a file. `None` when it changes while it is read.
    pub(crate) fn put_file(
        &mut self,
        file: &mut File,
        size: u64,
    ) -> io::Result<Option<(ContentHash, u64)>> {
        use std::io::Seek as _;
        if size <= IN_MEMORY {
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
            file.read_to_end(&mut bytes)?;
            return Ok(Some((self.put(&bytes)?, bytes.len() as u64)));
        }
        let (hash, length) = hash_until(file, &self.stop)?;
        if self.holds(hash) {
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
        self.fresh.push(place);
        Ok(())
    }

    /// Whether kept content can be read and is what its name says.
    pub(crate) fn is_sound(&self, hash: ContentHash) -> bool {
        self.open_object(hash)
            .ok()
            .flatten()
            .is_some_and(|mut object| io::copy(&mut object, &mut io::sink()).is_ok())
    }

    /// Opens kept content. `None` when it is not kept. Reading it to the end fails when it is not what
    /// its name says.
    pub(crate) fn open_object(&self, hash: ContentHash) -> io::Result<Option<impl Read + use<>>> {
        match File::open(self.place(hash)) {
            Ok(file) => Ok(Some(Checked {
                content: zstd::stream::Decoder::new(file)?,
                hasher: Sha256::new(),
                hash,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of some kept content.
    pub(crate) fn read(&self, hash: ContentHash) -> io::Result<Option<Vec<u8>>> {
        let Some(mut object) = self.open_object(hash)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        object.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Makes what was kept since the last call survive a power cut.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh.len() > SYNC_ONE_BY_ONE {
            rustix::fs::syncfs(File::open(&self.folder)?)?;
            return Ok(());
        }
        for place in fresh {
            File::open(&place)?.sync_data()?;
            if let Some(folder) = place.parent() {
                File::open(folder)?.sync_data()?;
            }
        }
        Ok(())
    }
}

/// Content that is compared with its name as it is read.
struct Checked<R> {
    content: R,
    hasher: Sha256,
    hash: ContentHash,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        if count == 0 && !buffer.is_empty() && ContentHash::from(self.hasher.clone()) != self.hash {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the kept content is damaged",
            ));
        }
        Ok(count)
    }
}

/// Hashes a stream and counts its bytes.
pub(crate) fn hash_of(content: &mut dyn Read) -> io::Result<(ContentHash, u64)> {
    hash_until(content, &Stop::default())
}

fn hash_until(content: &mut dyn Read, stop: &Stop) -> io::Result<(ContentHash, u64)> {
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
