//! The home folder: one per user, with the configuration and, unless configured otherwise, the
//! database.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::error::Error;

/// Environment variable with the path of the home folder.
const VARIABLE: &str = "CLEVERAGENTS_HOME";

/// Name of the default home folder, in the user's home directory.
pub(crate) const FOLDER: &str = ".cleveragents";

/// Name of the configuration file, in the home folder and in projects.
pub(crate) const CONFIG_FILE: &str = "config.toml";

/// Location of the home folder; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// `CLEVERAGENTS_HOME`, or `~/.cleveragents`.
    ///
    /// A relative path is relative to the working directory, `~/` to `HOME`.
    pub fn find(environment: &Environment) -> Result<Self, Error> {
        let user_home = environment.get("HOME").map(Path::new);
        let Some(given) = environment.get(VARIABLE).map(Path::new) else {
            return Ok(Self {
                path: user_home.ok_or(Error::NoHome)?.join(FOLDER),
            });
        };
        let base = match given.strip_prefix("~") {
            Ok(rest) => user_home.map(|user_home| user_home.join(rest)),
            Err(_) if given.is_absolute() => Some(given.to_owned()),
            Err(_) => environment
                .working_folder()
                .map(|folder| folder.join(given)),
        };
        base.map(|path| Self { path }).ok_or_else(|| Error::Home {
            path: given.to_owned(),
            reason: "it is relative, and there is no base folder",
            source: None,
        })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.path.join(CONFIG_FILE)
    }

    pub fn database_file(&self) -> PathBuf {
        self.path.join("cleveragents.db")
    }

    /// Path of the optional file of providers and models.
    pub fn models_file(&self) -> PathBuf {
        self.path.join("models.yaml")
    }

    /// Path of the chat input history, for the line editor.
    pub fn chat_history(&self) -> PathBuf {
        self.path.join("chat-history")
    }

    /// Folder of skills: each subfolder with a `SKILL.md` is a skill.
    pub fn skills(&self) -> PathBuf {
        self.path.join("skills")
    }

    /// Folder of sandboxes.
    pub fn sandboxes(&self) -> PathBuf {
        self.path.join("sandboxes")
    }

    /// The URL of the database file.
    pub fn database_url(&self) -> String {
        format!("sqlite://{}", self.database_file().display())
    }

    /// Creates the folder, accessible to its owner only, unless it exists.
    pub fn create(&self) -> Result<(), Error> {
        let creation = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path);
        if let Err(source) = creation {
            let (reason, source) = if self.path.exists() {
                ("it is not a folder", None)
            } else {
                ("it cannot be created", Some(source))
            };
            return Err(Error::Home {
                path: self.path.clone(),
                reason,
                source,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Home;
    use crate::config::Environment;
    use cleveragents_domain::{Code, Diagnose as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn find(pairs: &[(&str, &str)]) -> Home {
        Home::find(&Environment::from_pairs("/folder", pairs)).expect("found")
    }

    #[test]
    fn the_variable_overrides_the_default_folder() {
        assert_eq!(
            find(&[("HOME", "/home/a")]).path(),
            Path::new("/home/a/.cleveragents")
        );
        assert_eq!(
            find(&[("HOME", "/home/a"), ("CLEVERAGENTS_HOME", "/x")]).path(),
            Path::new("/x")
        );
        assert_eq!(
            find(&[("HOME", "/home/a"), ("CLEVERAGENTS_HOME", "")]).path(),
            Path::new("/home/a/.cleveragents")
        );
    }

    #[test]
    fn relative_folders_have_a_base() {
        assert_eq!(
            find(&[("CLEVERAGENTS_HOME", "x/y")]).path(),
            Path::new("/folder/x/y")
        );
        let home = find(&[("HOME", "/home/a"), ("CLEVERAGENTS_HOME", "~/x")]);
        assert_eq!(home.path(), Path::new("/home/a/x"));
        assert_eq!(home.config_file(), Path::new("/home/a/x/config.toml"));
        assert_eq!(home.database_url(), "sqlite:///home/a/x/cleveragents.db");
    }

    #[test]
    fn without_any_variable_there_is_no_home() {
        let error = Home::find(&Environment::from_pairs("/", &[])).expect_err("no home");
        assert_eq!(error.code(), Code::HomeUnusable);
        assert!(
            error
                .hint()
                .expect("hint")
                .neutral()
                .contains("CLEVERAGENTS_HOME")
        );
    }

    #[test]
    fn a_created_home_is_private() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("deep/home");
        let home = find(&[("CLEVERAGENTS_HOME", path.to_str().expect("text"))]);
        home.create().expect("made");
        home.create().expect("exists already");
        let mode = path.metadata().expect("exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn an_error_names_a_home_that_is_a_file() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let path = file.path().to_str().expect("text");
        let error = find(&[("CLEVERAGENTS_HOME", path)])
            .create()
            .expect_err("a file");
        assert!(error.to_string().contains(path) && error.to_string().contains("not a folder"));
        let below = find(&[("CLEVERAGENTS_HOME", &format!("{path}/home"))]).create();
        assert_eq!(below.expect_err("below a file").code(), Code::HomeUnusable);
    }
}
