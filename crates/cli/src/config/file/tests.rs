//! Tests of changes to a configuration file: preserved text, refused changes, and concurrent
//! processes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cleveragents_domain::{Code, Diagnose as _};
use proptest::prelude::*;
use toml_edit::{DocumentMut, value};

use super::{ConfigFile, insert};
use crate::config::document::{LoadedFile, Owner};
use crate::config::{Environment, Home, KEYS, Kind, Value, atomic};

/// Variables that control a child process of a test.
const CHILD_HOME: &str = "CLEVERAGENTS_TEST_CHILD_HOME";
const CHILD_PAIRS: &str = "CLEVERAGENTS_TEST_CHILD_PAIRS";
const CHILD_TIMES: &str = "CLEVERAGENTS_TEST_CHILD_TIMES";

fn home_in(folder: &Path) -> Home {
    let path = folder.join("home");
    Home::find(&Environment::from_pairs(
        "/",
        &[("CLEVERAGENTS_HOME", path.to_str().expect("text"))],
    ))
    .expect("home")
}

/// Creates a configuration file with this text in a new home folder.
fn file_with(text: &str) -> (tempfile::TempDir, ConfigFile) {
    let folder = tempfile::tempdir().expect("folder");
    let home = home_in(folder.path());
    home.create().expect("made");
    fs::write(home.config_file(), text).expect("file");
    (folder, ConfigFile::of_home(&home))
}

fn text_of(file: &ConfigFile) -> String {
    fs::read_to_string(file.path()).expect("text")
}

/// A valid value of a kind, as text.
fn valid_value(kind: Kind) -> &'static str {
    match kind {
        Kind::Url => "sqlite:///x.db",
        Kind::Profile | Kind::Actor => "team/careful",
        Kind::Model | Kind::Models => "openai/gpt-5.1",
        Kind::Tools => "builtin/shell,local/*",
        Kind::Safety => "careful",
        Kind::Web => "https://agents.example.org",
        Kind::Host => "127.0.0.1",
        Kind::File => "server.pem",
        Kind::LogFilter => "info",
        Kind::Namespace => "acme",
        Kind::Flag => "true",
        Kind::Words(words) | Kind::Choice(words) => words[0],
        Kind::Integer { .. } => "7",
    }
}

#[test]
fn the_first_value_makes_a_private_file_in_a_private_folder() {
    let folder = tempfile::tempdir().expect("folder");
    let home = home_in(folder.path());
    let changes = ConfigFile::of_home(&home)
        .set(&[("store.connections", "4")])
        .expect("set");
    assert_eq!(
        (&changes[0].before, &changes[0].after),
        (&None, &Some(Value::Integer(4)))
    );
    let mode = |path: &Path| path.metadata().expect("exists").permissions().mode() & 0o777;
    assert_eq!(
        (mode(home.path()), mode(&home.config_file())),
        (0o700, 0o600)
    );
    let text = fs::read_to_string(home.config_file()).expect("text");
    assert_eq!(text, "[store]\nconnections = 4\n");
}

