//! A program that runs one command and reports the result, so that tests can kill it, attach it to a terminal, or run
//! it as another user. It is this test program with other arguments.

#![expect(clippy::print_stdout, reason = "its report is read by the test")]

use crate::harness::{ConfinementMode, Sandbox};
use cleveragents_process::{Cancel, CommandResult, Input, Output, ProcessError, run, start};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const PARENT: &str = "--as-parent";

/// The program: `--as-parent CONFINEMENT OUTPUT INSIDE PROGRAM ARGUMENTS…`. The output `twice` runs the command twice;
/// `pipes` starts it with pipes.
pub(crate) fn main(arguments: &[OsString]) -> Option<u8> {
    if arguments.get(1)? != PARENT {
        return None;
    }
    let texts: Vec<&str> = arguments[2..]
        .iter()
        .filter_map(|text| text.to_str())
        .collect();
    let [mode, output, inside, program, rest @ ..] = texts.as_slice() else {
        return Some(2);
    };
    let mode = ConfinementMode::named(mode)?;
    let sandbox = Sandbox::at(PathBuf::from(inside), mode);
    let mut invocation = sandbox.invocation(program, rest);
    invocation.limits.time = None;
    if let Some(path) = std::env::var_os("HIDE") {
        cleveragents_process::hide(path);
    }
    if let Some(policy) = &mut invocation.confinement {
        let named = |name: &str| {
            let path = std::env::var_os(name).filter(|path| !path.is_empty());
            path.map(PathBuf::from)
        };
        policy.readable.extend(named("READABLE"));
        policy.readable.extend(named("WRITABLE"));
        policy.writable.extend(named("WRITABLE"));
        policy.credentials.extend(named("CREDENTIALS"));
    }
    for (name, value) in std::env::vars_os() {
        if let Some(passed) = name.to_str().and_then(|name| name.strip_prefix("PASS_")) {
            invocation.environment.push((passed.into(), value));
        }
    }
    (invocation.input, invocation.output) = match *output {
        "capture" | "twice" => (Input::Nothing, Output::Capture),
        "inherit" => (Input::Inherit, Output::Inherit),
        _ => (Input::Inherit, Output::Terminal),
    };
    if *output == "pipes" {
        let started = start(invocation, Box::new(|_| {}));
        // Blocks until this program is killed.
        let _unless_closed = started.map(|(_running, mut pipes)| pipes.output.read(&mut [0]));
        return Some(0);
    }
    if *output == "twice" {
        print_result(&run(&invocation, &Cancel::new()));
    }
    print_result(&run(&invocation, &Cancel::new()));
    Some(0)
}

fn print_result(finished: &Result<CommandResult, ProcessError>) {
    let foreground = tcgetpgrp(std::io::stdin())
        .ok()
        .map(|group| group == getpgrp());
    match finished {
        Ok(finished) => {
            println!(
                "stdout {:?}",
                String::from_utf8_lossy(&finished.stdout.bytes)
            );
            println!(
                "supervised by {:?} without {:?}",
                finished.enforced.tree,
                finished.enforced.missing()
            );
            println!("ended {:?} foreground {foreground:?}", finished.ending);
        }
        Err(error) => println!("failed {error} {error:?}"),
    }
}

/// A running copy of this test program in the role of the parent.
pub(crate) struct Parent {
    pub(crate) child: Child,
}

impl Parent {
    pub(crate) fn command(mode: ConfinementMode, output: &str, sandbox: &Sandbox) -> Vec<OsString> {
        vec![
            std::env::current_exe().expect("this program").into(),
            PARENT.into(),
            format!("{mode:?}").into(),
            output.into(),
            sandbox.inside.clone().into(),
        ]
    }

    pub(crate) fn spawn(
        mode: ConfinementMode,
        output: &str,
        sandbox: &Sandbox,
        command: &[&str],
    ) -> Self {
        let own = Self::command(mode, output, sandbox);
        let child = Command::new(&own[0])
            .args(&own[1..])
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a copy of this program");
        Self { child }
    }
}
