//! [`SkillSource`]: origin of a skill, and reading it.

use std::path::{Path, PathBuf};

use cleveragents_domain::DefinitionFileError;
use cleveragents_domain::yaml::Variables;
use cleveragents_skills::agent::AgentSkill;
use cleveragents_skills::{Definition, collection};

/// A skill as given by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillSource {
    /// The text of a YAML file. `file` should be absolute, because other files are located relative to it.
    File {
        /// Content of the file.
        text: String,
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

    /// Parses the skill.
    pub(super) fn read(&self, variables: Variables<'_>) -> Result<Definition, DefinitionFileError> {
        match self {
            Self::File { text, file } => collection::read(text, file, variables)
                .map(|skill| Definition::Collection(Box::new(skill))),
            Self::Folder(folder) => {
                AgentSkill::read(folder).map(|skill| Definition::Agent(Box::new(skill)))
            }
        }
    }

    /// The stored text and source.
    pub(super) fn text_and_path(&self) -> (String, String) {
        match self {
            Self::File { text, file } => (text.clone(), file.display().to_string()),
            // The folder is read whenever the skill is used, so its text is not stored.
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
