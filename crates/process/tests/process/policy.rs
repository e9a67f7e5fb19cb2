//! Policies that this machine cannot enforce, and contradictory policies.

use crate::harness::{
    ConfinementMode, Sandbox, need_landlock, need_namespaces, started, stdout, tests, try_run,
};
use crate::parent::Parent;
use cleveragents_domain::{Code, Diagnose, Kind};
use cleveragents_process::{Isolation, Layer, Layers, WhenMissing};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

tests![
    a_machine_without_any_layer_refuses,
    a_machine_without_any_layer_warns_on_request,
    a_machine_that_cannot_block_the_network_refuses,
    a_temporary_folder_outside_is_refused,
    a_nested_link_to_a_folder_outside_is_refused,
    a_writable_folder_has_to_exist,
    folders_reached_by_links_are_writable,
    landlock_confines_if_namespaces_are_forbidden,
    other_namespaces_are_used_if_proc_cannot_be_mounted,
    capabilities_match_the_enforcement_of_commands,
];

const NOTHING: Layers = Layers {
    isolation: Isolation::None,
    landlock: false,
    seccomp: false,
};

fn a_machine_without_any_layer_refuses() {
    let mut sandbox = Sandbox::new();
    sandbox.policy().layers = NOTHING;
    let error = try_run(&sandbox.invocation("touch", &["ran"])).expect_err("no layer is available");
    assert_eq!(error.code(), Code::ConfinementUnavailable);
    assert_eq!(error.code().kind(), Kind::Failed);
    assert_eq!(
        error.details()["missing"].as_array().map(Vec::len),
        Some(3),
        "{error:?}"
    );
    assert!(!sandbox.inside.join("ran").exists());
}

fn a_machine_without_any_layer_warns_on_request() {
    let mut sandbox = Sandbox::new();
    sandbox.policy().layers = NOTHING;
    sandbox.policy().when_missing = WhenMissing::Warn;
    let finished = sandbox.sh("echo ran");
    assert_eq!(stdout(&finished), "ran\n");
    assert_eq!(finished.enforced.missing().len(), 3);
    assert!(!finished.enforced.writing_confined() && !finished.enforced.network_confined());
}

fn a_machine_that_cannot_block_the_network_refuses() {
    need_landlock();
    let mut sandbox = Sandbox::with_mode(ConfinementMode::Landlock);
    sandbox.policy().layers.seccomp = false;
    let error = try_run(&sandbox.invocation("true", &[])).expect_err("other protocols are open");
    assert_eq!(error.code(), Code::ConfinementUnavailable);
    sandbox.policy().network = true;
    let finished = started(&sandbox.invocation("true", &[]));
    assert!(matches!(finished.enforced.seccomp, Layer::Missing(_)));
}

fn a_temporary_folder_outside_is_refused() {
    let sandbox = Sandbox::new();
    let mut invocation = sandbox.invocation("true", &[]);
    invocation.environment.retain(|(name, _)| name != "TMPDIR");
    invocation
        .environment
        .push(("TMPDIR".into(), sandbox.outside.clone().into()));
    let error = try_run(&invocation).expect_err("TMPDIR is outside");
    assert_eq!(error.code(), Code::InvalidPolicy);
}

/// An earlier command could have created the link.
fn a_nested_link_to_a_folder_outside_is_refused() {
    let mut sandbox = Sandbox::new();
    let nested = sandbox.inside.join("nested");
    symlink(&sandbox.outside, &nested).expect("a link");
    sandbox.policy().writable.push(nested);
    let error = try_run(&sandbox.invocation("true", &[])).expect_err("it leads out");
    assert_eq!(error.code(), Code::InvalidPolicy);
    assert!(error.to_string().contains("nested"), "{error}");
}

fn a_writable_folder_has_to_exist() {
    let mut sandbox = Sandbox::new();
    let absent = sandbox.inside.join("absent");
    sandbox.policy().writable.push(absent.clone());
    let error = try_run(&sandbox.invocation("true", &[])).expect_err("it is absent");
    assert_eq!(error.code(), Code::CommandFolder);
    fs::write(&absent, "a file").expect("a file");
    let error = try_run(&sandbox.invocation("true", &[])).expect_err("it is a file");
    assert_eq!(error.code(), Code::CommandFolder);
}

fn folders_reached_by_links_are_writable() {
    for mode in ConfinementMode::filtered() {
        let mut sandbox = Sandbox::with_mode(mode);
        let link = sandbox.inside.with_file_name("link");
        symlink(&sandbox.inside, &link).expect("a link");
        sandbox.policy().writable = vec![link];
        assert!(sandbox.sh("echo x > file").ending.is_success(), "{mode:?}");
    }
}

/// Runs a confined command in new namespaces that `setup` has prepared. Returns the output of the parent program, or
/// `None` if namespaces cannot be created.
fn on_a_machine(setup: &str) -> Option<String> {
    if !Command::new("unshare")
        .args(["-Urm", "true"])
        .status()
        .is_ok_and(|made| made.success())
    {
        return None;
    }
    let sandbox = Sandbox::new();
    let parent = Parent::command(ConfinementMode::Whole, "capture", &sandbox);
    let output = Command::new("unshare")
        .args(["-Urm", "sh", "-c", &format!("{setup}; exec \"$@\""), "sh"])
        .args(parent)
        .args([
            "sh",
            "-c",
            "echo > inside; echo > ../outside/file || echo mode",
        ])
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("stdout \"mode"), "{text} {output:?}");
    assert!(sandbox.inside.join("inside").exists());
    assert!(!sandbox.outside.join("file").exists());
    Some(text)
}

fn landlock_confines_if_namespaces_are_forbidden() {
    need_landlock();
    need_namespaces();
    for kind in ["mnt", "pid", "net"] {
        let setup = format!("echo 0 > /proc/sys/user/max_{kind}_namespaces");
        let Some(text) = on_a_machine(&setup) else {
            return;
        };
        let level = if kind == "pid" {
            "without []"
        } else {
            "namespaces: creating namespaces"
        };
        assert!(
            text.contains("supervised by Supervisor") && text.contains(level),
            "{kind} {text}"
        );
    }
}

/// Simulates a container that hides parts of `/proc`: there the kernel refuses to mount another `/proc`.
fn other_namespaces_are_used_if_proc_cannot_be_mounted() {
    need_namespaces();
    let setup = "mount -t tmpfs none /proc/sys; set -- unshare -Urm \"$@\"";
    let Some(text) = on_a_machine(setup) else {
        return;
    };
    assert!(
        text.contains("supervised by Supervisor without []"),
        "{text}"
    );
}

fn capabilities_match_the_enforcement_of_commands() {
    let sandbox = Sandbox::new();
    let first = sandbox.sh("true").enforced;
    let second = sandbox.sh("true").enforced;
    assert_eq!(Some(first), cleveragents_process::capabilities().enforced);
    assert_eq!(Some(second), cleveragents_process::capabilities().enforced);
}
