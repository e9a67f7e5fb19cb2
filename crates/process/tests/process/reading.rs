//! A confined command can read the system's directories, toolchains and declared directories, but no other files
//! outside its sandbox.

use crate::harness::{ConfinementMode, Sandbox, started, stderr, stdout, tests, try_run};
use crate::parent::Parent;
use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_process::Ending;
use rustix::process::getuid;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

tests![
    every_attempt_to_read_outside_fails,
    attempts_to_read_succeed_without_confinement,
    toolchains_below_the_home_are_readable_and_credentials_are_not,
    a_declared_folder_is_readable_without_its_credentials,
    a_declared_folder_has_to_exist,
    a_sandbox_inside_a_hidden_folder_is_visible_and_its_neighbours_are_not,
    folders_reached_by_links_are_readable,
    secret_files_of_the_system_are_not_readable,
    a_declared_home_shows_no_secrets_but_named_credentials,
    a_declared_link_into_a_hidden_folder_is_refused,
];

const READS: &str = include_str!("reads.py");

/// A home with secrets and a toolchain, and a sandbox next to it.
struct PlantedSecrets {
    sandbox: Sandbox,
    home: PathBuf,
    secrets: Vec<PathBuf>,
}

fn planted(mode: ConfinementMode) -> PlantedSecrets {
    let sandbox = Sandbox::with_mode(mode);
    let top = sandbox.inside.parent().expect("a folder").to_owned();
    fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).expect("its mode");
    let home = top.join("home");
    let files = [
        home.join("secret"),
        home.join(".ssh/id_ed25519"),
        home.join(".cargo/credentials.toml"),
        home.join(".npmrc"),
        home.join(".local/share/uv/credentials/credentials.toml"),
        home.join(".julia/servers/host/auth.toml"),
        home.join(".dotnet/corefx/cryptography/key.pfx"),
        home.join(".cleveragents/cleveragents.db"),
        home.join(".cleveragents/sandboxes/other/work/file"),
        sandbox.outside.join("secret"),
    ];
    for file in &files {
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, "PLANTED\n").expect("a secret");
    }
    fs::create_dir_all(home.join(".cargo/bin")).expect("a folder");
    let tool = home.join(".cargo/bin/the-tool");
    fs::write(&tool, "#!/bin/sh\necho tool runs\n").expect("a program");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("its mode");
    PlantedSecrets {
        sandbox,
        home,
        secrets: files.to_vec(),
    }
}

impl PlantedSecrets {
    /// Runs a command in the sandbox, from a process with this home.
    fn run(&self, mode: ConfinementMode, command: &[&str]) -> String {
        self.run_with(mode, command, &[])
    }

    fn run_with(
        &self,
        mode: ConfinementMode,
        command: &[&str],
        variables: &[(&str, &str)],
    ) -> String {
        let own = Parent::command(mode, "inherit", &self.sandbox);
        let secrets: Vec<&str> = self
            .secrets
            .iter()
            .filter_map(|path| path.to_str())
            .collect();
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(&own[0])
            .args(&own[1..])
            .args(command)
            .env("HOME", &self.home)
            .env(
                "PATH",
                format!("{}:{path}", self.home.join(".cargo/bin").display()),
            )
            .env("PASS_SECRETS", secrets.join(":"))
            .env("PASS_SYSTEM_SECRETS", "/etc/shadow:/etc/gshadow")
            .env("HIDE", self.home.join(".cleveragents"))
            .envs(variables.iter().copied())
            .output()
            .expect("a copy of this program");
        let reported = String::from_utf8_lossy(&output.stdout).into_owned();
        format!("{reported}{}", String::from_utf8_lossy(&output.stderr))
    }

    fn attack(&self, mode: ConfinementMode) -> Vec<String> {
        let mut variables = Vec::new();
        if mode == ConfinementMode::Unconfined {
            variables.push(("PASS_UNCONFINED", "1"));
        }
        let text = self.run_with(mode, &["python3", "-c", READS], &variables);
        assert!(text.contains("all tried"), "{mode:?} {text}");
        text.lines()
            .filter_map(|line| line.strip_prefix("succeeded "))
            .map(str::to_owned)
            .collect()
    }
}

