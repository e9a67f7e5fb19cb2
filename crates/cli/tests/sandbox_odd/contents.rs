//! Conversions of content by git: filters, line ends, encodings, permissions, links.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{SandboxFixture, files, read, set_mode};

/// Configures a filter that leaves a trace when it runs. Returns the path of the trace.
fn configure_filter(fixture: &SandboxFixture, name: &str) -> PathBuf {
    let trace = fixture.user().join("trace");
    for variable in ["clean", "smudge", "process"] {
        let command = format!("touch '{}'; cat", trace.display());
        fixture.config(&format!("filter.{name}.{variable}"), &command);
    }
    fixture.config(&format!("filter.{name}.required"), "true");
    trace
}

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
    oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

#[test]
fn lfs_pointers_stay_and_changing_one_is_refused() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    std::fs::write(
        repository.join(".gitattributes"),
        "*.bin filter=lfs -text\n",
    )
    .expect("a file");
    std::fs::write(repository.join("large.bin"), POINTER).expect("a file");
    fixture.commit(&repository, "a pointer");
    // The filter is configured after the commit, so the commit contains the pointer.
    let trace = configure_filter(&fixture, "lfs");
    fixture.create(&repository);
    fixture.sh("grep -q git-lfs large.bin; echo changed > a.txt");
    fixture.apply();
    assert_eq!(read(repository.join("large.bin")), POINTER);

    for script in ["echo x >> large.bin", "rm large.bin", "echo x > new.bin"] {
        fixture.create(&repository);
        fixture.sh(script);
        let message = fixture.apply_refused(&repository, 1, "CA-0647");
        assert!(message.contains("filter `lfs`"), "{message}");
        fixture.run_successfully(["sandbox", "diff", "s"]);
        fixture.run_successfully(["sandbox", "rollback", "s"]);
        fixture.discard();
    }
    assert!(!trace.exists(), "the filter never ran");
    fixture.assert_nothing_left(&repository);
}

/// Names of filters that are hard to parse.
#[test]
fn filters_of_any_name_never_run() {
    for name in ["plain", "a=b", "filter.x", "ünï", "with space"] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        if !name.contains(' ') {
            // The attributes are committed, so the filter is active at checkout.
            std::fs::write(
                repository.join(".gitattributes"),
                format!("*.txt filter={name}\n"),
            )
            .expect("a file");
            fixture.git(&repository, &["add", ".gitattributes"]);
            fixture.git(&repository, &["commit", "-q", "-m", "attributes"]);
        }
        let trace = configure_filter(&fixture, name);
        fixture.create(&repository);
        fixture.sh("echo changed > a.txt; echo x > run.sh");
        fixture.run_successfully(["sandbox", "diff", "s"]);
        if !name.contains(' ') {
            let message = fixture.apply_refused(&repository, 1, "CA-0647");
            assert!(message.contains(&format!("filter `{name}`")), "{message}");
        }
        fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
        assert!(fixture.diff().is_empty());
        assert!(!trace.exists(), "the filter `{name}` never ran");
    }
}

/// The filter is configured only for git in the folder of a sandbox.
#[test]
fn a_filter_that_depends_on_the_folder_never_runs() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    std::fs::write(repository.join(".gitattributes"), "*.txt filter=late\n").expect("a file");
    fixture.commit(&repository, "attributes");
    let trace = fixture.user().join("trace");
    let late = fixture.user().join("late");
    let command = format!("touch '{}'; cat", trace.display());
    std::fs::write(
        &late,
        format!("[filter \"late\"]\n\tsmudge = \"{command}\"\n"),
    )
    .expect("a file");
    let condition = format!(
        "includeIf.gitdir:{}/**.path",
        fixture.agents.home().display()
    );
    fixture.config(&condition, late.to_str().expect("UTF-8"));
    fixture.create(&repository);
    fixture.sh("echo changed > run.sh");
    fixture.apply();
    assert!(!trace.exists());
}

#[test]
fn attributes_written_in_the_sandbox_run_no_filter() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    let trace = configure_filter(&fixture, "mine");
    fixture.config(
        "diff.mine.textconv",
        &format!("touch '{}'; cat", trace.display()),
    );
    fixture.config(
        "diff.mine.command",
        &format!("touch '{}'; cat", trace.display()),
    );
    fixture.config(
        "merge.mine.driver",
        &format!("touch '{}'; true", trace.display()),
    );
    fixture.create(&repository);
    fixture.sh("echo '* filter=mine diff=mine merge=mine' > .gitattributes; echo changed > a.txt");
    fixture.run_successfully(["sandbox", "diff", "s"]);
    let message = fixture.apply_refused(&repository, 1, "CA-0647");
    assert!(message.contains("filter `mine`"), "{message}");
    fixture.sh("echo '* diff=mine merge=mine' > .gitattributes");
    std::fs::write(repository.join("d/b.txt"), "the user's\n").expect("a file");
    fixture.git(
        &repository,
        &["-c", "merge.mine.driver=", "commit", "-qam", "meanwhile"],
    );
    fixture.apply();
    assert!(!trace.exists(), "no command ran");
}

