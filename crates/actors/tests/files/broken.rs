//! Tests of invalid actor files. The first line of each file contains the expected error.

use std::fmt::Write as _;
use std::path::Path;

use crate::support::{ActorFiles, actor_in, try_actor};

const OTHER_ACTORS: ActorFiles<'_> = ActorFiles(&[
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
fn every_invalid_file_has_one_error_with_position_and_fix() {
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
        let expected = first
            .strip_prefix("# expects: ")
            .expect("an expected error");
        let actual = match actor_in(&text, &OTHER_ACTORS) {
            Ok(_) => "nothing".to_owned(),
            Err(error) => {
                let message = error.to_string();
                let message = message.strip_prefix("actor.yaml:").expect("the file");
                format!("{message} | {}", error.fix.neutral())
            }
        };
        if actual != expected {
            let name = file.file_name().expect("a name").display().to_string();
            wrong.push(format!(
                "{name}\n  expected {expected}\n  found    {actual}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_of_ten_megabytes_is_refused_before_parsing() {
    // The parser would report the unclosed list instead.
    let text = format!("name: [{}", "x, ".repeat(10 * 1024 * 1024 / 3));
    let error = try_actor(&text).expect_err("too large");
    assert!(error.message.contains("the maximum is 1048576"), "{error}");
}

#[test]
fn an_alias_bomb_is_not_expanded() {
    // Expanding nine nested levels of ten items each would create a billion values.
    let mut text = String::from("name: local/x\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{inner}]").expect("a string");
    }
    let error = try_actor(&text).expect_err("a bomb");
    assert_eq!(
        error.message,
        "the file is too large after expanding aliases"
    );
}