fn every_attempt_to_read_outside_fails() {
    for mode in ConfinementMode::confined() {
        let succeeded = planted(mode).attack(mode);
        assert!(succeeded.is_empty(), "{mode:?} {succeeded:?}");
    }
}

/// The attempts succeed without confinement, so it is the confinement that stops them in the other tests.
fn attempts_to_read_succeed_without_confinement() {
    let planted = planted(ConfinementMode::Unconfined);
    let succeeded = planted.attack(ConfinementMode::Unconfined);
    for attempt in [
        "open",
        "wildcard",
        "proc-self-root",
        "proc-parent-root",
        "proc-any-root",
        "proc-any-cwd",
        "link",
        "linked-folder",
        "linked-root",
        "dots",
        "handle",
        "folder-handle",
        "mapped",
        "sendfile",
        "listing",
        "shell-stream",
        "cat",
        "dd",
        "tar",
        "awk",
        "find",
        "git",
    ] {
        let is_attempt = |line: &String| line.starts_with(&format!("{attempt} "));
        assert!(succeeded.iter().any(is_attempt), "{attempt}: {succeeded:?}");
    }
}

fn toolchains_below_the_home_are_readable_and_credentials_are_not() {
    for mode in ConfinementMode::confined() {
        let planted = planted(mode);
        let text = planted.run(
            mode,
            &["sh", "-c", "the-tool; ls -A ~/.cargo; cat ~/.cargo/cr*"],
        );
        assert!(text.contains("tool runs"), "{mode:?} {text}");
        assert!(!text.contains("PLANTED"), "{mode:?} {text}");
    }
}

fn a_declared_folder_is_readable_without_its_credentials() {
    for mode in ConfinementMode::confined() {
        let mut sandbox = Sandbox::with_mode(mode);
        let outside = sandbox.outside.clone();
        fs::create_dir_all(outside.join(".config/gh")).expect("a folder");
        fs::create_dir_all(outside.join(".ssh")).expect("a folder");
        fs::write(outside.join("file"), "readable").expect("a file");
        fs::write(outside.join(".config/other"), "also").expect("a file");
        for name in [".ssh/id", ".netrc", ".config/gh/hosts.yml"] {
            fs::write(outside.join(name), "PLANTED").expect("a secret");
        }
        sandbox.policy().readable = vec![outside.clone()];
        let finished = sandbox.sh(
            "cat $OUTSIDE/file $OUTSIDE/.config/other; cat $OUTSIDE/.ssh/id $OUTSIDE/.netrc \
             $OUTSIDE/.config/gh/hosts.yml; echo x > $OUTSIDE/file",
        );
        assert_eq!(
            stdout(&finished),
            "readablealso",
            "{mode:?} {}",
            stderr(&finished)
        );
        assert_eq!(
            fs::read(outside.join("file")).expect("the file"),
            b"readable"
        );
    }
}

fn a_declared_folder_has_to_exist() {
    let mut sandbox = Sandbox::new();
    sandbox.policy().readable = vec![sandbox.outside.join("absent")];
    let error = try_run(&sandbox.invocation("true", &[])).expect_err("it is absent");
    assert_eq!(error.code(), Code::CommandFolder);
}

fn a_sandbox_inside_a_hidden_folder_is_visible_and_its_neighbours_are_not() {
    for mode in ConfinementMode::confined() {
        let mut planted = planted(mode);
        let home = planted.home.join(".cleveragents");
        let own = home.join("sandboxes/own/work");
        fs::create_dir_all(&own).expect("a folder");
        fs::write(own.join("mine"), "visible\n").expect("a file");
        let _kept_until_the_end = std::mem::replace(&mut planted.sandbox, Sandbox::at(own, mode));
        let script = format!(
            "cat mine; cat ../../other/work/file {}/*.db",
            home.display()
        );
        let text = planted.run(mode, &["sh", "-c", &script]);
        assert!(text.contains("visible"), "{mode:?} {text}");
        assert!(!text.contains("PLANTED"), "{mode:?} {text}");
    }
}

