//! `skill`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Skill {
    /// Register a skill: a YAML file, or a folder with a SKILL.md
    #[command(
        after_help = "The text of a YAML file is kept; `agents skill refresh` reads the file again. A folder is read
whenever it is used. `agents schema skill` prints the JSON schema of such files, for editors.

Examples:
  agents skill add files.yaml
  agents skill add ./skills/pdf-tools
  agents skill add --config files.yaml --update"
    )]
    Add(SkillAdd),
    /// List the skills there are
    #[command(after_help = "Example:
  agents --format json skill list")]
    List,
    /// Show a skill: what it holds, what it may do and who uses it
    #[command(after_help = "Example:
  agents skill show local/files")]
    Show(SkillReference),
    /// List the tools of a skill, with those of the skills it includes
    #[command(after_help = "Example:
  agents --format json skill tools local/files")]
    Tools(SkillReference),
    /// Read the files of registered skills again
    #[command(
        after_help = "A file that is wrong now changes nothing: what was registered before stays.

Examples:
  agents skill refresh
  agents skill refresh local/files"
    )]
    Refresh {
        /// Only this skill; all when not given
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Check a YAML file or a folder with a SKILL.md, and register nothing
    #[command(
        after_help = "A folder is checked against the Agent Skills standard, more strictly than `agents skill add` does.

Examples:
  agents skill validate files.yaml
  agents skill validate ./skills/pdf-tools"
    )]
    Validate {
        /// The file or folder, `-` for a file on standard input
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
    /// Remove a registered skill that nothing uses
    #[command(after_help = "Example:
  agents skill remove local/files --yes")]
    Remove {
        #[command(flatten)]
        skill: SkillReference,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SkillAdd {
    /// The YAML file or the folder, `-` for a file on standard input
    #[arg(value_name = "PATH", required_unless_present = "config")]
    pub(crate) path: Option<PathBuf>,
    /// The same, under another name
    #[arg(long, short = 'c', value_name = "FILE", conflicts_with = "path")]
    pub(crate) config: Option<PathBuf>,
    /// Replace a skill of the same name
    #[arg(long)]
    pub(crate) update: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SkillReference {
    /// The skill, such as local/files
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