/// The sandbox has the line ends that git checks out, and applies changed line ends byte for byte.
#[test]
fn line_ends_are_converted_as_git_does() {
    for (settings, attributes, is_converted) in [
        (Some(("core.autocrlf", "true")), "", true),
        (Some(("core.autocrlf", "input")), "", false),
        (None, "*.txt text eol=crlf\n", true),
        (None, "* text=auto\n", false),
        (None, "*.txt -text\n", false),
    ] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        std::fs::write(repository.join(".gitattributes"), attributes).expect("a file");
        fixture.commit(&repository, "attributes");
        if let Some((name, value)) = settings {
            fixture.config(name, value);
        }
        for name in ["a.txt", "d/b.txt"] {
            std::fs::remove_file(repository.join(name)).expect("a file");
        }
        fixture.git(&repository, &["checkout", "-q", "--", "."]);
        fixture.create(&repository);
        let first = fixture.sandbox().join("work/r/a.txt");
        assert_eq!(read(&first), read(repository.join("a.txt")));
        assert_eq!(read(&first).contains('\r'), is_converted, "{attributes:?}");
        assert!(fixture.diff().is_empty(), "nothing changed yet");
        fixture.sh("printf 'two\\r\\nlines\\r\\n' > a.txt; printf 'x\\n' > new.txt");
        fixture.run_successfully(["sandbox", "rollback", "s"]);
        assert_eq!(read(&first), read(repository.join("a.txt")), "rolled back");
        fixture.run_successfully(["sandbox", "redo", "s"]);
        fixture.apply();
        assert_eq!(read(repository.join("a.txt")), "two\r\nlines\r\n");
        assert_eq!(read(repository.join("new.txt")), "x\n");
        assert_eq!(
            fixture.git(&repository, &["status", "--porcelain"]),
            "",
            "{attributes:?}"
        );
    }
}

/// The diff shows a change that affects only line ends, byte for byte.
#[test]
fn the_diff_shows_line_ends_regardless_of_git_settings() {
    let fixture = SandboxFixture::new();
    fixture.config("core.autocrlf", "true");
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture.sh("printf 'one\\n' > a.txt");
    let shown = fixture.run_successfully(["sandbox", "diff", "s"]).out;
    assert!(shown.contains("-one\r\n+one\n"), "{shown:?}");
}

#[test]
fn encodings_and_idents_are_converted_as_git_does() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    let attributes = "*.utf16 text working-tree-encoding=UTF-16LE\n*.id ident\n";
    std::fs::write(repository.join(".gitattributes"), attributes).expect("a file");
    let wide = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    std::fs::write(repository.join("w.utf16"), wide("first\n")).expect("a file");
    std::fs::write(repository.join("x.id"), "$Id$\n").expect("a file");
    fixture.commit(&repository, "converted");
    fixture.git(&repository, &["rm", "-q", "--cached", "x.id"]);
    fixture.git(&repository, &["reset", "-q", "--hard"]);
    fixture.create(&repository);
    let work = fixture.sandbox().join("work/r");
    assert_eq!(
        std::fs::read(work.join("w.utf16")).expect("a file"),
        wide("first\n")
    );
    assert!(fixture.diff().is_empty());
    std::fs::write(work.join("w.utf16"), wide("second\n")).expect("a file");
    fixture.sh("echo more >> x.id");
    fixture.apply();
    assert_eq!(
        fixture.git(&repository, &["show", "HEAD:w.utf16"]),
        "second"
    );
    assert_eq!(
        fixture.git(&repository, &["show", "HEAD:x.id"]),
        "$Id$\nmore"
    );
    assert_eq!(
        std::fs::read(repository.join("w.utf16")).expect("a file"),
        wide("second\n")
    );
    assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path)
        .expect("metadata")
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn the_executable_bit_is_applied_even_if_git_ignores_it() {
    for file_mode in ["true", "false"] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        fixture.git(&repository, &["config", "core.fileMode", file_mode]);
        fixture.create(&repository);
        fixture.sh("chmod +x a.txt; chmod -x run.sh; echo x > new; chmod 755 new");
        fixture.apply();
        for (name, expected) in [("a.txt", 0o755), ("run.sh", 0o644), ("new", 0o755)] {
            assert_eq!(
                mode(&repository.join(name)),
                expected,
                "{file_mode}: {name}"
            );
        }
        assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
        let staged = fixture.git(&repository, &["ls-files", "-s", "a.txt", "run.sh"]);
        let is_recorded = staged.starts_with("100755") && staged.contains("\n100644");
        assert_eq!(is_recorded, file_mode == "true", "{staged}");
    }
}

#[test]
fn permissions_that_git_does_not_store_are_also_applied() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    set_mode(&repository.join("d"), 0o700);
    fixture.create(&repository);
    fixture.sh("chmod 600 a.txt; mkdir -m 750 e; echo x > e/f; chmod 640 e/f");
    fixture.apply();
    for (name, expected) in [("a.txt", 0o600), ("e", 0o750), ("e/f", 0o640), ("d", 0o700)] {
        assert_eq!(mode(&repository.join(name)), expected, "{name}");
    }
}

#[test]
fn links_files_and_folders_can_replace_each_other() {
    for script in [
        "rm link; echo file > link",
        "rm a.txt; ln -s run.sh a.txt",
        "rm -r d; ln -s a.txt d",
        "mkdir e; echo 1 > e/b.txt; rm -r d; ln -s e d",
        "rm link; mkdir link; echo 1 > link/x; echo 2 > link/y",
        "rm -r d; echo file > d",
        "rm a.txt; mkdir -p a.txt/deep/er; echo 1 > a.txt/deep/er/f",
        "ln -sfn /etc/passwd link; ln -s ../../.. out; ln -s missing dangling; ln -s self self",
    ] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        let before = files(&repository);
        fixture.create(&repository);
        fixture.sh(script);
        let after = files(&fixture.sandbox().join("work/r"));
        fixture.run_successfully(["sandbox", "rollback", "s"]);
        assert_eq!(files(&fixture.sandbox().join("work/r")), before, "{script}");
        fixture.run_successfully(["sandbox", "redo", "s"]);
        assert_eq!(files(&fixture.sandbox().join("work/r")), after, "{script}");
        fixture.apply_and_check(&repository);
        assert_eq!(files(&repository), after, "{script}");
    }
}
