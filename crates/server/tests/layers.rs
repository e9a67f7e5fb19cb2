//! The server is transport only: it reaches the database through the services of `cleveragents-application`.

use std::path::Path;

/// The lines of a section of the manifest.
fn section<'a>(manifest: &'a str, name: &str) -> Vec<&'a str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != name)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .collect()
}

#[test]
fn the_server_does_not_depend_on_the_store() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).expect("the manifest can be read");
    let dependencies = section(&manifest, "[dependencies]");
    let has = |name: &str| dependencies.iter().any(|line| line.starts_with(name));
    assert!(has("cleveragents-application"), "the section was found");
    assert!(
        !has("cleveragents-store"),
        "crates/server opens units of work again: add what it needs to a service of crates/application"
    );
}
