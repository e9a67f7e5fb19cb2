//! Detects which well-known programs are installed. Checks names only; nothing is started.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Programs that are useful to a model.
const PROGRAMS: &[&str] = &[
    "git", "rg", "fd", "jq", "make", "cmake", "ninja", "gcc", "clang", "python3", "pip", "pytest",
    "uv", "poetry", "ruff", "mypy", "node", "npm", "npx", "pnpm", "yarn", "bun", "deno", "tsc",
    "cargo", "rustc", "go", "java", "mvn", "gradle", "kotlin", "scala", "sbt", "ruby", "bundle",
    "php", "composer", "dotnet", "swift", "ghc", "cabal", "stack", "mix", "zig", "sqlite3", "psql",
];

/// The entries of [`PROGRAMS`] that are on `PATH`.
pub(super) fn on_path() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let is_found = |program: &&str| {
        folders
            .iter()
            .any(|folder| is_program(&folder.join(program)))
    };
    PROGRAMS.iter().copied().filter(is_found).collect()
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
