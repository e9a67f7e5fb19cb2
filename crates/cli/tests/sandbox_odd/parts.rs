//! Targets of sandboxes, nested parts, and names of checkpoints.

use std::path::Path;

use super::{SandboxFixture, assert_same, read, tree};

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A folder and a nested folder, both parts of the sandbox, each changed by its script.
fn nested(outer: &str, inner: &str) -> SandboxFixture {
    let fixture = SandboxFixture::new();
    let folder = fixture.folder().join("p");
    std::fs::create_dir_all(folder.join("q")).expect("folders");
    std::fs::write(folder.join("q/f"), "one\n").expect("a file");
    std::fs::write(folder.join("g"), "one\n").expect("a file");
    let (p, q) = (text(&folder), folder.join("q"));
    fixture.run_successfully(["sandbox", "create", "s", "--path", p, "--path", text(&q)]);
    for (part, script) in [("p", outer), ("q", inner)] {
        fixture.run_successfully([
            "sandbox", "exec", "s", "--in", part, "--", "sh", "-ec", script,
        ]);
    }
    fixture
}

#[test]
fn two_parts_that_change_one_file_are_a_conflict_in_preview_and_apply() {
    for (outer, inner) in [
        ("echo outer > q/f", "echo inner > f"),
        ("rm -r q", "echo inner > f"),
        ("rm -r q; echo file > q", "mkdir d; echo inner > d/e"),
    ] {
        let fixture = nested(outer, inner);
        let folder = fixture.folder().join("p");
        let before = tree(&folder);
        let preview = ["sandbox", "apply", "s", "--dry-run"];
        fixture.refused(&preview, 4, "CA-0645");
        let reported = fixture
            .run(["--format", "plain"].iter().chain(&preview))
            .out;
        assert!(
            reported.contains("part `p` of the sandbox changes it too"),
            "{reported}"
        );
        assert_same(&before, &tree(&folder));
        fixture.apply_refused(&folder, 4, "CA-0645");
    }
}

#[test]
fn nested_parts_with_separate_changes_are_applied_together() {
    let fixture = nested("echo outer > g", "echo inner > f");
    fixture.apply();
    let folder = fixture.folder().join("p");
    assert_eq!(read(folder.join("g")), "outer\n");
    assert_eq!(read(folder.join("q/f")), "inner\n");
}

#[test]
fn the_programs_own_files_are_refused() {
    let fixture = SandboxFixture::new();
    let inside = fixture.agents.home().join("sandboxes");
    let work = fixture.folder();
    fixture.run_successfully(["sandbox", "create", "other", "--path", text(&work)]);
    let link = fixture.user().join("link");
    std::os::unix::fs::symlink(fixture.agents.home(), &link).expect("a link");
    let database = fixture.agents.database();
    for path in [
        &fixture.user(),
        &fixture.agents.home().to_owned(),
        &link,
        &inside,
        &database,
    ] {
        let arguments = ["sandbox", "create", "s", "--path", text(path)];
        let error = fixture.refused(&arguments, 1, "CA-0646");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains("of the program"), "{message}");
    }
    let folders = std::fs::read_dir(&inside).expect("a folder").count();
    assert_eq!(folders, 1, "only the other sandbox");
}

#[test]
fn a_sandbox_that_cannot_be_created_registers_nothing() {
    let fixture = SandboxFixture::new();
    let (work, path) = (fixture.folder(), fixture.folder().join("new"));
    std::fs::create_dir(&path).expect("a folder");
    fixture.run_successfully(["sandbox", "create", "there", "--path", text(&work)]);
    let resources = || fixture.agents.data(&["resource", "list"])["resources"].clone();
    let before = resources();
    let (new, missing) = (text(&path), path.join("gone"));
    let create = ["sandbox", "create"];
    for (arguments, exit, code) in [
        (vec!["../s", "--path", new], 2, "CA-0642"),
        (vec!["there", "--path", new], 4, "CA-0641"),
        (vec!["s", "--path", new, "--path", new], 2, "CA-0101"),
        (
            vec!["s", "--path", new, "--path", text(&missing)],
            3,
            "CA-0612",
        ),
    ] {
        fixture.refused(&[&create[..], &arguments].concat(), exit, code);
        assert_eq!(resources(), before, "{arguments:?}");
    }
}

#[test]
fn a_checkpoint_is_found_by_its_number_before_any_label() {
    let fixture = SandboxFixture::new();
    let folder = fixture.folder().join("p");
    std::fs::create_dir(&folder).expect("a folder");
    fixture.create(&folder);
    fixture.run_successfully(["sandbox", "checkpoint", "s", "--label", "true"]);
    fixture.sh("echo 1 > one");
    // This creates a checkpoint labelled like the command.
    fixture.run_successfully(["sandbox", "exec", "s", "--", "true"]);
    fixture.run_successfully(["sandbox", "rollback", "s", "--to", "true"]);
    assert!(
        fixture.diff().is_empty(),
        "the label of the user takes precedence"
    );
    let long = "x".repeat(121);
    for label in ["", " ", "7", "a\nb", &long] {
        let arguments = ["sandbox", "checkpoint", "s", "--label", label];
        fixture.refused(&arguments, 2, "CA-0101");
    }
    fixture.run_successfully(["sandbox", "checkpoint", "s", "--label", "v7"]);
}

#[test]
fn the_error_for_a_missing_part_has_a_hint() {
    let fixture = SandboxFixture::new();
    fixture.create(&fixture.repository("r"));
    for arguments in [
        vec!["sandbox", "diff", "s", "--part", "x"],
        vec!["sandbox", "exec", "s", "--in", "x", "--", "true"],
        vec!["sandbox", "query", "s", "--part", "x", "SELECT 1"],
    ] {
        let error = fixture.refused(&arguments, 3, "CA-0640");
        let hint = error["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("agents sandbox show s"), "{error}");
    }
}

#[test]
fn invalid_options_are_refused_before_the_command_runs() {
    let fixture = SandboxFixture::new();
    fixture.create(&fixture.repository("r"));
    for option in [["--timeout", "0"], ["--env", "=1"], ["--env", ""]] {
        let command = ["--", "touch", "ran"];
        let arguments = [&["sandbox", "exec", "s"], &option[..], &command].concat();
        fixture.refused(&arguments, 2, "CA-0101");
    }
    assert!(fixture.diff().is_empty(), "the command did not run");
    for message in ["", " \n"] {
        fixture.refused(&["sandbox", "apply", "s", "-m", message], 2, "CA-0101");
    }
}
