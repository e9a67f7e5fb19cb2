//! [`Agents`]: runs the real program like a user, with its own home directory and a minimal environment.

use std::ffi::OsStr;
use std::io::{PipeReader, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// Minimum growth of the simulated disk per attempt, in blocks of 512 bytes. A large disk grows by half its size.
const ROOM_STEP: u32 = 64;

/// Size of a simulated disk that is enough for every command, in blocks of 512 bytes.
const ENOUGH_ROOM: u32 = 1 << 13;

/// The program with a home directory for one test. The directory does not exist initially.
#[derive(Debug)]
pub struct Agents {
    program: PathBuf,
    folder: tempfile::TempDir,
    home: PathBuf,
    variables: Vec<(String, String)>,
}

impl Agents {
    /// Creates a new home for the program at this path (`env!("CARGO_BIN_EXE_agents")`).
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::create_dir(folder.path().join("work")).expect("a working folder can be made");
        Self {
            program: program.into(),
            home: folder.path().join("home"),
            folder,
            variables: Vec::new(),
        }
    }

    /// Sets another home directory.
    #[must_use]
    pub fn at_home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = home.into();
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Uses the database with this URL instead of the file in the home.
    #[must_use]
    pub fn on(self, url: &str) -> Self {
        self.with("CLEVERAGENTS_DATABASE_URL", url)
    }

    /// Home directory.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Working directory of the program, next to the home.
    pub fn cwd(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Default database file.
    pub fn database(&self) -> PathBuf {
        self.home.join("cleveragents.db")
    }

    /// Configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.home.join("config.toml")
    }

    fn clean_command(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("CLEVERAGENTS_HOME", &self.home)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.cwd())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Creates a command that is not started yet.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.clean_command(self.program.as_os_str());
        command.args(arguments);
        command
    }

    /// Starts a process that runs the command when the [`Gate`] opens.
    pub fn behind(&self, gate: &Gate, arguments: &[&str]) -> Child {
        self.clean_command(OsStr::new("sh"))
            .args(["-c", "read -r go; exec \"$0\" \"$@\" </dev/null"])
            .arg(&self.program)
            .args(arguments)
            .stdin(gate.reader.try_clone().expect("a pipe can be shared"))
            .spawn()
            .expect("a shell starts")
    }

    /// Creates a command with a simulated full disk: it and its descendants cannot create a file larger than `blocks`
    /// blocks of 512 bytes. Unlike a small file system, this needs no privileges.
    pub fn on_full_disk(&self, blocks: u32, arguments: &[&str]) -> Command {
        // Without the trap, a signal would end the program instead of the write returning an error.
        let limited = "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"";
        let mut command = self.clean_command(OsStr::new("sh"));
        command
            .args(["-c", limited, &blocks.to_string()])
            .arg(&self.program)
            .args(arguments);
        command
    }

    /// Runs a command on a simulated full disk, repeatedly with a little more room, until it succeeds. Passes each
    /// failed attempt and its disk size to `inspect`. Panics if a failed command reports success.
    pub fn run_on_growing_disk(
        &self,
        arguments: &[&str],
        mut inspect: impl FnMut(&Answer, &str),
    ) -> Answer {
        let mut room = 0;
        loop {
            let context = format!("{arguments:?} with room for {room} blocks");
            let limited = [&["--format", "json"], arguments].concat();
            let output = self.on_full_disk(room, &limited).output();
            let answer = Answer::from_output(&output.expect("the program starts"));
            if answer.code == Some(0) {
                return answer;
            }
            answer.assert_reports_failure(&context);
            inspect(&answer, &context);
            room += ROOM_STEP.max(room / 2);
            assert!(room < ENOUGH_ROOM, "{context}: {answer:?}");
        }
    }

    /// Runs a command until it exits.
    pub fn run(&self, arguments: &[&str]) -> Answer {
        let output = self.command(arguments).output();
        Answer::from_output(&output.expect("the program starts"))
    }

    /// Runs a command with this standard input until it exits.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Answer {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("its input is a pipe");
        std::thread::scope(|scope| {
            // Writing fails if the program exits early; the test checks the result.
            scope.spawn(move || drop(stdin.write_all(input)));
            Answer::from_output(&child.wait_with_output().expect("the program ends"))
        })
    }

    /// Returns the `data` of a command that must succeed.
    pub fn data(&self, arguments: &[&str]) -> Value {
        let answer = self.run(&[&["--format", "json"], arguments].concat());
        assert_eq!(answer.code, Some(0), "{arguments:?} fails: {answer:?}");
        answer.json()["data"].clone()
    }

    /// Creates a session and returns its id.
    pub fn create_session(&self) -> String {
        self.data(&["session", "create"])["session"]["id"]
            .as_str()
            .expect("a session has an id")
            .to_owned()
    }

    pub fn messages(&self, session: &str) -> Vec<Value> {
        self.data(&["session", "messages", session])["messages"]
            .as_array()
            .expect("messages are a list")
            .clone()
    }

    /// Contents of all messages of a session, in order. Asserts that their sequence numbers are 0, 1, 2, …
    pub fn contents(&self, session: &str) -> Vec<String> {
        self.messages(session)
            .iter()
            .enumerate()
            .map(|(index, message)| {
                assert_eq!(message["sequence"], index, "numbers have no gap");
                message["content"].as_str().expect("text").to_owned()
            })
            .collect()
    }

    /// Asserts that `db check` finds no problem.
    pub fn assert_sound(&self) {
        let answer = self.run(&["db", "check"]);
        assert_eq!(answer.code, Some(0), "the database is sound: {answer:?}");
    }
}

