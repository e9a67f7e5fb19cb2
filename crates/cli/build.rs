//! Embeds the pages of the error codes for `agents explain`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        pages.push(entry?.path().canonicalize()?);
    }
    pages.sort();
    let mut text = String::from("[\n");
    for page in pages {
        let name = page.file_stem().unwrap_or_default().to_string_lossy();
        if name.starts_with("CA-") {
            let _written = writeln!(
                text,
                "({name:?}, include_str!({:?})),",
                page.display().to_string()
            );
        }
    }
    text.push_str("]\n");
    let target = std::env::var_os("OUT_DIR").unwrap_or_default();
    std::fs::write(Path::new(&target).join("error_pages.rs"), text)
}
