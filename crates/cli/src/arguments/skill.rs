//! `skill`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Deletion;

#[derive(Debug, Subcommand)]
pub(crate) enum Skill {
    /// Register a skill: a YAML file, or a folder with a SKILL.md
    #[command(
        after_help = "The content of a YAML file is stored; `agents skill refresh` reads the file again. A folder is read
at every use. `agents schema skill` prints the JSON schema of such files, for editors.

Examples:
  agents skill add files.yaml
  agents skill add ./skills/pdf-tools
  agents skill add --config files.yaml --update"
    )]
    Add(SkillAdd),
    /// List skills
    #[command(after_help = "Example:
  agents --format json skill list")]
    List,
    /// Show a skill: content, permissions and users of the skill
    #[command(after_help = "Example:
  agents skill show local/files")]
    Show(SkillReference),
    /// List the tools of a skill, including those of included skills
    #[command(after_help = "Example:
  agents --format json skill tools local/files")]
    Tools(SkillReference),
    /// Read the files of registered skills again
    #[command(
        after_help = "An invalid file changes nothing: the registered content stays.

Examples:
  agents skill refresh
  agents skill refresh local/files"
    )]
    Refresh {
        /// Only this skill; all when not given
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Check a YAML file or a folder with a SKILL.md, without registering it
    #[command(
        after_help = "A folder is checked against the Agent Skills standard, more strictly than `agents skill add` does.

Examples:
  agents skill validate files.yaml
  agents skill validate ./skills/pdf-tools"
    )]
    Validate {
        /// File or folder, `-` for a file on standard input
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
    /// Remove a registered skill that is not in use
    #[command(after_help = "Example:
  agents skill remove local/files --yes")]
    Remove {
        #[command(flatten)]
        skill: SkillReference,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SkillAdd {
    /// YAML file or folder, `-` for a file on standard input
    #[arg(value_name = "PATH", required_unless_present = "config")]
    pub(crate) path: Option<PathBuf>,
    /// Same as PATH, for a YAML file
    #[arg(long, short = 'c', value_name = "FILE", conflicts_with = "path")]
    pub(crate) config: Option<PathBuf>,
    /// Replace the skill of the same name
    #[arg(long)]
    pub(crate) update: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SkillReference {
    /// Skill, such as local/files
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
