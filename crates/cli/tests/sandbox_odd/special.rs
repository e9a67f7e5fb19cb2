//! Links, pipes, overlong paths and unusual permissions that a command or a cloned repository
//! leaves. The program follows no link, blocks on no pipe, and can always roll back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{SandboxFixture, read, set_mode};

/// Runs statements on an SQLite database and returns their output.
fn sql(database: &Path, statements: &str) -> String {
    let script = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1])\n\
        for s in sys.argv[2].split(';'):\n  for r in c.execute(s): print(*r)\nc.commit()";
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(database)
        .arg(statements)
        .output()
        .expect("python3 starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Creates the user's database, and another database outside of all sandboxes.
fn databases(fixture: &SandboxFixture) -> (PathBuf, PathBuf) {
    let (mine, other) = (
        fixture.folder().join("app.db"),
        fixture.folder().join("other.db"),
    );
    sql(&mine, "create table t(x);insert into t values('mine')");
    sql(&other, "create table t(x);insert into t values('other')");
    (mine, other)
}

#[test]
fn a_link_in_the_place_of_a_database_is_neither_followed_nor_applied() {
    let fixture = SandboxFixture::new();
    let (mine, other) = databases(&fixture);
    let before = std::fs::read(&other).expect("bytes");
    let scripts = [
        format!("ln -sf '{}' app.db; touch app.db-wal", other.display()),
        format!("ln -sf '{}' app.db; echo x > app.db-wal", other.display()),
    ];
    for script in scripts {
        fixture.create(&mine);
        fixture.sh(&script);
        fixture.refused(&["sandbox", "apply", "s"], 1, "CA-0647");
        assert_eq!(sql(&mine, "select x from t"), "mine");
        assert_eq!(std::fs::read(&other).expect("bytes"), before);
        fixture.run_successfully(["sandbox", "rollback", "s"]);
        fixture.sh("test -f app.db && ! test -L app.db && ! test -e app.db-wal");
        fixture.discard();
    }
    // A write-ahead log that is a link is ignored.
    fixture.create(&mine);
    let log = fixture.folder().join("log");
    std::fs::write(&log, "kept").expect("a file");
    fixture.sh(&format!("ln -s '{}' app.db-wal", log.display()));
    fixture.run_successfully(["sandbox", "apply", "s"]);
    assert_eq!(read(&log), "kept");
    assert_eq!(sql(&mine, "select x from t"), "mine");
}

#[test]
fn a_pipe_in_place_of_a_log_does_not_block() {
    let fixture = SandboxFixture::new();
    let (mine, _) = databases(&fixture);
    for suffix in ["wal", "journal", "shm"] {
        fixture.create(&mine);
        fixture.sh(&format!("mkfifo app.db-{suffix}"));
        fixture.run_successfully(["sandbox", "diff", "s"]);
        fixture.run_successfully(["sandbox", "apply", "s"]);
    }
    assert_eq!(sql(&mine, "select x from t"), "mine");
}

#[test]
fn the_write_ahead_log_of_a_database_is_applied() {
    let fixture = SandboxFixture::new();
    let (mine, _) = databases(&fixture);
    fixture.create(&mine);
    // The process dies with a log that was not checkpointed.
    fixture.sh(
        "python3 -c \"import sqlite3,os\nc=sqlite3.connect('app.db')\n\
         c.execute('pragma journal_mode=wal')\nc.execute('insert into t values(1)')\n\
         c.commit()\nos._exit(0)\"; test -s app.db-wal",
    );
    fixture.run_successfully(["sandbox", "apply", "s"]);
    assert_eq!(sql(&mine, "select x from t"), "mine\n1");
}

#[test]
fn a_removed_or_damaged_database_can_be_rolled_back() {
    let fixture = SandboxFixture::new();
    let (mine, _) = databases(&fixture);
    for script in [
        "rm app.db",
        "rm app.db; mkdir app.db; echo x > app.db/file",
        "rm app.db; mkfifo app.db",
        "echo junk > app.db; echo junk > app.db-wal; mkdir app.db-journal",
    ] {
        fixture.create(&mine);
        fixture.sh(script);
        fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
        assert_eq!(fixture.diff().len(), 0, "{script}");
        fixture.sh("test -f app.db && ! test -e app.db-wal && ! test -e app.db-journal");
        fixture.discard();
    }
}

#[test]
fn a_pipe_in_place_of_a_file_or_folder_can_be_rolled_back() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    for script in [
        "rm a.txt; mkfifo a.txt",
        "rm -r d; mkfifo d",
        "rm link; mkfifo link",
    ] {
        fixture.create(&repository);
        fixture.sh(script);
        fixture.run_successfully(["sandbox", "diff", "s"]);
        fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
        assert_eq!(fixture.diff().len(), 0, "{script}");
        fixture.sh("grep -q one a.txt; grep -q two d/b.txt; test -L link");
        fixture.discard();
    }
}