#[test]
fn comments_and_order_survive_a_change() {
    let (_folder, file) = file_with(
        "# mine\ncore.automation-profile = \"supervised\" # why\n\n[store]\n# few\nconnections = 2 # for now\n",
    );
    let changes = file
        .set(&[
            ("store.connections", "3"),
            ("core.format", "json"),
            ("cleanup.events-days", "9"),
        ])
        .expect("set");
    assert_eq!(changes[0].before, Some(Value::Integer(2)));
    insta::assert_snapshot!(text_of(&file), @r#"
    # mine
    core.automation-profile = "supervised" # why
    core.format = "json"

    [store]
    # few
    connections = 3 # for now

    [cleanup]
    events-days = 9
    "#);
}

#[test]
fn every_spelling_is_changed_in_place() {
    for (before, after) in [
        (
            "core = { format = \"json\" }\n",
            "core = { format = \"yaml\" }\n",
        ),
        ("core.format = \"json\"\n", "core.format = \"yaml\"\n"),
        ("[core]\nformat = 3\n", "[core]\nformat = \"yaml\"\n"),
    ] {
        let (_folder, file) = file_with(before);
        file.set(&[("core.format", "yaml")]).expect("set");
        assert_eq!(text_of(&file), after);
    }
}

#[test]
fn unsetting_removes_only_the_key() {
    let (_folder, file) = file_with("[store]\nconnections = 2\nbusy-timeout-seconds = 5\n");
    let changes = file
        .unset(&["store.connections", "core.format"])
        .expect("unset");
    assert_eq!(
        (&changes[0].before, &changes[1].before),
        (&Some(Value::Integer(2)), &None)
    );
    assert_eq!(text_of(&file), "[store]\nbusy-timeout-seconds = 5\n");
}

#[test]
fn unsetting_without_a_file_creates_no_file() {
    let folder = tempfile::tempdir().expect("folder");
    let home = home_in(folder.path());
    ConfigFile::of_home(&home)
        .unset(&["core.format"])
        .expect("no folder");
    assert!(!home.path().exists());
    home.create().expect("made");
    ConfigFile::of_home(&home)
        .unset(&["core.format"])
        .expect("no file");
    assert!(!home.config_file().exists());
}

#[test]
fn a_project_file_accepts_only_project_keys() {
    let folder = tempfile::tempdir().expect("folder");
    let file = ConfigFile::of_project(folder.path().join(".cleveragents/config.toml"));
    let error = file.set(&[
        ("core.format", "json"),
        ("core.database-url", "sqlite:///x"),
    ]);
    assert_eq!(
        error.expect_err("not a project key").code(),
        Code::NotProjectScoped
    );
    assert!(!file.path().exists());
    file.set(&[("core.format", "json")]).expect("set");
    assert!(
        LoadedFile::read(file.path(), Owner::Project)
            .expect("valid")
            .get("core.format")
            .is_some()
    );
}

#[test]
fn an_invalid_file_stays_unchanged() {
    for text in ["[core\n", "\ncore = 3\n", "[[core]]\n"] {
        let (_folder, file) = file_with(text);
        let error = file.set(&[("core.format", "json")]).expect_err(text);
        assert!(error.to_string().contains("config.toml:"), "{error}");
        assert_eq!(text_of(&file), text);
    }
}

#[test]
fn defect_2166_a_set_of_several_keys_is_all_or_nothing() {
    let text = "# mine\n[core]\nformat = \"json\"\n";
    let (_folder, file) = file_with(text);
    for refused in [
        ("store.connections", "99"),
        ("store.conections", "9"),
        ("core.format", "x"),
    ] {
        let pairs = [
            ("cleanup.events-days", "1"),
            ("core.format", "yaml"),
            refused,
        ];
        assert!(file.set(&pairs).is_err());
        assert_eq!(text_of(&file), text);
        assert!(file.unset(&["core.format", "core.fromat"]).is_err());
        assert_eq!(text_of(&file), text);
    }
    // A failed write keeps the old file too.
    let folder = file.path().parent().expect("folder");
    fs::create_dir(folder.join(".config.toml.lock")).expect("a folder where the lock should be");
    let error = file.set(&[("core.format", "yaml")]).expect_err("no lock");
    assert_eq!(error.code(), Code::FileAccess);
    assert_eq!(text_of(&file), text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn defect_2166_after_any_set_the_file_holds_all_pairs_or_its_old_bytes(
        pairs in proptest::collection::vec(
            (proptest::sample::select((0..KEYS.len()).collect::<Vec<_>>()),
             proptest::sample::select(vec!["json", "7", "64", "100", "sqlite:///x", "a b", ""])),
            1..6),
        start in proptest::sample::select(vec![
            "", "# c\n", "store.connections = 3\n", "[core]\nformat = \"table\" # x\n",
            "core = { format = \"rich\", automation-profile = \"ci\" }\n[session]\n",
        ]),
    ) {
        let (_folder, file) = file_with(start);
        let named: Vec<_> = pairs.iter().map(|(index, text)| (KEYS[*index].name, *text)).collect();
        let outcome = file.set(&named);
        if outcome.is_ok() {
            let loaded = LoadedFile::read(file.path(), Owner::User).expect("valid");
            for (index, _) in &pairs {
                let key = KEYS[*index];
                let last = pairs.iter().rev().find(|(other, _)| other == index).expect("given").1;
                let (stored, _) = loaded.get(key.name).expect("stored");
                prop_assert_eq!(stored, key.parse(last).expect("valid"));
            }
        } else {
            prop_assert_eq!(text_of(&file), start);
        }
    }
}

/// Runs as the child process of the tests below; without its variables it does nothing.
#[test]
fn child_that_sets_keys() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(home) = variable(CHILD_HOME) else {
        return;
    };
    let home = Home::find(&Environment::from_pairs(
        "/",
        &[("CLEVERAGENTS_HOME", &home)],
    ));
    let file = ConfigFile::of_home(&home.expect("home"));
    let pairs = variable(CHILD_PAIRS).expect("pairs");
    let pairs: Vec<_> = pairs
        .split(' ')
        .map(|pair| pair.split_once('=').expect("pair"))
        .collect();
    let times: usize = variable(CHILD_TIMES)
        .expect("times")
        .parse()
        .expect("number");
    for _ in 0..times {
        file.set(&pairs).expect("set");
        if times > 1 {
            let keys: Vec<_> = pairs.iter().map(|(key, _)| *key).collect();
            file.unset(&keys).expect("unset");
        }
    }
}

fn child(home: &Home, pairs: &str, times: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command
        .args([
            "--exact",
            "config::file::tests::child_that_sets_keys",
            "--quiet",
        ])
        .env(CHILD_HOME, home.path())
        .env(CHILD_PAIRS, pairs)
        .env(CHILD_TIMES, times.to_string())
        .stdout(Stdio::null());
    command
}

#[test]
fn defect_7106_processes_that_set_different_keys_keep_all_of_them() {
    for _ in 0..3 {
        let folder = tempfile::tempdir().expect("folder");
        let home = home_in(folder.path());
        let mut children: Vec<_> = KEYS
            .iter()
            .map(|key| {
                child(&home, &format!("{}={}", key.name, valid_value(key.kind)), 1)
                    .spawn()
                    .expect("child")
            })
            .collect();
        for child in &mut children {
            assert!(child.wait().expect("ends").success());
        }
        let loaded = LoadedFile::read(&home.config_file(), Owner::User).expect("valid");
        for key in KEYS {
            assert!(loaded.get(key.name).is_some(), "{} was lost", key.name);
        }
    }
}

#[test]
fn defect_7106_a_killed_process_leaves_a_whole_file_and_no_lock() {
    let folder = tempfile::tempdir().expect("folder");
    let home = home_in(folder.path());
    let file = ConfigFile::of_home(&home);
    for round in 0..8 {
        let mut child = child(&home, "core.format=json store.connections=7", 1_000_000)
            .spawn()
            .expect("child");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !home.config_file().exists() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(5 + round * 3));
        child.kill().expect("killed");
        child.wait().expect("ended");
        let loaded = LoadedFile::read(&home.config_file(), Owner::User).expect("whole");
        let both = [loaded.get("core.format"), loaded.get("store.connections")];
        assert!(both.iter().all(Option::is_some) || both.iter().all(Option::is_none));
        file.set(&[("cleanup.events-days", "1")])
            .expect("the lock ended with the process");
    }
}