fn folders_reached_by_links_are_readable() {
    for mode in ConfinementMode::confined() {
        let mut sandbox = Sandbox::with_mode(mode);
        fs::write(sandbox.outside.join("file"), "found").expect("a file");
        let link = sandbox.inside.with_file_name("link");
        symlink(&sandbox.outside, &link).expect("a link");
        sandbox.policy().readable = vec![link.clone()];
        let finished = sandbox.sh(&format!("cat {}/file", link.display()));
        assert_eq!(stdout(&finished), "found", "{mode:?} {}", stderr(&finished));
    }
}

fn secret_files_of_the_system_are_not_readable() {
    if !getuid().is_root() {
        // For users other than root, the files are unreadable even without confinement.
        return;
    }
    let program = tempfile::tempdir_in("/opt").expect("a folder");
    fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let secret = program.path().join("secret");
    fs::write(&secret, "PLANTED").expect("a secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).expect("its mode");
    for mode in ConfinementMode::confined() {
        let script = format!(
            "cat /etc/passwd > /dev/null && echo known; cat {}",
            secret.display()
        );
        let text = planted(mode).run(mode, &["sh", "-c", &script]);
        assert!(text.contains("known"), "{mode:?} {text}");
        assert!(!text.contains("PLANTED"), "{mode:?} {text}");
        let sandbox = Sandbox::with_mode(mode);
        let finished =
            sandbox.sh("cat /etc/passwd > /dev/null && echo known; cat /etc/shadow /etc/gshadow");
        assert_eq!(stdout(&finished), "known\n", "{mode:?}");
        assert!(!finished.ending.is_success());
    }
    assert!(Path::new("/etc/shadow").exists());
    let unconfined = started(
        &Sandbox::with_mode(ConfinementMode::Unconfined).invocation("cat", &["/etc/shadow"]),
    );
    assert_eq!(unconfined.ending, Ending::Exited(0));
}

/// A policy may declare the whole home, for example for an MCP server. Secrets in it stay hidden, and a credential file
/// is readable only if it is listed itself.
fn a_declared_home_shows_no_secrets_but_named_credentials() {
    for mode in ConfinementMode::confined() {
        let planted = planted(mode);
        let home = planted.home.clone();
        let show = |name: &str| home.join(name).display().to_string();
        let script = format!(
            "cat {} {} {} {} {} {}; echo x > {}; echo x > {}",
            show("secret"),
            show(".ssh/id_ed25519"),
            show(".npmrc"),
            show(".cargo/credentials.toml"),
            show(".cleveragents/cleveragents.db"),
            show(".cleveragents/sandboxes/other/work/file"),
            show("written"),
            show(".cleveragents/written"),
        );
        let declare = |name: &str, credentials: &str| {
            let declared = home.display().to_string();
            let variables = [(name, declared.as_str()), ("CREDENTIALS", credentials)];
            planted.run_with(mode, &["sh", "-c", &script], &variables)
        };
        let text = declare("READABLE", "");
        assert_eq!(text.matches("PLANTED").count(), 1, "{mode:?} {text}");
        assert!(!home.join("written").exists(), "{mode:?} {text}");
        let text = declare("READABLE", &show(".npmrc"));
        assert_eq!(text.matches("PLANTED").count(), 2, "{mode:?} {text}");
        let text = declare("WRITABLE", "");
        assert_eq!(text.matches("PLANTED").count(), 1, "{mode:?} {text}");
        assert!(!home.join(".cleveragents/written").exists(), "{mode:?}");
        // Landlock alone cannot permit new entries in a directory that contains hidden paths.
        let has_mounts = !matches!(mode, ConfinementMode::Landlock);
        assert_eq!(home.join("written").exists(), has_mounts, "{mode:?} {text}");
    }
}

/// Another process could create the link between the check of a declared path and its use.
fn a_declared_link_into_a_hidden_folder_is_refused() {
    let planted = planted(ConfinementMode::Whole);
    let link = planted.sandbox.inside.join("link");
    symlink(planted.home.join(".cleveragents/sandboxes"), &link).expect("a link");
    let link = link.display().to_string();
    let script = format!("cat {link}/other/work/file");
    let variables = [("READABLE", link.as_str())];
    let text = planted.run_with(ConfinementMode::Whole, &["sh", "-c", &script], &variables);
    assert!(!text.contains("PLANTED"), "{text}");
    assert!(text.contains("failed"), "{text}");
}
