//! Finds the configuration file of the current project.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::home::{CONFIG_FILE, FOLDER, Home};

/// The nearest `.cleveragents/config.toml` in the working directory or one of its parents.
///
/// The user's own files are not project files: neither the file in the home folder in use nor
/// `~/.cleveragents/config.toml`. Every folder below `~` would otherwise find the latter when
/// `CLEVERAGENTS_HOME` names another folder.
pub fn project_file(environment: &Environment, home: &Home) -> Option<PathBuf> {
    let default_home = environment
        .get("HOME")
        .map(|personal| Path::new(personal).join(FOLDER));
    let user_files: Vec<PathBuf> = [
        Some(home.config_file()),
        default_home.map(|folder| folder.join(CONFIG_FILE)),
    ]
    .into_iter()
    .flatten()
    .map(|path| path.canonicalize().unwrap_or(path))
    .collect();
    environment
        .working_folder()?
        .ancestors()
        .map(|folder| folder.join(FOLDER).join(CONFIG_FILE))
        .filter(|path| path.exists())
        .find(|path| {
            !path
                .canonicalize()
                .is_ok_and(|path| user_files.contains(&path))
        })
}

#[cfg(test)]
mod tests {
    use super::project_file;
    use crate::config::{Environment, Home};
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A tree with files for the user and for two projects, one within the other.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().canonicalize().expect("real");
        for place in ["me", "me/outer", "me/outer/inner", "other"] {
            fs::create_dir_all(root.join(place).join(".cleveragents")).expect("folder");
            fs::write(root.join(place).join(".cleveragents/config.toml"), "").expect("file");
        }
        fs::create_dir_all(root.join("me/outer/inner/a/b")).expect("folder");
        fs::create_dir_all(root.join("me/plain")).expect("folder");
        (folder, root)
    }

    fn find_relative(root: &Path, working: &str, home: Option<&str>) -> Option<PathBuf> {
        let personal = root.join("me");
        let chosen = home.map(|home| root.join(home));
        let mut pairs = vec![("HOME", personal.to_str().expect("text"))];
        if let Some(chosen) = &chosen {
            pairs.push(("CLEVERAGENTS_HOME", chosen.to_str().expect("text")));
        }
        let environment = Environment::from_pairs(root.join(working), &pairs);
        let home = Home::find(&environment).expect("home");
        let file = project_file(&environment, &home)?;
        Some(file.strip_prefix(root).expect("below").to_owned())
    }

    #[test]
    fn the_nearest_project_wins() {
        let (_folder, root) = tree();
        let inner = Some(PathBuf::from("me/outer/inner/.cleveragents/config.toml"));
        assert_eq!(find_relative(&root, "me/outer/inner/a/b", None), inner);
        let outer = Some(PathBuf::from("me/outer/.cleveragents/config.toml"));
        assert_eq!(find_relative(&root, "me/outer", None), outer);
    }

    #[test]
    fn the_users_file_is_not_a_project_file() {
        let (_folder, root) = tree();
        assert_eq!(find_relative(&root, "me/plain", None), None);
        assert_eq!(find_relative(&root, "me/plain", Some("elsewhere")), None);
        assert_eq!(
            find_relative(&root, "other", Some("other/.cleveragents")),
            None
        );
    }

    #[test]
    fn a_link_to_the_users_file_is_not_a_project_file() {
        let (_folder, root) = tree();
        std::os::unix::fs::symlink(
            root.join("me/.cleveragents"),
            root.join("me/plain/.cleveragents"),
        )
        .expect("link");
        assert_eq!(find_relative(&root, "me/plain", None), None);
    }
}
