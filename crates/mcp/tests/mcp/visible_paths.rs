//! Access of a server's program to files: declared paths, the sandbox of its calls, and its private home.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_mcp::{Options, ServerDefinition, Servers};
use serde_json::json;

use crate::support::{GateFixture, ServerFixture, TestFolder, eventually};
use crate::tests;

tests![
    a_program_reads_and_writes_only_what_is_declared,
    a_path_among_the_arguments_is_readable,
    a_folder_that_cannot_be_declared_is_refused,
    a_failed_start_lists_the_visible_folders,
    each_sandbox_has_its_own_program,
    the_home_persists_and_temporary_folders_are_removed,
];

/// Lets the server read a path. The path is encoded, so that the gate does not check it.
fn look(gate: &GateFixture, path: &Path) -> String {
    gate.ok("normal/look", &json!({"place": hexadecimal(path)}))
}

/// Lets the server write to a path; see [`look`].
fn put(gate: &GateFixture, path: &Path) -> String {
    gate.ok("normal/put", &json!({"place": hexadecimal(path)}))
}

fn hexadecimal(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = path.as_os_str().as_bytes().iter();
    let digits: Vec<String> = bytes.map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

/// A directory that servers cannot see, with a file in it.
fn outside() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("its path");
    std::fs::write(path.join("file"), "content").expect("a file");
    (folder, path)
}

fn texts(paths: &[&Path]) -> Vec<String> {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}

fn a_program_reads_and_writes_only_what_is_declared() {
    let (_kept, hidden) = outside();
    let (_kept, readable) = outside();
    let (_kept, writable) = outside();
    std::fs::create_dir(writable.join(".ssh")).expect("a folder");
    std::fs::write(writable.join(".ssh/id"), "key").expect("a key");
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("normal");
    definition.read = texts(&[&readable]);
    definition.write.extend(texts(&[&writable]));
    fixture.servers.add(definition, None).expect("added");
    let gate = fixture.gate();
    assert_eq!(look(&gate, &readable.join("file")), "content");
    assert_eq!(look(&gate, &writable.join("file")), "content");
    assert_eq!(put(&gate, &writable.join("new")), "done");
    assert_eq!(
        std::fs::read(writable.join("new")).expect("written"),
        b"put"
    );
    for path in [hidden.join("file"), writable.join(".ssh/id")] {
        assert!(
            look(&gate, &path).starts_with("refused"),
            "{}",
            path.display()
        );
    }
    for path in [hidden.join("new"), readable.join("new")] {
        assert!(
            put(&gate, &path).starts_with("refused"),
            "{}",
            path.display()
        );
        assert!(!path.exists());
    }
}

fn a_path_among_the_arguments_is_readable() {
    let (_kept, folder) = outside();
    let (_kept, other) = outside();
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("normal");
    let option = format!("--data={}", other.join("file").display());
    definition
        .args
        .extend([folder.display().to_string(), option]);
    let variables = |_: &str| None;
    let view = definition.view(&variables, Path::new("/")).expect("a view");
    let script = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(view.read.contains(&folder) && view.read.contains(&other.join("file")));
    assert!(!view.read.contains(&other) && !view.read.contains(&script.join("src")));
    fixture.servers.add(definition, None).expect("added");
    let gate = fixture.gate();
    assert_eq!(look(&gate, &folder.join("file")), "content");
    assert_eq!(look(&gate, &other.join("file")), "content");
    assert!(put(&gate, &folder.join("new")).starts_with("refused"));
    // A script is visible with its directory.
    assert!(look(&gate, &script.join("tests/mcp/main.rs")).contains("Servers that behave"));
    assert!(look(&gate, &script.join("Cargo.toml")).starts_with("refused"));
}

