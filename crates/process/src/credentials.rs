//! Files with credentials, which no confined command may read, and configuration files that contain none.

use crate::toolchains::homes;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// If a configuration file contains one of these words, it counts as containing a secret.
const SECRET_WORDS: &[&str] = &[
    "token",
    "password",
    "passwd",
    "secret",
    "extraheader",
    "_auth",
];

/// Files and directories with credentials, relative to the home directory or to a declared directory.
pub(crate) const CREDENTIALS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".boto",
    ".s3cfg",
    ".vault-token",
    ".git-credentials",
    ".password-store",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/pip",
    ".config/rclone",
    ".config/doctl",
    ".local/share/keyrings",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".terraform.d/credentials.tfrc.json",
    ".pub-cache/credentials.json",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".config/containers/auth.json",
    ".config/github-copilot",
    ".config/op",
    ".config/pypoetry/auth.toml",
    ".config/sops",
    ".nuget/NuGet",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    // Inside the folders of toolchains.
    ".dotnet/corefx",
    ".julia/servers",
    ".local/share/uv/credentials",
    ".opam/plugins/opam-publish",
    "miniconda3/.condarc",
    "anaconda3/.condarc",
    "miniforge3/.condarc",
    "mambaforge/.condarc",
];

/// Whether a path is a credential file of the user or lies in a directory of credentials.
pub fn is_credential(path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let homes = homes();
    CREDENTIALS
        .iter()
        .any(|name| homes.iter().any(|home| real.starts_with(home.join(name))))
}

/// Whether a configuration file exists and contains no secret, so that commands may read it.
pub fn is_clean(path: &Path) -> bool {
    const MAX_BYTES: u64 = 256 << 10;
    if !fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_BYTES) {
        return false;
    }
    fs::read(path).is_ok_and(|bytes| {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        let has_login = text.lines().any(|line| {
            let after = line.split_once("://").map(|(_, after)| after);
            after.is_some_and(|after| {
                after
                    .split('/')
                    .next()
                    .is_some_and(|authority| authority.contains('@'))
            })
        });
        !has_login && !SECRET_WORDS.iter().any(|word| text.contains(word))
    })
}

/// Files below a directory that are not world-readable.
pub(crate) fn secrets_below(folder: &Path) -> Vec<PathBuf> {
    const MAX_DEPTH: usize = 6;
    let mut secrets = Vec::new();
    let mut pending = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = pending.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.filter_map(Result::ok) {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let mode = metadata.permissions().mode();
            if metadata.is_dir() {
                if mode & 0o005 != 0o005 {
                    secrets.push(entry.path());
                } else if depth < MAX_DEPTH {
                    pending.push((entry.path(), depth + 1));
                }
            } else if !metadata.is_symlink() && mode & 0o004 == 0 {
                secrets.push(entry.path());
            }
        }
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::{is_clean, secrets_below};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;
    use std::{env, fs};

    fn folder(name: &str) -> PathBuf {
        let place = env::temp_dir().join(format!("credentials-{name}-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a folder");
        fs::canonicalize(place).expect("its path")
    }

    #[test]
    fn settings_with_a_secret_are_not_clean() {
        let place = folder("settings");
        let file = place.join("config");
        for (text, clean) in [
            ("[user]\nname = A\nemail = a@example.org\n", true),
            (
                "[source.x]\nregistry = \"https://example.org/index\"\n",
                true,
            ),
            ("[registries.x]\ntoken = \"abc\"\n", false),
            ("[url \"https://me:key@example.org/\"]\n", false),
            ("[http]\nextraHeader = Authorization: x\n", false),
        ] {
            fs::write(&file, text).expect("a file");
            assert_eq!(is_clean(&file), clean, "{text}");
        }
        assert!(!is_clean(&place.join("absent")));
        fs::remove_dir_all(place).expect("tidied");
    }

    #[test]
    fn files_not_readable_by_everybody_are_found() {
        let place = folder("modes");
        for (name, mode) in [("passwd", 0o644), ("shadow", 0o640)] {
            fs::write(place.join(name), "x").expect("a file");
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(place.join(name), permissions).expect("its mode");
        }
        fs::create_dir(place.join("private")).expect("a folder");
        let permissions = fs::Permissions::from_mode(0o710);
        fs::set_permissions(place.join("private"), permissions).expect("its mode");
        let mut found = secrets_below(&place);
        found.sort();
        assert_eq!(found, [place.join("private"), place.join("shadow")]);
        fs::remove_dir_all(place).expect("tidied");
    }
}
