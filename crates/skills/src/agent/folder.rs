//! [`AgentSkill`]: the folder of a skill, read and looked over.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cleveragents_domain::yaml::Fault;
use cleveragents_domain::{FileKind, FileMode, Name, TreePath};
use cleveragents_sandbox::Root;
use cleveragents_tools::FileError;

use super::inspect::{complain, inspect};

/// The names under which the file of a skill is found; the first is the usual one.
pub(super) const FILES: [&str; 2] = ["SKILL.md", "skill.md"];

/// So many files of a skill are listed.
const MOST_FILES: usize = 200;

/// A step that the front matter names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its number, from 1.
    pub number: usize,
    /// What to do.
    pub text: String,
}

/// A folder with a `SKILL.md`.
#[derive(Debug, Clone)]
pub struct AgentSkill {
    /// What it calls itself.
    pub name: String,
    /// What it is registered under.
    pub registered: Name,
    /// What it does and when to use it.
    pub description: String,
    /// Its license, in its own words.
    pub license: Option<String>,
    /// What it needs, in its own words.
    pub compatibility: Option<String>,
    /// Whatever else it says of itself.
    pub metadata: BTreeMap<String, String>,
    /// The tools that it asks for. They are shown; they permit nothing.
    pub allowed_tools: Vec<String>,
    /// Its steps.
    pub steps: Vec<Step>,
    /// Its instructions.
    pub body: String,
    /// Where it is.
    pub folder: PathBuf,
    /// What other readers of the standard would not accept.
    pub departures: Vec<FileError>,
}

impl AgentSkill {
    /// Reads the skill of a folder; the first thing that is wrong is the error.
    pub fn read(folder: &Path) -> Result<Self, FileError> {
        let inspected = inspect(folder);
        match (inspected.skill, inspected.wrong.into_iter().next()) {
            (Some(skill), None) => Ok(skill),
            (_, Some(error)) => Err(error),
            (None, None) => Err(complain(folder, Fault::new("there is no skill"))),
        }
    }

    /// Its folder, opened.
    pub(crate) fn root(&self) -> io::Result<Root> {
        Root::open(&self.folder)
    }

    /// Its files but for `SKILL.md`, as paths from its folder; links are not followed.
    pub fn files(&self) -> io::Result<Vec<String>> {
        let root = self.root()?;
        let mut files = Vec::new();
        let mut folders: Vec<Option<TreePath>> = vec![None];
        while let Some(folder) = folders.pop() {
            for (name, stat) in root.entries(folder.as_ref())? {
                let path = match &folder {
                    Some(folder) => folder.join(&name),
                    None => TreePath::from_bytes(name),
                };
                let Ok(path) = path else { continue };
                match stat.mode.map(FileMode::kind) {
                    Some(FileKind::Directory) if path.depth() < 8 => folders.push(Some(path)),
                    Some(FileKind::File | FileKind::Symlink) => files.push(path.to_string()),
                    _ => {}
                }
            }
            if files.len() > MOST_FILES {
                break;
            }
        }
        files.retain(|file| !FILES.contains(&file.as_str()));
        files.sort();
        files.truncate(MOST_FILES);
        Ok(files)
    }

    /// Whether it has scripts to run.
    pub fn has_scripts(&self) -> bool {
        self.files()
            .is_ok_and(|files| files.iter().any(|file| file.starts_with("scripts/")))
    }
}

/// The folders of skills at a path: the path itself when it holds a `SKILL.md`, else the folders in
/// it that do, by name.
pub fn find(path: &Path) -> io::Result<Vec<PathBuf>> {
    let holds = |folder: &Path| FILES.iter().any(|file| folder.join(file).is_file());
    if holds(path) {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let folder = entry?.path();
        if holds(&folder) {
            found.push(folder);
        }
    }
    found.sort();
    Ok(found)
}
