//! The program at a terminal: [`Agents::play`] simulates a user who waits for output before typing, and
//! [`Agents::run_on_terminal`] a user who types all input at the first prompt.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::{Agents, Answer};

/// Marker for a pause in the typed text of a step of [`Agents::play`], longer than a display takes to redraw.
pub const PAUSE: char = '\u{e000}';

/// Script that runs its arguments at a terminal. Each step waits for a text in the output since the previous step, and
/// then types its input. Prints the whole output.
const PLAYER: &str = r#"
import fcntl, json, os, pty, select, signal, struct, sys, termios, time
steps = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
seen, since = b"", 0
while True:
    if not select.select([terminal], [], [], 120)[0]:
        os.kill(pid, signal.SIGKILL)
        seen += b"\n(no more output; next step: %s)" % json.dumps(steps[:1]).encode()
        break
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    seen += part
    while steps and steps[0][0].encode() in seen[since:]:
        wanted, typed = steps.pop(0)
        since = seen.index(wanted.encode(), since) + len(wanted.encode())
        for number, part in enumerate(typed.split("\ue000")):
            if number:
                time.sleep(0.5)
            os.write(terminal, part.encode())
_, status = os.waitpid(pid, 0)
if steps:
    seen += b"\n(it ended before this step: %s)" % json.dumps(steps[0]).encode()
    status = 99 << 8
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"#;

impl Agents {
    /// Runs a command at a terminal: waits for the first text of each step and types the second. Returns the exit code
    /// (99 if an expected text never appeared) and the whole output.
    pub fn play(&self, steps: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
        // The player runs with the program's environment.
        let agents = self.command(arguments);
        let mut player = Command::new("python3");
        player
            .env_clear()
            .env("TERM", "xterm-256color")
            .env("PAGER", "cat");
        for (name, value) in agents.get_envs() {
            if let Some(value) = value {
                player.env(name, value);
            }
        }
        let output = player
            .current_dir(self.cwd())
            .args(["-c", PLAYER, &json!(steps).to_string()])
            .arg(agents.get_program())
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("python3 runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }
}

impl Agents {
    /// Runs a command whose standard input and error are a terminal, and types `typed` when it shows a prompt. The
    /// terminal output, including the typed text, becomes `err` of the answer.
    pub fn run_on_terminal(&self, arguments: &[&str], typed: &str) -> Answer {
        let (mut user_side, terminal) = terminal();
        let child = self
            .command(arguments)
            .stdin(terminal.try_clone().expect("one more handle"))
            .stderr(terminal)
            .spawn()
            .expect("the program starts");
        // `Command` is dropped here, and with it our last handle of the program's side: reading ends when the program
        // exits.
        let typed = typed.to_owned();
        let seen = std::thread::spawn(move || {
            let mut seen = Vec::new();
            let mut part = [0_u8; 4096];
            let mut to_type = Some(typed);
            // On Linux, reading fails when the other side is closed.
            while let Ok(count @ 1..) = user_side.read(&mut part) {
                seen.extend_from_slice(&part[..count]);
                let is_prompt = seen.ends_with(b": ") || seen.ends_with(b"> ");
                if let Some(typed) = to_type.take_if(|_| is_prompt) {
                    user_side.write_all(typed.as_bytes()).expect("it is typed");
                }
            }
            seen
        });
        let mut answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
        let seen = seen.join().expect("the reader ends");
        answer.err = String::from_utf8_lossy(&seen).into_owned();
        answer
    }
}

/// Both sides of a new terminal: the user's and the program's.
fn terminal() -> (File, File) {
    let user_side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&user_side).expect("it is ours");
    unlockpt(&user_side).expect("it can be opened");
    let name = ptsname(&user_side, Vec::new()).expect("it has a name");
    let flags = OFlags::NOCTTY.bits().try_into().expect("a small number");
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(OsStr::from_bytes(name.as_bytes()))
        .expect("its other side opens");
    (File::from(user_side), terminal)
}
