//! The table of reported failures in `docs/explanation/pools.md` names tests and files that exist.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The texts of all Rust files below a folder.
fn sources(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                sources(&path, texts);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(std::fs::read_to_string(path).expect("a text"));
        }
    }
}

#[test]
fn every_row_names_a_test_or_a_file_that_exists() {
    let page = root().join("docs/explanation/pools.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| #"))
        .collect();
    assert_eq!(rows.len(), 75, "one row per report");
    let mut code = Vec::new();
    sources(&root().join("crates"), &mut code);
    let is_test = |name: &str| {
        let function = format!("fn {name}");
        code.iter().any(|text| text.contains(&function))
    };
    let is_name = |text: &str| {
        let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        text.contains('_') && text.chars().all(|letter| letter == '_' || is_plain(letter))
    };
    for row in rows {
        let proof = row.split(" | ").nth(2).expect("three columns");
        let (mut tests, mut files) = (0, 0);
        for quoted in proof.split('`').skip(1).step_by(2) {
            if quoted.starts_with("crates/") {
                assert!(root().join(quoted).exists(), "no file `{quoted}`: {row}");
                files += 1;
            } else if is_test(quoted) {
                tests += 1;
            } else {
                // Names of types, tables and functions stand next to a file.
                let is_known = !is_name(quoted) || proof.contains("by construction");
                assert!(is_known, "no test `{quoted}`: {row}");
            }
        }
        let is_missing = proof.starts_with("**Missing**");
        let is_constructed = proof.contains("by construction");
        assert!(
            is_missing || is_constructed || tests > 0 || files > 0,
            "no proof: {row}"
        );
    }
}