#[test]
fn an_overlong_path_can_be_shown_and_rolled_back() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture.sh(
        "python3 -c \"import os\nfor i in range(20):\n  os.mkdir('x'*250); os.chdir('x'*250)\n\
         open('f','w').write('deep')\"; echo changed > a.txt",
    );
    assert_eq!(fixture.diff().len(), 22);
    let patch = fixture.run_successfully(["sandbox", "diff", "s"]);
    assert!(patch.out.contains("+changed"), "{}", patch.out.len());
    fixture.apply_refused(&repository, 1, "CA-0647");
    fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
    assert_eq!(fixture.diff().len(), 0);
    fixture.discard();
    // The path is deeper than the limit of open files.
    fixture.create(&repository);
    fixture.sh("python3 -c \"import os\nfor i in range(1100):\n  os.mkdir('x'); os.chdir('x')\"");
    fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
    fixture.sh("python3 -c \"import os\nfor i in range(1100):\n  os.mkdir('x'); os.chdir('x')\"");
    fixture.discard();
    fixture.assert_nothing_left(&repository);
}

#[test]
fn pipes_with_names_that_git_reads_do_not_block() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    for name in [
        ".gitignore",
        "d/.gitignore",
        ".gitattributes",
        ".gitmodules",
    ] {
        fixture.create(&repository);
        fixture.sh(&format!(
            "mkfifo {name}; echo {name} >> a.txt; echo x > d/new"
        ));
        fixture.run_successfully(["sandbox", "diff", "s"]);
        fixture.apply();
        assert!(read(repository.join("a.txt")).ends_with(&format!("{name}\n")));
        assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
    }
}

#[test]
fn a_repository_with_a_pipe_that_git_would_open_is_refused_at_once() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    let path = repository.to_str().expect("a path");
    let status = Command::new("mkfifo")
        .arg(repository.join("d/.gitignore"))
        .status();
    assert!(status.expect("mkfifo starts").success());
    let create = ["sandbox", "create", "s", "--path", path];
    let error = fixture.refused(&create, 1, "CA-0646");
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("d/.gitignore"), "{message}");
}

/// An unpacked archive can contain such files, unlike a clone.
#[test]
fn a_repository_whose_git_folder_has_a_pipe_or_device_is_refused_at_once() {
    let fixture = SandboxFixture::new();
    let names = [
        "HEAD",
        "config",
        "config.worktree",
        "commondir",
        "index",
        "packed-refs",
        "shallow",
        "info/exclude",
        "info/attributes",
        "objects/info/alternates",
        "refs/heads/main",
        "logs/HEAD",
    ];
    for (number, name) in names.into_iter().enumerate() {
        let repository = fixture.repository(format!("r{number}"));
        let path = repository.to_str().expect("a path");
        let file = repository.join(".git").join(name);
        let _absent = std::fs::remove_file(&file);
        if number % 2 == 0 {
            let status = Command::new("mkfifo").arg(&file).status();
            assert!(status.expect("mkfifo starts").success());
        } else {
            std::os::unix::fs::symlink("/dev/zero", &file).expect("a link");
        }
        let create = ["sandbox", "create", "s", "--path", path];
        let error = fixture.refused(&create, 1, "CA-0646");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains(name), "{message}");
        let add = ["resource", "add", "git-checkout", "local/r", "--path", path];
        assert_ne!(fixture.run(add).code, Some(0), "{name}");
    }
}

