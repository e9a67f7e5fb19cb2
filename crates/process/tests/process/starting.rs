//! Starting commands: errors, environment, open files and exit codes.

use crate::harness::{
    ConfinementMode, Sandbox, need_landlock, need_namespaces, started, stderr, stdout, tests,
    try_run, unconfined,
};
use cleveragents_domain::{Code, Diagnose};
use cleveragents_process::{Ending, Invocation, Layer, Namespace, Tree, capabilities};
use std::fs;
use std::os::unix::fs::PermissionsExt;

tests![
    a_confined_command_reports_its_enforcement,
    a_command_under_landlock_alone_reports_it,
    an_unconfined_command_is_supervised,
    exit_codes_and_signals_are_unchanged,
    a_missing_program_differs_from_exit_code_127,
    a_script_without_its_interpreter_exists_but_cannot_be_started,
    a_file_that_may_not_be_run_cannot_be_started,
    an_error_names_the_missing_folder,
    the_environment_is_exactly_the_given_one,
    the_environment_does_not_reach_the_stages,
    only_the_standard_streams_are_open,
    the_program_is_looked_up_in_the_given_path,
    a_relative_program_is_beneath_the_folder,
    this_machine_can_confine,
];

fn a_confined_command_reports_its_enforcement() {
    need_landlock();
    need_namespaces();
    let sandbox = Sandbox::new();
    let finished = sandbox.sh("echo hello; echo failed >&2; pwd");
    assert_eq!(finished.ending, Ending::Exited(0));
    assert_eq!(
        stdout(&finished),
        format!("hello\n{}\n", sandbox.inside.display())
    );
    assert_eq!(stderr(&finished), "failed\n");
    let enforced = finished.enforced;
    assert_eq!(enforced.tree, Tree::Namespace);
    let Layer::InForce(namespaces) = &enforced.namespaces else {
        panic!("{enforced:?}")
    };
    for namespace in [
        Namespace::Mount,
        Namespace::Process,
        Namespace::Ipc,
        Namespace::Network,
    ] {
        assert!(namespaces.contains(&namespace), "{enforced:?}");
    }
    assert!(
        matches!(enforced.landlock, Layer::InForce(abi) if abi >= 1),
        "{enforced:?}"
    );
    assert_eq!(enforced.seccomp, Layer::InForce(()));
    assert_eq!(enforced.privileges_dropped, Layer::InForce(()));
    assert_eq!(enforced.missing(), Vec::<String>::new());
    assert_eq!(finished.killed_leftovers, 0);
}

fn a_command_under_landlock_alone_reports_it() {
    need_landlock();
    let enforced = Sandbox::with_mode(ConfinementMode::Landlock)
        .sh("true")
        .enforced;
    assert_eq!(enforced.tree, Tree::Supervisor);
    assert_eq!(enforced.missing(), ["namespaces: switched off"]);
    assert!(enforced.writing_confined() && enforced.network_confined());
}

fn an_unconfined_command_is_supervised() {
    let finished = started(&unconfined("echo hello"));
    assert_eq!(stdout(&finished), "hello\n");
    assert_eq!(finished.enforced.tree, Tree::Supervisor);
    assert_eq!(finished.enforced.landlock, Layer::NotRequested);
}

fn exit_codes_and_signals_are_unchanged() {
    let endings = [
        ("exit 0", Ending::Exited(0), 0),
        ("exit 7", Ending::Exited(7), 7),
        ("exit 127", Ending::Exited(127), 127),
        ("exit 255", Ending::Exited(255), 255),
        ("kill -TERM $$", Ending::Signalled(15), 143),
        ("kill -KILL $$", Ending::Signalled(9), 137),
        ("kill -PIPE $$", Ending::Signalled(13), 141),
    ];
    for mode in ConfinementMode::every() {
        for (script, ending, code) in endings {
            let finished = mode.sh(script);
            assert_eq!(finished.ending, ending, "{mode:?} {script}");
            assert_eq!(finished.ending.exit_code(), code);
        }
    }
    assert_eq!(Ending::TimedOut.exit_code(), 124);
    assert_eq!(Ending::Cancelled.exit_code(), 130);
}

