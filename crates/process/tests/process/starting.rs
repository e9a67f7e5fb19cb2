//! How commands start, what they are given, and how their endings come back.

use crate::harness::{ALL, LANDLOCK, Sandbox, started, stderr, stdout, tests, try_run, unconfined};
use cleveragents_domain::{Code, Diagnose};
use cleveragents_process::{Ending, Input, Invocation, Layer, Namespace, Tree};

tests![
    a_confined_command_runs_and_says_what_held_it,
    an_unconfined_command_runs,
    exit_codes_and_signals_come_through_unchanged,
];

fn a_confined_command_runs_and_says_what_held_it() {
    let sandbox = Sandbox::new();
    let finished = sandbox.sh("echo hello; echo oops >&2; pwd");
    assert_eq!(
        finished.ending,
        Ending::Exited(0),
        "{finished:?} {}",
        stderr(&finished)
    );
    eprintln!("{:?}", finished.enforced);
    assert_eq!(stderr(&finished), "oops\n");
    eprintln!("{:?}", stdout(&finished));
    eprintln!("{:?}", cleveragents_process::capabilities());
    for _ in 0..5 {
        eprintln!("{:?}", started(&sandbox.invocation("true", &[])).elapsed);
        eprintln!("{:?}", started(&unconfined("true")).elapsed);
    }
}

fn an_unconfined_command_runs() {
    let finished = started(&unconfined("echo hello; id -u"));
    eprintln!("{finished:?}");
}

fn exit_codes_and_signals_come_through_unchanged() {
    for script in [
        "exit 0",
        "exit 7",
        "kill -TERM $$",
        "exit 127",
        "kill -KILL $$",
    ] {
        eprintln!("{script} {:?}", Sandbox::new().sh(script).ending);
        eprintln!(
            "{script} {:?}",
            Sandbox::held_by(LANDLOCK).sh(script).ending
        );
        eprintln!("{script} {:?}", started(&unconfined(script)).ending);
    }
    eprintln!(
        "{:?}",
        try_run(&Sandbox::new().invocation("nosuchprogram", &[]))
    );
    eprintln!("{:?}", try_run(&Invocation::new("nosuchprogram", "/")));
    eprintln!(
        "{:?}",
        try_run(&Invocation::new("nosuchprogram", "/nosuch"))
    );
}
