//! `agents sandbox exec`: read access of the command.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::SandboxFixture;

fn bench_with_sandbox() -> SandboxFixture {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture
}

/// A sandbox whose commands find the toolchains of the user who runs the tests.
pub(super) fn with_toolchains() -> SandboxFixture {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let folders = [
        ("RUSTUP_HOME", ".rustup"),
        ("CARGO_HOME", ".cargo"),
        ("PYENV_ROOT", ".pyenv"),
        ("NVM_DIR", ".nvm"),
    ];
    let mut fixture = bench_with_sandbox();
    for (variable, folder) in folders {
        let path = std::env::var_os(variable).map_or_else(|| home.join(folder), PathBuf::from);
        if path.is_dir() {
            fixture = fixture.with(variable, path.to_string_lossy().into_owned());
        }
    }
    fixture
}

pub(super) fn sh(
    fixture: &SandboxFixture,
    options: &[&str],
    script: &str,
) -> cleveragents_testkit::Answer {
    fixture.run(
        [
            &["sandbox", "exec", "s"],
            options,
            &["--", "sh", "-c", script],
        ]
        .concat(),
    )
}

#[test]
fn the_home_the_database_and_other_sandboxes_cannot_be_read() {
    let fixture = bench_with_sandbox();
    let home = fixture.user();
    std::fs::create_dir_all(home.join(".ssh")).expect("a folder");
    for name in ["secret", ".ssh/id_rsa", ".netrc"] {
        std::fs::write(home.join(name), "PLANTED\n").expect("a secret");
    }
    let program_home = fixture.agents.home().to_owned();
    assert!(program_home.join("cleveragents.db").exists());
    let other = program_home.join("sandboxes/other/work");
    std::fs::create_dir_all(&other).expect("another sandbox");
    std::fs::write(other.join("file"), "PLANTED\n").expect("a secret");
    let script = format!(
        "cat {home}/secret {home}/s* {home}/.ssh/* {home}/.netrc {program_home}/cleve* ../../../../*.db \
         {program_home}/sandboxes/other/work/* /proc/*/root{home}/secret ~/.ssh/* /etc/shadow; ls -A {home}; ls ~; true",
        home = home.display(),
        program_home = program_home.display(),
    );
    let answer = sh(&fixture, &[], &script);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    for part in ["PLANTED", "SQLite", "secret\n", "root:"] {
        assert!(!answer.out.contains(part), "{part}: {answer:?}");
    }
}

#[test]
fn a_declared_folder_can_be_read_but_never_the_programs_data() {
    let fixture = bench_with_sandbox();
    let data = fixture.user().join("data");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::write(data.join("table"), "rows").expect("a file");
    let data = data.to_string_lossy().into_owned();
    let script = format!("cat {data}/table; echo x > {data}/table");
    let answer = sh(&fixture, &["--read", &data], &script);
    assert_eq!(answer.out, "rows", "{answer:?}");
    assert_ne!(answer.code, Some(0));
    let program_home = fixture.agents.home().to_string_lossy().into_owned();
    for option in ["--read", "--writable"] {
        fixture.refused(
            &["sandbox", "exec", "s", option, &program_home, "--", "true"],
            2,
            "CA-0706",
        );
    }
}

/// A program that behaves like Codex: it keeps sessions in its folder, and starts an inner sandbox
/// unless disabled.
const CODEX: &str = "#!/bin/sh
set -e
folder=${CODEX_HOME:-$HOME/.codex}
mkdir -p $folder/sessions
echo session > $folder/sessions/one
case \"$*\" in *--dangerously-bypass-approvals-and-sandbox*) ;; *) unshare -Ur true ;; esac
test -n \"$CODEX_API_KEY\" || test -f $folder/auth.json
echo fixed > fixed
";

#[test]
fn the_example_with_codex_works() {
    let fixture = bench_with_sandbox().with("CODEX_API_KEY", "key");
    let programs = fixture.user().join("bin");
    std::fs::create_dir(&programs).expect("a folder");
    std::fs::write(programs.join("codex"), CODEX).expect("a program");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(programs.join("codex"), mode).expect("its mode");
    let path = std::env::var("PATH").unwrap_or_default();
    let fixture = fixture.with("PATH", format!("{}:{path}", programs.display()));
    let help = fixture.run(["sandbox", "exec", "--help"]).out;
    // A shell drops the backslash at the end of a line.
    let words = help.split_whitespace().filter(|word| *word != "\\");
    let help = words.collect::<Vec<_>>().join(" ");
    let start = help
        .find("agents sandbox exec fix --network")
        .expect("an example");
    let (options, command) = help[start..].split_once(" -- ").expect("a command");
    let options: Vec<&str> = options.split_whitespace().skip(4).collect();
    let (words, task) = command.split_once('\'').expect("a task");
    let task = task.split('\'').next().unwrap_or_default();
    let words: Vec<&str> = words.split_whitespace().collect();
    let arguments = [
        &["sandbox", "exec", "s"],
        options.as_slice(),
        &["--"],
        &words,
        &[task],
    ]
    .concat();
    let answer = fixture.run(arguments);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(fixture.diff().contains_key("fixed"));
    assert!(!fixture.user().join(".codex").exists());
    // The second run uses the login of the user.
    let folder = fixture.user().join(".codex");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("auth.json"), "{}").expect("a login");
    let folder = folder.to_string_lossy().into_owned();
    let variable = format!("CODEX_HOME={folder}");
    let answer = fixture.run([
        "sandbox",
        "exec",
        "s",
        "--writable",
        &folder,
        "--env",
        &variable,
        "--",
        "codex",
        "exec",
        "--dangerously-bypass-approvals-and-sandbox",
        task,
    ]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(fixture.user().join(".codex/sessions/one").exists());
}

#[test]
fn limits_hold_and_are_reported() {
    let fixture = with_toolchains();
    let answer = fixture.run([
        "--format",
        "json",
        "sandbox",
        "exec",
        "s",
        "--max-memory",
        "200",
        "--",
        "python3",
        "-c",
        "import time; a = bytearray(b'x') * (600 << 20); time.sleep(50)",
    ]);
    assert_eq!(answer.code, Some(137), "{answer:?}");
    let data = answer.json()["data"].clone();
    assert_eq!(data["exceeded"]["resource"], "TotalMemory", "{data}");
    let limits = data["confinement"]["limits"]["InForce"].clone();
    let named: Vec<_> = limits
        .as_array()
        .expect("limits")
        .iter()
        .map(|limit| limit["resource"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(named, ["Processes", "TotalMemory", "FileSize"]);
}
