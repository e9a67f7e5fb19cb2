//! A folder of Markdown files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cleveragents_application::{
    ExternalId, FieldChanges, MarkdownTracker, Tracker as _, TrackerEffect, TrackerError,
};
use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_testkit::at_once;

use crate::support::{attempt, key, new_issue};

const FILE: &str = "---\n# kept\ntitle: Two writers lose an update\nstate: open\nlabels:\n  - Type/Bug\n  - area/store\nassignee: ada\n---\n\nThe text.\n";

fn tracker(folder: &Path) -> MarkdownTracker {
    MarkdownTracker::new(folder).expect("an absolute path")
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("race.md"), FILE).expect("a file");
    folder
}

fn id(text: &str) -> ExternalId {
    text.parse().expect("an id")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn files_with_front_matter_are_issues() {
    let folder = folder();
    fs::write(folder.path().join("README.md"), "# Issues\n").expect("a file");
    fs::write(folder.path().join(".hidden.md"), "---\n---\n").expect("a file");
    fs::write(folder.path().join("notes.txt"), "text").expect("a file");
    let listing = tracker(folder.path()).list().expect("a listing");
    assert_eq!(listing.total, 1);
    let issue = &listing.issues[0];
    assert_eq!(issue.id, id("race"));
    assert_eq!(issue.title, "Two writers lose an update");
    assert_eq!(issue.body, "The text.");
    assert!(issue.labels.contains("Type/Bug") && issue.labels.len() == 2);
    assert!(!issue.is_closed);
}

#[test]
fn a_folder_with_an_unusable_file_is_an_error() {
    type Spoil = fn(&Path);
    let cases: [(&str, Spoil); 5] = [
        ("a link", |path| {
            symlink("/etc/hostname", path).expect("a link");
        }),
        ("no end", |path| {
            fs::write(path, "---\ntitle: x\n").expect("a file");
        }),
        ("no title", |path| {
            fs::write(path, "---\nstate: open\n---\n").expect("a file");
        }),
        ("a wrong state", |path| {
            fs::write(path, "---\ntitle: x\nstate: approved\n---\n").expect("a file");
        }),
        ("too large", |path| {
            let text = format!("---\ntitle: x\n---\n{}", "x".repeat(2 << 20));
            fs::write(path, text).expect("a file");
        }),
    ];
    for (case, make) in cases {
        let folder = folder();
        make(&folder.path().join("bad.md"));
        let error = tracker(folder.path()).list().expect_err(case);
        assert_eq!(error.code(), Code::TrackerFileInvalid, "{case}: {error}");
        assert!(error.to_string().contains("bad.md"), "{case}: {error}");
    }
    let folder = folder();
    let link = folder.path().join("link.md");
    symlink(folder.path().join("race.md"), link).expect("a link");
    let error = tracker(folder.path()).get(&id("link")).expect_err("a link");
    assert_eq!(error.code(), Code::TrackerFileInvalid);
}

#[test]
fn an_issue_is_created_once() {
    let folder = folder();
    let (tracker, key) = (tracker(folder.path()), key("01J9ZC5V7Q8W9E0R1T2Y3V4X5Z"));
    let new = new_issue(&["Type/Bug"]);
    let created = tracker
        .create(&new, &attempt(&key, false))
        .expect("created");
    assert_eq!(created.effect, TrackerEffect::Written);
    assert_eq!(created.issue.body, new.body);
    let again = tracker.create(&new, &attempt(&key, true)).expect("found");
    assert_eq!(again.effect, TrackerEffect::FoundEarlier);
    assert_eq!(again.issue, created.issue);
    let expected = [
        "race.md",
        "two-writers-lose-an-update-01j9zc5v7q8w9e0r1t2y3v4x5z.md",
    ];
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn fields_change_and_other_lines_stay() {
    let folder = folder();
    let (tracker, key) = (tracker(folder.path()), key("01J9ZC5V7Q8W9E0R1T2Y3V4X5Z"));
    let changes = FieldChanges {
        title: Some("Lost: \"updates\"".to_owned()),
        add_labels: ["State/Verified".to_owned()].into(),
        remove_labels: ["Type/Bug".to_owned()].into(),
        is_closed: Some(true),
        ..FieldChanges::default()
    };
    let written = tracker
        .set_fields(&id("race"), &changes, &attempt(&key, false))
        .expect("written");
    assert!(written.issue.is_closed);
    let text = fs::read_to_string(folder.path().join("race.md")).expect("the file");
    let expected = "---\n# kept\ntitle: \"Lost: \\\"updates\\\"\"\nstate: closed\nlabels: [\"State/Verified\", \"area/store\"]\nassignee: ada\n---\n\nThe text.\n";
    assert_eq!(text, expected);
    let again = tracker
        .set_fields(&id("race"), &changes, &attempt(&key, true))
        .expect("unchanged");
    assert_eq!(again.effect, TrackerEffect::Unchanged);
    assert_eq!(names(folder.path()), ["race.md"], "no temporary file stays");
}

#[test]
fn comments_are_added_once_and_are_no_part_of_the_text() {
    let folder = folder();
    let tracker = tracker(folder.path());
    for (text, repeats) in [
        ("Attempt 1", 3),
        ("Attempt 2\n\n<!-- cleveragents:comment -->", 2),
    ] {
        let key = key(if repeats == 3 {
            "01J9ZC5V7Q8W9E0R1T2Y3V4X5Z"
        } else {
            "01J9ZC5V7Q8W9E0R1T2Y3V4X6A"
        });
        for repeat in 0..repeats {
            let written = tracker
                .comment(&id("race"), text, &attempt(&key, repeat > 0))
                .expect("a comment");
            let is_first = written.effect == TrackerEffect::Written;
            assert_eq!(is_first, repeat == 0);
        }
    }
    let text = fs::read_to_string(folder.path().join("race.md")).expect("the file");
    assert_eq!(text.matches("Attempt 1").count(), 1);
    assert_eq!(
        text.matches("<!-- cleveragents:comment -->").count(),
        2,
        "{text}"
    );
    let issue = tracker.get(&id("race")).expect("read").expect("the issue");
    assert_eq!(issue.body, "The text.");
}

/// Writers of different comments race; each either adds its comment or reports that the file changed.
#[test]
fn no_concurrent_change_is_lost() {
    let folder = folder();
    let tracker = tracker(folder.path());
    let written = at_once(8, |writer| {
        let key = key(&format!("01J9ZC5V7Q8W9E0R1T2Y3V4X{writer:02}"));
        for _ in 0..400 {
            match tracker.comment(
                &id("race"),
                &format!("writer {writer}."),
                &attempt(&key, true),
            ) {
                Ok(_) => return true,
                Err(TrackerError::Conflict(_) | TrackerError::NotFound(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        false
    });
    assert!(written.iter().all(|is_written| *is_written), "{written:?}");
    let text = fs::read_to_string(folder.path().join("race.md")).expect("the file");
    for writer in 0..8 {
        let comment = format!("writer {writer}.");
        assert_eq!(text.matches(&comment).count(), 1, "{comment} in {text}");
    }
    assert_eq!(names(folder.path()), ["race.md"]);
}

#[test]
fn ids_cannot_leave_the_folder() {
    for text in ["../race", "a/b", ".hidden", "", "-x", "x y", "x\u{0}"] {
        assert!(text.parse::<ExternalId>().is_err(), "{text:?}");
    }
}