#[test]
fn defect_7106_a_reader_never_sees_half_of_a_change() {
    const WRITERS: usize = 16;
    const KEYS_PER_WRITER: usize = 10;
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("config.toml");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut reads, mut max_count) = (0_usize, 0);
            while !is_done.load(Ordering::Relaxed) {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let document: DocumentMut = text.parse().expect("whole at every instant");
                let count = document
                    .get("t")
                    .and_then(|item| item.as_table())
                    .map_or(0, toml_edit::Table::len);
                assert!(count >= max_count, "a change was undone");
                max_count = count;
                reads += 1;
            }
            reads
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let path = &path;
                scope.spawn(move || {
                    for number in 0..KEYS_PER_WRITER {
                        let key = format!("t.k{writer}-{number}");
                        atomic::update(path, |text| {
                            let mut document: DocumentMut =
                                text.unwrap_or_default().parse().expect("whole");
                            insert(&mut document, &key, value(1).into_value().expect("value"))
                                .expect("table");
                            Ok(((), Some(document.to_string())))
                        })
                        .expect("updated");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("ends");
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(reader.join().expect("ends") > 0);
    });
    let document: DocumentMut = fs::read_to_string(&path)
        .expect("text")
        .parse()
        .expect("whole");
    assert_eq!(
        document["t"].as_table().expect("table").len(),
        WRITERS * KEYS_PER_WRITER
    );
}
