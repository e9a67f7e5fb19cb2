//! The program on a terminal, with a person whose answers are known beforehand.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::{Agents, Answer};

impl Agents {
    /// Runs a command whose standard input and error are a terminal, and types these lines. What it
    /// shows there, the typed lines included, is the answer's `err`.
    pub fn run_on_terminal(&self, arguments: &[&str], typed: &str) -> Answer {
        let (mut person, terminal) = terminal();
        person.write_all(typed.as_bytes()).expect("it is typed");
        let child = self
            .command(arguments)
            .stdin(terminal.try_clone().expect("one more handle"))
            .stderr(terminal)
            .spawn()
            .expect("the program starts");
        // The command, and with it our last handle of the terminal, is gone: reading comes to an end
        // when the program ends.
        let seen = std::thread::spawn(move || {
            let mut seen = Vec::new();
            // Linux says that the other side is gone by an error.
            let _ended = person.read_to_end(&mut seen);
            seen
        });
        let mut answer = Answer::of(&child.wait_with_output().expect("the program ends"));
        let seen = seen.join().expect("the reader ends");
        answer.err = String::from_utf8_lossy(&seen).into_owned();
        answer
    }
}

/// Both sides of a new terminal: the person's and the program's.
fn terminal() -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&person).expect("it is ours");
    unlockpt(&person).expect("it can be opened");
    let name = ptsname(&person, Vec::new()).expect("it has a name");
    let flags = OFlags::NOCTTY.bits().try_into().expect("a small number");
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(OsStr::from_bytes(name.as_bytes()))
        .expect("its other side opens");
    (File::from(person), terminal)
}