/// Result of a command.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, out, err } = self;
        write!(
            formatter,
            "exit code {code:?}\n--- stdout\n{out}\n--- stderr\n{err}\n---"
        )
    }
}

impl Answer {
    /// Converts the output of an ended program.
    pub fn from_output(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout.clone()).expect("standard output is UTF-8"),
            err: String::from_utf8(output.stderr.clone()).expect("standard error is UTF-8"),
        }
    }

    /// Asserts that a command with `--format json` failed and reported an error.
    pub fn assert_reports_failure(&self, context: &str) {
        assert_ne!(self.code, Some(0), "{context} claims success: {self:?}");
        let received = self.json();
        assert_eq!(received["status"], "error", "{context}: {self:?}");
        let messages = received["messages"].as_array().expect("messages");
        let claims = messages.iter().any(|message| message["level"] == "ok");
        assert!(!claims, "{context} claims success: {self:?}");
    }

    /// The single JSON document on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| {
            panic!("standard output is not one document: {error}\n{self:?}")
        })
    }
}

/// Holds started commands until `open` releases them at the same instant.
#[derive(Debug)]
pub struct Gate {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Default for Gate {
    fn default() -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        Self { reader, writer }
    }
}

impl Gate {
    /// Releases all commands.
    pub fn open(self) {
        drop(self.writer);
    }
}

/// Records that a test or a part of it could not run, as a line in the file `CLEVERAGENTS_TEST_NOT_RUN`. Panics if
/// `CLEVERAGENTS_TEST_REQUIRE_ALL` is set.
pub fn not_run(what: &str, why: &str) {
    let line = format!("{what}: {why}");
    eprintln!("NOT RUN: {line}");
    if let Some(path) = std::env::var_os("CLEVERAGENTS_TEST_NOT_RUN") {
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
            .expect("the list of what was not run can be written");
    }
    assert!(
        std::env::var_os("CLEVERAGENTS_TEST_REQUIRE_ALL").is_none(),
        "{line}, and every test must run"
    );
}

/// Random numbers: different in every run, for example for the instant of a kill; or derived from a seed, for
/// reproducible cases.
#[derive(Debug)]
pub struct Dice(u64);

impl Default for Dice {
    fn default() -> Self {
        use std::hash::{BuildHasher as _, RandomState};
        Self(RandomState::new().hash_one(0) | 1)
    }
}

impl Dice {
    /// Creates numbers derived from a seed.
    pub const fn seeded(seed: u64) -> Self {
        // Spreads small and similar seeds to different states.
        Self((seed.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Picks one of the choices.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let index = self.roll(choices.len() as u64);
        &choices[usize::try_from(index).unwrap_or(0)]
    }

    /// Returns true once in `times` calls on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }

    /// A number below `limit`.
    pub fn roll(&mut self, limit: u64) -> u64 {
        // xorshift64, which is sufficient to pick an instant.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}
