//! [`AgentSkill`]: the folder of a skill, parsed and validated.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cleveragents_domain::yaml::Fault;
use cleveragents_domain::{DefinitionFileError, FileKind, FileMode, Name, TreePath};
use cleveragents_sandbox::Root;

use super::inspect::{file_error, inspect};

/// File names of a skill, in order of precedence.
pub(super) const FILES: [&str; 2] = ["SKILL.md", "skill.md"];

/// Maximum number of listed files.
const MAX_FILES: usize = 200;

/// A step in the front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Number, from 1.
    pub number: usize,
    /// Instruction of the step.
    pub text: String,
}

/// A folder with a `SKILL.md`.
#[derive(Debug, Clone)]
pub struct AgentSkill {
    /// Name in the front matter of `SKILL.md`.
    pub name: String,
    /// Name under which the skill is registered.
    pub registered: Name,
    /// Purpose of the skill, and when to use it.
    pub description: String,
    /// License, as the front matter states it.
    pub license: Option<String>,
    /// Requirements, as the front matter states them.
    pub compatibility: Option<String>,
    /// Further metadata.
    pub metadata: BTreeMap<String, String>,
    /// Tools that the skill requests. They are shown to the user, but grant no permission.
    pub allowed_tools: Vec<String>,
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Instructions for the model.
    pub body: String,
    pub folder: PathBuf,
    /// Deviations from the standard that other programs may reject.
    pub deviations: Vec<DefinitionFileError>,
}

impl AgentSkill {
    /// Reads the skill of a folder; returns the first problem as the error.
    pub fn read(folder: &Path) -> Result<Self, DefinitionFileError> {
        let inspected = inspect(folder);
        match (inspected.skill, inspected.errors.into_iter().next()) {
            (Some(skill), None) => Ok(skill),
            (_, Some(error)) => Err(error),
            (None, None) => Err(file_error(
                folder,
                Fault::new("there is no skill in this folder"),
            )),
        }
    }

    /// Opens the folder of the skill.
    pub(crate) fn root(&self) -> io::Result<Root> {
        Root::open(&self.folder)
    }

    /// Paths of all files except `SKILL.md`, relative to the folder. Symlinks are not followed.
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
            if files.len() > MAX_FILES {
                break;
            }
        }
        files.retain(|file| !FILES.contains(&file.as_str()));
        files.sort();
        files.truncate(MAX_FILES);
        Ok(files)
    }

    /// Whether the skill has scripts.
    pub fn has_scripts(&self) -> bool {
        self.files()
            .is_ok_and(|files| files.iter().any(|file| file.starts_with("scripts/")))
    }
}

/// Returns the folders of skills at a path: the path itself if it contains a `SKILL.md`, otherwise
/// its subfolders that contain one, sorted by name.
pub fn find(path: &Path) -> io::Result<Vec<PathBuf>> {
    let has_skill_file = |folder: &Path| FILES.iter().any(|file| folder.join(file).is_file());
    if has_skill_file(path) {
        return Ok(vec![path.to_owned()]);
    }
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let folder = entry?.path();
        if has_skill_file(&folder) {
            folders.push(folder);
        }
    }
    folders.sort();
    Ok(folders)
}