fn a_folder_that_cannot_be_declared_is_refused() {
    let protected = tempfile::tempdir().expect("a folder");
    cleveragents_process::hide(protected.path());
    std::fs::create_dir(protected.path().join("inside")).expect("a folder");
    let link = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(protected.path(), link.path().join("link")).expect("a link");
    let file = link.path().join("file");
    std::fs::write(&file, "x").expect("a file");
    let refused = [
        ("read", protected.path().to_owned()),
        ("read", protected.path().join("inside")),
        ("write", link.path().join("link/inside")),
        ("read", PathBuf::from("/")),
        ("read", PathBuf::from("/proc")),
        ("write", file),
        ("read", link.path().join("absent")),
        ("credentials", link.path().to_owned()),
        ("write", PathBuf::from("~")),
        ("read", PathBuf::from("~/..")),
        ("read", PathBuf::from("relative")),
    ];
    for (field, path) in refused {
        let mut definition = ServerDefinition::stdio("one", "true", &[]);
        let list = match field {
            "read" => &mut definition.read,
            "write" => &mut definition.write,
            _ => &mut definition.credentials,
        };
        list.push(path.display().to_string());
        let servers = Servers::new(Options::new("/")).expect("a runtime");
        let error = servers
            .add(definition, None)
            .and_then(|()| servers.connect("one").map(drop))
            .expect_err("it cannot be declared");
        assert_eq!(
            error.code(),
            Code::InvalidMcp,
            "{field} {}: {error}",
            path.display()
        );
    }
}

fn a_failed_start_lists_the_visible_folders() {
    let (_kept, folder) = outside();
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("exit");
    definition.read = texts(&[&folder]);
    fixture.servers.add(definition, None).expect("added");
    let error = fixture
        .servers
        .connect("exit")
        .expect_err("the program exits");
    let message = error.to_string();
    assert!(message.contains("only declared folders"), "{message}");
    assert!(message.contains(&folder.display().to_string()), "{message}");
    let hint = error.hint().unwrap_or_default().neutral();
    assert!(
        hint.contains("`mcp/add` (name=exit, read=FOLDER, update=true)"),
        "{hint}"
    );
}

fn each_sandbox_has_its_own_program() {
    let fixture = ServerFixture::with("normal");
    let (_kept, first) = outside();
    let (_kept, second) = outside();
    let offer = fixture.servers.offer();
    let in_first = GateFixture::new(&offer, Some(TestFolder::new(&first)));
    let in_second = GateFixture::new(&offer, Some(TestFolder::new(&second)));
    let without = GateFixture::new(&offer, None);
    assert_eq!(look(&in_first, &first.join("file")), "content");
    assert_eq!(look(&in_second, &second.join("file")), "content");
    assert!(look(&in_first, &second.join("file")).starts_with("refused"));
    assert!(look(&in_second, &first.join("file")).starts_with("refused"));
    assert!(look(&without, &first.join("file")).starts_with("refused"));
    // The program starts in the root of its sandbox, and the same program answers the next call.
    assert_eq!(look(&in_first, Path::new("file")), "content");
    // Four starts: to list the tools, for each sandbox, and for the call without a sandbox. The first one ends.
    assert_eq!(fixture.servers.status("normal").expect("known").starts, 4);
    eventually("the first program ends", || {
        // The kernel may reuse the namespace of the program that ended.
        let pids: BTreeSet<String> = fixture.pids().into_iter().collect();
        pids.iter()
            .filter(|pid| crate::support::is_alive(pid))
            .count()
            == 3
    });
}

fn the_home_persists_and_temporary_folders_are_removed() {
    let homes = tempfile::tempdir().expect("a folder");
    let path = homes.path().canonicalize().expect("its path");
    let fixture = ServerFixture::new();
    let connect = || {
        let mut options = Options::new(fixture.folder.path());
        options.homes = Some(path.clone());
        let servers = Servers::new(options).expect("a runtime");
        let definition = fixture.definition("normal");
        servers.add(definition, None).expect("added");
        servers
    };
    // A temporary directory of a process that was killed.
    std::fs::create_dir_all(path.join("normal/tmp/1-2-3/left")).expect("a folder");
    let home = path.join("normal/home");
    let temporary = {
        let servers = connect();
        let gate = GateFixture::new(&servers.offer(), None);
        assert_eq!(
            gate.ok("normal/env", &json!({"name": "HOME"})),
            home.display().to_string()
        );
        assert_eq!(put(&gate, &home.join("cache")), "done");
        let temporary = PathBuf::from(gate.ok("normal/env", &json!({"name": "TMPDIR"})));
        assert_eq!(put(&gate, &temporary.join("file")), "done");
        assert!(temporary.join("file").exists());
        assert!(!path.join("normal/tmp/1-2-3").exists());
        // Files next to the server's own directory are not visible.
        std::fs::write(path.join("other"), "secret").expect("a file");
        assert!(look(&gate, &path.join("other")).starts_with("refused"));
        temporary
    };
    assert!(!temporary.exists());
    let servers = connect();
    let gate = GateFixture::new(&servers.offer(), None);
    assert_eq!(look(&gate, &home.join("cache")), "put");
}
