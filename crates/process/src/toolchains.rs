//! Toolchains that are installed below a home directory, and the homes that contain them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A toolchain that is installed below the home directory.
pub(crate) struct Toolchain {
    /// Environment variable with its directory; empty if there is none.
    variable: &'static str,
    /// Default directory, relative to the home directory.
    pub(crate) folder: &'static str,
    /// Readable parts of the directory; empty for the whole directory.
    pub(crate) parts: &'static [&'static str],
}

const fn whole_folder(variable: &'static str, folder: &'static str) -> Toolchain {
    Toolchain {
        variable,
        folder,
        parts: &[],
    }
}

pub(crate) const TOOLCHAINS: &[Toolchain] = &[
    whole_folder("RUSTUP_HOME", ".rustup"),
    Toolchain {
        variable: "CARGO_HOME",
        folder: ".cargo",
        parts: &["bin", "registry", "git", "env"],
    },
    whole_folder("PYENV_ROOT", ".pyenv"),
    Toolchain {
        variable: "PYTHONUSERBASE",
        folder: ".local",
        parts: &["bin", "lib"],
    },
    whole_folder("NVM_DIR", ".nvm"),
    whole_folder("FNM_DIR", ".local/share/fnm"),
    whole_folder("VOLTA_HOME", ".volta"),
    whole_folder("ASDF_DATA_DIR", ".asdf"),
    whole_folder("MISE_DATA_DIR", ".local/share/mise"),
    whole_folder("RBENV_ROOT", ".rbenv"),
    whole_folder("GOENV_ROOT", ".goenv"),
    whole_folder("NODENV_ROOT", ".nodenv"),
    whole_folder("SDKMAN_DIR", ".sdkman"),
    whole_folder("BUN_INSTALL", ".bun"),
    whole_folder("DENO_INSTALL", ".deno"),
    whole_folder("ELAN_HOME", ".elan"),
    whole_folder("OPAMROOT", ".opam"),
    whole_folder("DOTNET_ROOT", ".dotnet"),
    whole_folder("PNPM_HOME", ".local/share/pnpm"),
    whole_folder("GOMODCACHE", "go/pkg/mod"),
    whole_folder("", "go/bin"),
    whole_folder("", "sdk"),
    whole_folder("", ".rvm"),
    Toolchain {
        variable: "",
        folder: ".gem",
        parts: &["ruby", "bin"],
    },
    whole_folder("", ".ghcup"),
    Toolchain {
        variable: "",
        folder: ".cabal",
        parts: &["bin", "packages", "store"],
    },
    whole_folder("", ".juliaup"),
    whole_folder("", ".julia"),
    whole_folder("", ".nix-profile"),
    whole_folder("", ".local/state/nix/profiles"),
    whole_folder("", ".local/pipx"),
    whole_folder("", ".local/share/pipx"),
    whole_folder("", ".local/share/uv"),
    whole_folder("", ".local/share/virtualenvs"),
    whole_folder("", ".local/share/pypoetry"),
    whole_folder("", ".virtualenvs"),
    whole_folder("", ".m2/repository"),
    Toolchain {
        variable: "",
        folder: ".gradle",
        parts: &["caches", "wrapper"],
    },
    whole_folder("", ".ivy2/cache"),
    whole_folder("", ".nuget/packages"),
    Toolchain {
        variable: "",
        folder: ".pub-cache",
        parts: &["bin", "hosted"],
    },
    whole_folder("", ".cache/pip"),
    whole_folder("", ".cache/uv"),
    whole_folder("", ".cache/coursier"),
    whole_folder("", ".npm/_cacache"),
    whole_folder("", ".npm-global"),
    whole_folder("", ".linuxbrew"),
    whole_folder("", "miniconda3"),
    whole_folder("", "anaconda3"),
    whole_folder("", "miniforge3"),
    whole_folder("", "mambaforge"),
    whole_folder("", ".jdks"),
    whole_folder("", ".swiftly"),
];

/// The home directory, and every other home in which `PATH` contains a toolchain: the home of another user, or the
/// user's own if `HOME` was set to another directory.
pub(crate) fn homes() -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let others = env::split_paths(&path).filter_map(|folder| home_of_toolchain(&folder));
    let mut homes: Vec<PathBuf> = Vec::new();
    for home in home.into_iter().chain(others) {
        if let Ok(real) = fs::canonicalize(&home)
            && real != Path::new("/")
            && !homes.contains(&real)
        {
            homes.push(real);
        }
    }
    homes
}

/// The home that contains a program directory such as `.cargo/bin` or `.pyenv/shims`.
fn home_of_toolchain(folder: &Path) -> Option<PathBuf> {
    let mut above = folder.ancestors().filter(|_| folder.is_absolute());
    let toolchain = above.find(|folder| {
        let name = folder.file_name().unwrap_or_default();
        let is_named =
            |candidate: &Toolchain| candidate.folder.starts_with('.') && name == candidate.folder;
        TOOLCHAINS.iter().any(is_named)
    })?;
    toolchain.parent().map(Path::to_owned)
}

/// Variables that locate the toolchains below the home directory for commands with a different `HOME`.
pub fn toolchain_environment() -> Vec<(OsString, OsString)> {
    let homes = homes();
    let toolchains = TOOLCHAINS
        .iter()
        .filter(|toolchain| !toolchain.variable.is_empty());
    toolchains
        .filter_map(|toolchain| {
            let mut folders = homes.iter().map(|home| toolchain.place(home));
            let folder = folders.find(|folder| folder.is_dir())?;
            Some((toolchain.variable.into(), folder.into_os_string()))
        })
        .collect()
}

/// The folder with this relative path below the user's own home, if it exists.
pub fn home_folder(relative: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os("HOME")?).join(relative);
    folder.is_dir().then_some(folder)
}

impl Toolchain {
    /// The folder of the toolchain for this home.
    pub(crate) fn place(&self, home: &Path) -> PathBuf {
        let from_variable = env::var_os(self.variable).filter(|_| !self.variable.is_empty());
        match from_variable
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
        {
            Some(path) if !home.starts_with(&path) => path,
            _ => home.join(self.folder),
        }
    }
}
