//! Files in which something is wrong. The first line of each says what is said about it.

use std::fmt::Write as _;
use std::path::Path;

use crate::support::{World, actor_in, try_actor};

const WORLD: World<'_> = World(&[
    (
        "local/reviewer",
        "name: local/reviewer\ntype: llm\nmodel: openai/a\n",
    ),
    ("local/broken", "name: local/broken\ntype: graph\n"),
    (
        "local/deep",
        "name: local/deep\ntype: graph\nnodes: {a: {prompt: x}}\n",
    ),
]);

#[test]
fn every_broken_file_has_one_complaint_with_its_place_and_what_to_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 45, "only {} files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a text");
        let first = text.lines().next().unwrap_or_default();
        let expected = first.strip_prefix("# expects: ").expect("what is expected");
        let said = match actor_in(&text, &WORLD) {
            Ok(_) => "nothing".to_owned(),
            Err(error) => {
                let told = error.to_string();
                let told = told.strip_prefix("actor.yaml:").expect("the file");
                format!("{told} | {}", error.fix)
            }
        };
        if said != expected {
            let name = file.file_name().expect("a name").display().to_string();
            wrong.push(format!("{name}\n  expected {expected}\n  said     {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_of_ten_megabytes_is_not_even_parsed() {
    // Parsing it would complain about the unclosed list instead.
    let text = format!("name: [{}", "x, ".repeat(10 * 1024 * 1024 / 3));
    let error = try_actor(&text).expect_err("too large");
    assert!(
        error.message.contains("at most 1048576 are read"),
        "{error}"
    );
}

#[test]
fn a_bomb_of_aliases_is_not_blown_up() {
    // Nine levels of ten would be a billion values.
    let mut text = String::from("name: local/x\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{inner}]").expect("a string");
    }
    let error = try_actor(&text).expect_err("a bomb");
    assert_eq!(error.message, "aliases make the file too large");
}
