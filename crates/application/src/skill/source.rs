//! [`SkillSource`]: where a skill comes from, and reading it.

use std::path::{Path, PathBuf};

use cleveragents_domain::yaml::Variables;
use cleveragents_skills::agent::AgentSkill;
use cleveragents_skills::{Definition, collection};
use cleveragents_tools::FileError;

/// A skill as somebody gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillSource {
    /// The text of a YAML file; `file` should be absolute, since what is beside it is found by it.
    File {
        /// The text.
        text: String,
        /// The file.
        file: PathBuf,
    },
    /// A folder with a `SKILL.md`.
    Folder(PathBuf),
}

impl SkillSource {
    /// The source of a stored definition: a folder is stored as the path of its `SKILL.md`.
    pub(super) fn stored(text: &str, source: &str) -> Self {
        let file = PathBuf::from(source);
        match folder_of(&file) {
            Some(folder) => Self::Folder(folder.to_owned()),
            None => Self::File {
                text: text.to_owned(),
                file,
            },
        }
    }

    /// What it says.
    pub(super) fn read(&self, variables: Variables<'_>) -> Result<Definition, FileError> {
        match self {
            Self::File { text, file } => collection::read(text, file, variables)
                .map(|skill| Definition::Collection(Box::new(skill))),
            Self::Folder(folder) => {
                AgentSkill::read(folder).map(|skill| Definition::Agent(Box::new(skill)))
            }
        }
    }

    /// What is stored: a text, and where it was.
    pub(super) fn kept(&self) -> (String, String) {
        match self {
            Self::File { text, file } => (text.clone(), file.display().to_string()),
            // The folder itself is read whenever the skill is used; its text is not kept twice.
            Self::Folder(folder) => {
                let file = folder.join("SKILL.md");
                (String::new(), file.display().to_string())
            }
        }
    }
}

/// The folder of an agent skill, given its `SKILL.md`.
pub(super) fn folder_of(file: &Path) -> Option<&Path> {
    let name = file.file_name()?;
    name.eq_ignore_ascii_case("SKILL.md")
        .then(|| file.parent())
        .flatten()
}
