//! A folder is repeatedly replaced by a link to outside while commands of the program work in it:
//! they neither change nor read anything outside.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cleveragents_testkit::proof_size;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{SandboxFixture, assert_same, read, tree};

const FILES: usize = 60;

/// Creates a folder with a subfolder of files, and an outside folder with the same file names.
fn create_folders(fixture: &SandboxFixture) -> (PathBuf, PathBuf) {
    let folder = fixture.folder().join("plain");
    let outside = fixture.user().join("outside");
    for path in [folder.join("p"), outside.clone()] {
        std::fs::create_dir_all(&path).expect("a folder");
    }
    for index in 0..FILES {
        let name = format!("f{index}");
        std::fs::write(folder.join("p").join(&name), "first\n").expect("a file");
        std::fs::write(outside.join(&name), "SECRET\n").expect("a file");
    }
    (folder, outside)
}

/// Replaces a folder by a link to outside as fast as possible while `work` runs. Returns the number
/// of replacements.
fn while_replacing(path: &Path, outside: &Path, work: impl FnOnce()) -> u64 {
    let tree = path.parent().expect("a parent folder");
    let decoy = tree.with_file_name("decoy");
    std::os::unix::fs::symlink(outside, &decoy).expect("a link");
    let (is_over, flips) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // A rollback may have removed the link.
                if renameat_with(CWD, path, CWD, &decoy, RenameFlags::EXCHANGE).is_ok() {
                    flips.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    // Restores the folder.
    if decoy.is_symlink() {
        std::fs::remove_file(&decoy).expect("the link");
    } else if decoy.is_dir() {
        if path.is_symlink() {
            std::fs::remove_file(path).expect("the link");
        } else if path.is_dir() {
            std::fs::remove_dir_all(path).expect("a folder");
        }
        std::fs::rename(&decoy, path).expect("the folder");
    }
    flips.into_inner()
}

fn assert_harmless(fixture: &SandboxFixture, command: &[&str]) {
    let answer = fixture.run(command);
    assert!(
        matches!(answer.code, Some(0 | 1 | 4)),
        "{command:?}: {answer:?}"
    );
    assert!(!answer.err.contains("panicked"), "{answer:?}");
    assert!(!answer.out.contains("SECRET"), "{command:?}: {answer:?}");
}

#[test]
fn a_repeatedly_replaced_folder_in_the_sandbox_gives_no_access_outside() {
    let fixture = SandboxFixture::new();
    let (folder, outside) = create_folders(&fixture);
    let before = tree(&outside);
    fixture.create(&folder);
    let work = fixture.sandbox().join("work/plain/p");
    let mut flips = 0;
    for round in 0..proof_size(3, 30) {
        for index in 0..FILES {
            std::fs::write(work.join(format!("f{index}")), format!("{round}\n")).expect("a file");
        }
        flips += while_replacing(&work, &outside, || {
            assert_harmless(&fixture, &["sandbox", "diff", "s"]);
            assert_harmless(&fixture, &["sandbox", "checkpoint", "s"]);
            assert_harmless(&fixture, &["sandbox", "rollback", "s", "--to", "1"]);
        });
        assert_same(&before, &tree(&outside));
    }
    assert!(flips > 1000, "{flips} flips");
    // Without the race everything works.
    fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
    for index in 0..FILES {
        assert_eq!(read(work.join(format!("f{index}"))), "first\n");
    }
    let state = tree(&fixture.sandbox().join("state"));
    assert!(state.len() > 1);
    fixture.discard();
}

#[test]
fn a_repeatedly_replaced_folder_of_the_user_leads_no_apply_outside() {
    let mut flips = 0;
    for _ in 0..proof_size(3, 30) {
        let fixture = SandboxFixture::new();
        let (folder, outside) = create_folders(&fixture);
        let before = tree(&outside);
        fixture.create(&folder);
        fixture.sh("for f in p/*; do echo changed > $f; done; rm p/f1; echo new > p/new");
        flips += while_replacing(&folder.join("p"), &outside, || {
            for _ in 0..3 {
                assert_harmless(&fixture, &["sandbox", "apply", "s"]);
                assert_harmless(&fixture, &["sandbox", "list"]);
            }
        });
        assert_same(&before, &tree(&outside));
        // Without the race the apply is finished or undone, never mixed.
        assert_harmless(&fixture, &["sandbox", "list"]);
        let state = fixture.agents.data(&["sandbox", "show", "s"])["sandbox"]["state"].clone();
        let expected = if state == "applied" {
            "changed\n"
        } else {
            "first\n"
        };
        for index in 2..FILES {
            let content = read(folder.join(format!("p/f{index}")));
            assert_eq!(content, expected, "f{index}, {state}");
        }
        if state != "applied" {
            fixture.apply();
            assert_eq!(read(folder.join("p/f2")), "changed\n");
        }
    }
    assert!(flips > 1000, "{flips} flips");
}