/// Git reports such a file as changed without an edit: neither its bytes in the commit nor those that git
/// writes at a checkout have the line endings that the attributes specify.
#[test]
fn a_file_with_mixed_line_endings_is_no_conflict() {
    let fixture = SandboxFixture::new();
    let original = fixture.repository("original");
    std::fs::write(original.join("w.txt"), "a\nb\r\n").expect("a file");
    fixture.commit(&original, "mixed");
    std::fs::write(original.join(".gitattributes"), "*.txt text eol=crlf\n").expect("a file");
    fixture.git(&original, &["add", ".gitattributes"]);
    fixture.git(&original, &["commit", "-q", "-m", "attributes"]);
    let repository = fixture.folder().join("clone");
    let (from, to) = (
        original.to_str().expect("a path"),
        repository.to_str().expect("a path"),
    );
    fixture.git(&original, &["clone", "-q", from, to]);
    fixture.create(&repository);
    fixture.sh("printf 'new\\r\\n' >> w.txt");
    fixture.apply();
    assert_eq!(
        std::fs::read(repository.join("w.txt")).expect("a file"),
        b"a\r\nb\r\nnew\r\n"
    );
}

#[test]
fn files_committed_with_carriage_returns_are_applied() {
    for (setting, attributes) in [
        ("true", ""),
        ("input", ""),
        ("false", "* text=auto\n"),
        ("false", "* text\n"),
    ] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        std::fs::write(repository.join("w.txt"), "a\r\nb\r\n").expect("a file");
        fixture.commit(&repository, "with carriage returns");
        fixture.git(&repository, &["config", "core.autocrlf", setting]);
        if !attributes.is_empty() {
            std::fs::write(repository.join(".gitattributes"), attributes).expect("a file");
            fixture.git(&repository, &["add", ".gitattributes"]);
            fixture.git(&repository, &["commit", "-q", "-m", "attributes"]);
        }
        fixture.create(&repository);
        fixture.sh("printf 'a\\r\\nc\\r\\n' > w.txt; echo more >> a.txt");
        fixture.apply();
        let context = format!("{setting} {attributes}");
        let text = std::fs::read(repository.join("w.txt")).expect("a file");
        assert_eq!(text, b"a\r\nc\r\n", "{context}");
        assert_eq!(
            fixture.git(&repository, &["status", "--porcelain"]),
            "",
            "{context}"
        );
        // The user's own edit is still detected.
        fixture.create(&repository);
        fixture.sh("printf 'a\\r\\nd\\r\\n' > w.txt");
        std::fs::write(repository.join("w.txt"), "a\r\nmine\r\n").expect("a file");
        fixture.apply_refused(&repository, 4, "CA-0645");
        fixture.discard();
    }
}

#[test]
fn set_user_id_set_group_id_and_sticky_bits_stay_in_the_sandbox() {
    let fixture = SandboxFixture::new();
    let folder = fixture.folder().join("plain");
    std::fs::create_dir_all(folder.join("d")).expect("a folder");
    std::fs::write(folder.join("a.txt"), "one\n").expect("a file");
    std::fs::write(folder.join("own"), "own\n").expect("a file");
    set_mode(&folder.join("own"), 0o4755);
    let script = "echo x > new; chmod 4755 new; chmod 6755 a.txt; chmod 1777 d; \
        if test -e own; then echo y >> own; chmod 4755 own; fi";
    let mode = |path: PathBuf| {
        let metadata = std::fs::symlink_metadata(path).expect("metadata");
        metadata.permissions().mode() & 0o7777
    };
    for path in [folder, fixture.repository("r")] {
        fixture.create(&path);
        fixture.sh(script);
        fixture.apply();
        let modes = ["new", "a.txt", "d"].map(|name| mode(path.join(name)));
        assert_eq!(modes, [0o755, 0o755, 0o777], "{}", path.display());
        if path.ends_with("plain") {
            assert_eq!(read(path.join("own")), "own\ny\n");
            assert_eq!(mode(path.join("own")), 0o755, "a write removes the bit");
        }
    }
}

#[test]
fn a_projects_configuration_that_is_not_a_regular_file_is_refused_at_once() {
    let fixture = SandboxFixture::new();
    let folder = fixture.folder().join(".cleveragents");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("config.toml");
    std::os::unix::fs::symlink("/dev/zero", &file).expect("a link");
    fixture.refused(&["sandbox", "list"], 1, "CA-0105");
    std::fs::remove_file(&file).expect("removed");
    let status = Command::new("mkfifo")
        .arg(&file)
        .status()
        .expect("mkfifo starts");
    assert!(status.success());
    fixture.refused(&["sandbox", "list"], 1, "CA-0105");
    std::fs::remove_file(&file).expect("removed");
    std::fs::write(&file, vec![b'#'; 2 << 20]).expect("a file");
    fixture.refused(&["sandbox", "list"], 1, "CA-0105");
}