fn a_missing_program_differs_from_exit_code_127() {
    for layers in ConfinementMode::filtered() {
        for program in ["no-such-program", "/no/such/program", "./no-such-program"] {
            let error = try_run(&Sandbox::with_mode(layers).invocation(program, &[]));
            let error = error.expect_err("it does not exist");
            assert_eq!(error.code(), Code::ProgramNotFound, "{error}");
            assert!(error.to_string().contains(program));
        }
    }
    let error = try_run(&Invocation::new("no-such-program", "/")).expect_err("it does not exist");
    assert_eq!(error.code(), Code::ProgramNotFound);
    assert_eq!(error.code().kind().exit_code(), 3);
}

fn a_script_without_its_interpreter_exists_but_cannot_be_started() {
    let sandbox = Sandbox::new();
    let script = sandbox.inside.join("script");
    fs::write(&script, "#!/no/such/interpreter\n").expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
    let error = try_run(&sandbox.invocation("./script", &[])).expect_err("no interpreter");
    assert_eq!(error.code(), Code::CommandNotStarted, "{error}");
}

fn a_file_that_may_not_be_run_cannot_be_started() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.inside.join("file"), "data").expect("a file");
    let error = try_run(&sandbox.invocation("./file", &[])).expect_err("not executable");
    assert_eq!(error.code(), Code::CommandNotStarted, "{error}");
}

fn an_error_names_the_missing_folder() {
    let error = try_run(&Invocation::new("true", "/no/such/folder")).expect_err("no folder");
    assert_eq!(error.code(), Code::CommandFolder);
    assert!(error.to_string().contains("/no/such/folder"));
}

fn the_environment_is_exactly_the_given_one() {
    for layers in ConfinementMode::confined() {
        let sandbox = Sandbox::with_mode(layers);
        let mut invocation = sandbox.invocation("/usr/bin/env", &[]);
        invocation.environment = vec![
            ("ONE".into(), "1".into()),
            // This variable must affect only the command, not the stages.
            ("LD_PRELOAD".into(), "/no/such/library.so".into()),
            ("EMPTY".into(), "".into()),
        ];
        let finished = started(&invocation);
        assert_eq!(
            stdout(&finished),
            "EMPTY=\nLD_PRELOAD=/no/such/library.so\nONE=1\n"
        );
    }
    let mut invocation = Invocation::new("/usr/bin/env", "/");
    invocation.environment.clear();
    assert_eq!(stdout(&started(&invocation)), "");
}

/// With these variables, the dynamic loader writes one trace file per process.
fn the_environment_does_not_reach_the_stages() {
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let mut invocation = sandbox.invocation("/usr/bin/env", &["true"]);
        let traces = sandbox.inside.join("trace");
        invocation
            .environment
            .push(("LD_DEBUG".into(), "files".into()));
        invocation
            .environment
            .push(("LD_DEBUG_OUTPUT".into(), traces.into()));
        assert!(started(&invocation).ending.is_success());
        // There is one file for both programs (`env` and `true`), because one process executed
        // both.
        let written = fs::read_dir(&sandbox.inside).expect("the folder").count();
        assert_eq!(written, 1, "{mode:?}");
    }
}

fn only_the_standard_streams_are_open() {
    // A descriptor without `CLOEXEC`, which children inherit.
    let inherited = rustix::io::dup(fs::File::open("/").expect("a folder")).expect("a copy");
    for mode in ConfinementMode::every() {
        // Descriptor 3 is the listed directory itself.
        let finished = mode.run("ls", &["/proc/self/fd"]);
        assert_eq!(
            stdout(&finished),
            "0\n1\n2\n3\n",
            "{mode:?} {}",
            stderr(&finished)
        );
    }
    drop(inherited);
}

fn the_program_is_looked_up_in_the_given_path() {
    let sandbox = Sandbox::new();
    let program = sandbox.inside.join("hello-from-here");
    fs::write(&program, "#!/bin/sh\necho here\n").expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut invocation = sandbox.invocation("hello-from-here", &[]);
    assert_eq!(
        try_run(&invocation).expect_err("not yet").code(),
        Code::ProgramNotFound
    );
    invocation.environment = vec![("PATH".into(), sandbox.inside.clone().into())];
    assert_eq!(stdout(&started(&invocation)), "here\n");
}

fn a_relative_program_is_beneath_the_folder() {
    let sandbox = Sandbox::new();
    let program = sandbox.inside.join("local");
    fs::write(&program, "#!/bin/sh\necho local \"$@\"\n").expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let finished = started(&sandbox.invocation("./local", &["a b", "", "c"]));
    assert_eq!(stdout(&finished), "local a b  c\n");
}

fn this_machine_can_confine() {
    let capabilities = capabilities();
    assert!(capabilities.can_confine(), "{capabilities:?}");
}
