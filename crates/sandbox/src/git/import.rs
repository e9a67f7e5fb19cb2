//! [`Import`]: stores content as git blobs, in a few packs instead of one file each.
//!
//! Git writes a file for every blob that it adds to an index, which is slow for thousands of blobs. `fast-import`
//! writes one pack instead. It runs in an empty repository in the scratch folder and receives only content, no paths or
//! references.

use std::path::{Path, PathBuf};

use super::program::Git;
use crate::error::{Error, PathContext as _};

/// Size above which a batch is passed to git, in bytes.
const BATCH_BYTES: usize = 16 << 20;

/// Content to be written into packs.
pub(super) struct Import {
    git: Git,
    /// File in which git writes the object ids of the blobs.
    marks: PathBuf,
    /// Input of the next git run.
    stream: Vec<u8>,
    /// Number of blobs in `stream`.
    count: usize,
    object_ids: Vec<String>,
}

impl Import {
    /// Prepares an import into the object folder `objects`. `scratch` is a folder for temporary files.
    pub(super) fn new(scratch: &Path, object_format: &str, objects: &Path) -> Result<Self, Error> {
        let repository = scratch.join("import.git");
        make_repository(&repository, object_format).during("making", &repository)?;
        Ok(Self {
            git: Git::at(&repository)
                .with("GIT_DIR", &repository)
                .with("GIT_OBJECT_DIRECTORY", objects)
                .with("GIT_CONFIG_NOSYSTEM", "1")
                .with("GIT_CONFIG_GLOBAL", "/dev/null"),
            marks: repository.join("marks"),
            stream: Vec::new(),
            count: 0,
            object_ids: Vec::new(),
        })
    }

    pub(super) fn add(&mut self, content: &[u8]) -> Result<(), Error> {
        self.count += 1;
        let head = format!("blob\nmark :{}\ndata {}\n", self.count, content.len());
        self.stream.extend_from_slice(head.as_bytes());
        self.stream.extend_from_slice(content);
        self.stream.push(b'\n');
        if self.stream.len() >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// The object ids of all blobs, in the order in which they were added.
    pub(super) fn finish(mut self) -> Result<Vec<String>, Error> {
        self.flush()?;
        Ok(self.object_ids)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.count == 0 {
            return Ok(());
        }
        let marks = format!("--export-marks={}", self.marks.display());
        // `--depth=0` turns off delta compression, which costs more time than it saves.
        let arguments = ["fast-import", "--quiet", "--depth=0", &marks];
        self.git.run_with(&arguments, &self.stream)?;
        let printed = std::fs::read_to_string(&self.marks).during("reading", &self.marks)?;
        let mut object_ids = vec![String::new(); self.count];
        for line in printed.lines() {
            let mark = line.strip_prefix(':').and_then(|line| line.split_once(' '));
            let place = mark.and_then(|(mark, name)| Some((mark.parse::<usize>().ok()?, name)));
            if let Some((mark, name)) = place
                && let Some(slot) = mark.checked_sub(1).and_then(|at| object_ids.get_mut(at))
            {
                name.clone_into(slot);
            }
        }
        if object_ids.iter().any(String::is_empty) {
            return Err(Error::Git {
                command: "fast-import".to_owned(),
                message: "it returned no object id for some blobs".to_owned(),
            });
        }
        self.object_ids.extend(object_ids);
        self.stream.clear();
        self.count = 0;
        Ok(())
    }
}

fn make_repository(place: &Path, object_format: &str) -> std::io::Result<()> {
    for folder in ["objects", "refs"] {
        std::fs::create_dir_all(place.join(folder))?;
    }
    std::fs::write(place.join("HEAD"), "ref: refs/heads/none\n")?;
    let config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\
         [extensions]\n\tobjectFormat = {object_format}\n"
    );
    std::fs::write(place.join("config"), config)
}
