"""A task in Rust: a change across seven files."""

from task import Edit, Read, Run, Search, Task, require

TEST = "cargo test -q --offline"

JOB = '''//! A job.

/// Work that waits in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: u32,
    pub command: String,
}

impl Job {
    pub fn new(id: u32, command: &str) -> Self {
        Self { id, command: command.to_owned() }
    }
}
'''

PARSE = '''//! Reads jobs from lines such as `7 make test`.

use crate::job::Job;

/// Reads a line: the id, a space, and the command.
pub fn parse(line: &str) -> Result<Job, String> {
    let (id, command) = line.trim().split_once(' ').ok_or_else(|| format!("no command in `{line}`"))?;
    let id = id.parse().map_err(|_| format!("`{id}` is not an id"))?;
    if command.trim().is_empty() {
        return Err(format!("no command in `{line}`"));
    }
    Ok(Job::new(id, command.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_id_and_command() {
        assert_eq!(parse("7 make test"), Ok(Job::new(7, "make test")));
        assert!(parse("seven make").is_err());
        assert!(parse("7").is_err());
    }
}
'''

FORMAT = '''//! Prints jobs.

use crate::job::Job;

/// The line that `parse` reads.
pub fn line(job: &Job) -> String {
    format!("{} {}", job.id, job.command)
}

/// The row of the list.
pub fn row(job: &Job) -> String {
    format!("{:>4}  {}", job.id, job.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_rows() {
        let job = Job::new(7, "make test");
        assert_eq!(line(&job), "7 make test");
        assert_eq!(row(&job), "   7  make test");
    }
}
'''

QUEUE = '''//! The order in which jobs run.

use crate::job::Job;

/// Jobs that wait.
#[derive(Debug, Default)]
pub struct Queue {
    jobs: Vec<Job>,
}

impl Queue {
    pub fn push(&mut self, job: Job) {
        self.jobs.push(job);
    }

    /// Removes the job that runs next: the one with the lowest id.
    pub fn pop(&mut self) -> Option<Job> {
        let index = (0..self.jobs.len()).min_by_key(|index| self.jobs[*index].id)?;
        Some(self.jobs.remove(index))
    }

    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_id_runs_first() {
        let mut queue = Queue::default();
        queue.push(Job::new(2, "b"));
        queue.push(Job::new(1, "a"));
        assert_eq!(queue.pop().map(|job| job.id), Some(1));
        assert_eq!(queue.pop().map(|job| job.id), Some(2));
        assert_eq!(queue.pop(), None);
    }
}
'''

STORE = '''//! Stores jobs as text, one `ID<tab>COMMAND` per line.

use crate::job::Job;

pub fn save(jobs: &[Job]) -> String {
    jobs.iter().map(|job| format!("{}\\t{}\\n", job.id, job.command)).collect()
}

/// Reads what `save` wrote; lines that it did not write are skipped.
pub fn load(text: &str) -> Vec<Job> {
    text.lines()
        .filter_map(|line| {
            let (id, command) = line.split_once('\\t')?;
            Some(Job::new(id.parse().ok()?, command))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_jobs_are_loaded() {
        let jobs = vec![Job::new(1, "a b"), Job::new(2, "c")];
        assert_eq!(load(&save(&jobs)), jobs);
    }
}
'''

MAIN = '''//! `jobs`: reads jobs from standard input and prints them in the order in which they run.

use std::io::Read as _;

use jobs::{format, parse, queue::Queue, store};

fn main() {
    let mut text = String::new();
    if std::io::stdin().read_to_string(&mut text).is_err() {
        eprintln!("jobs: standard input cannot be read");
        std::process::exit(1);
    }
    let mut queue = Queue::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match parse::parse(line) {
            Ok(job) => queue.push(job),
            Err(reason) => {
                eprintln!("jobs: {reason}");
                std::process::exit(2);
            }
        }
    }
    if std::env::args().any(|argument| argument == "--save") {
        print!("{}", store::save(queue.jobs()));
        return;
    }
    while let Some(job) = queue.pop() {
        println!("{}", format::row(&job));
    }
}
'''

README = """# Jobs

Reads jobs from standard input, one per line: the id, a space, and the command.

```sh
printf '2 make\\n1 make test\\n' | jobs          # prints them in the order in which they run: by id
printf '2 make\\n' | jobs --save                 # prints them as they are stored: ID<tab>COMMAND
```
"""

FILES = {
    "Cargo.toml": '[package]\nname = "jobs"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n',
    ".gitignore": "/target\n/Cargo.lock\n",
    "README.md": README,
    "src/lib.rs": "pub mod format;\npub mod job;\npub mod parse;\npub mod queue;\npub mod store;\n",
    "src/job.rs": JOB,
    "src/parse.rs": PARSE,
    "src/format.rs": FORMAT,
    "src/queue.rs": QUEUE,
    "src/store.rs": STORE,
    "src/main.rs": MAIN,
}

REQUEST = """Give jobs a priority from 0 to 9, with 5 as the default.
- A line may contain it after the id as `@N`: `7@2 make test`. A priority above 9 or without a number is an error.
- The queue runs the lowest priority first, equal priorities by id.
- `line` prints `7@2 make test`, and `7 make test` for the default priority; `parse` accepts its output.
- A row of the list is id in four columns, two spaces, priority, two spaces, command.
- The store writes ID<tab>PRIORITY<tab>COMMAND and still loads lines in the old format, with the default priority.
- `jobs --urgent` prints only jobs with a priority below 3.
- `Job::new(id, command)` stays and gives the default; `with_priority` sets another. Adapt and extend the tests and the
  README."""


def seven_hidden(repository):
    for path in ("job", "parse", "format", "queue", "store", "main"):
        require(f"src/{path}.rs" in repository.changed(), f"src/{path}.rs is unchanged")
    require("@" in repository.text("README.md"), "the README does not describe the priority")
    repository.succeeds(TEST)
    repository.succeeds("cargo build -q --offline")
    program = "target/debug/jobs"
    listed = repository.succeeds(f"printf '2 b\\n1@9 a\\n3@1 c d\\n' | {program}")
    require(listed == "   3  1  c d\n   2  5  b\n   1  9  a\n", f"the list is {listed!r}")
    urgent = repository.succeeds(f"printf '2 b\\n3@1 c\\n4@3 d\\n' | {program} --urgent")
    require(urgent == "   3  1  c\n", f"--urgent prints {urgent!r}")
    saved = repository.succeeds(f"printf '2 b\\n3@1 c\\n' | {program} --save")
    require(saved == "2\t5\tb\n3\t1\tc\n", f"--save prints {saved!r}")
    repository.succeeds(f"! printf '2@10 b\\n' | {program}")
    repository.succeeds(f"! printf '2@ b\\n' | {program}")
    write_test(repository)
    repository.succeeds(TEST + " --test hidden")


def write_test(repository):
    """Writes a test of the library for behaviour that the program's output does not show."""
    folder = repository.folder / "tests"
    folder.mkdir(exist_ok=True)
    (folder / "hidden.rs").write_text(
        "use jobs::{format::line, job::Job, parse::parse, store::load};\n"
        "#[test]\nfn hidden() {\n"
        '    assert_eq!(line(&Job::new(7, "x")), "7 x");\n'
        '    assert_eq!(line(&Job::new(7, "x").with_priority(2)), "7@2 x");\n'
        '    assert_eq!(parse("7@2 x"), Ok(Job::new(7, "x").with_priority(2)));\n'
        '    assert_eq!(load("1\\ta b\\n2\\t0\\tc\\n"), vec![Job::new(1, "a b"), Job::new(2, "c").with_priority(0)]);\n'
        "}\n"
    )


LOOK = [
    [Run(TEST), Search("Job::new"), Run("git ls-files")],
    [Read(f"src/{name}.rs") for name in ("job", "parse", "format", "queue", "store", "main")] + [Read("README.md")],
]

JOB_EDIT = Edit(
    "src/job.rs",
    "    pub command: String,\n}\n\nimpl Job {\n    pub fn new(id: u32, command: &str) -> Self {\n"
    "        Self { id, command: command.to_owned() }\n    }\n",
    "    /// From 0, which runs first, to 9.\n    pub priority: u8,\n    pub command: String,\n}\n\n"
    "/// The priority of a job that names none.\npub const DEFAULT_PRIORITY: u8 = 5;\n\n"
    "/// The highest number a priority may have.\npub const MAX_PRIORITY: u8 = 9;\n\n"
    "impl Job {\n    pub fn new(id: u32, command: &str) -> Self {\n"
    "        Self { id, priority: DEFAULT_PRIORITY, command: command.to_owned() }\n    }\n\n"
    "    pub fn with_priority(self, priority: u8) -> Self {\n        Self { priority, ..self }\n    }\n",
)

PARSE_EDITS = [
    Edit("src/parse.rs", "such as `7 make test`.\n\nuse crate::job::Job;", "such as `7 make test` and `7@2 make test`.\n\n"
         "use crate::job::{Job, DEFAULT_PRIORITY, MAX_PRIORITY};"),
    Edit("src/parse.rs", "/// Reads a line: the id, a space, and the command.",
         "/// Reads a line: the id, perhaps `@` and the priority, a space, and the command."),
    Edit(
        "src/parse.rs",
        "    let id = id.parse()",
        "    let (id, priority) = match id.split_once('@') {\n"
        "        None => (id, DEFAULT_PRIORITY),\n"
        "        Some((id, number)) => {\n"
        "            let priority = number.parse().ok().filter(|priority| *priority <= MAX_PRIORITY);\n"
        "            (id, priority.ok_or_else(|| format!(\"`{number}` is not a priority from 0 to 9\"))?)\n"
        "        }\n"
        "    };\n"
        "    let id = id.parse()",
    ),
    Edit("src/parse.rs", "    Ok(Job::new(id, command.trim()))", "    Ok(Job::new(id, command.trim()).with_priority(priority))"),
    Edit(
        "src/parse.rs",
        "        assert!(parse(\"7\").is_err());\n",
        "        assert!(parse(\"7\").is_err());\n    }\n\n    #[test]\n    fn a_line_may_have_a_priority() {\n"
        "        assert_eq!(parse(\"7@2 make\"), Ok(Job::new(7, \"make\").with_priority(2)));\n"
        "        assert!(parse(\"7@10 make\").is_err());\n        assert!(parse(\"7@ make\").is_err());\n",
    ),
]

OTHER_EDITS = [
    Edit("src/format.rs", "use crate::job::Job;", "use crate::job::{Job, DEFAULT_PRIORITY};"),
    Edit(
        "src/format.rs",
        '    format!("{} {}", job.id, job.command)\n',
        '    if job.priority == DEFAULT_PRIORITY {\n        return format!("{} {}", job.id, job.command);\n    }\n'
        '    format!("{}@{} {}", job.id, job.priority, job.command)\n',
    ),
    Edit("src/format.rs", '"{:>4}  {}", job.id, job.command', '"{:>4}  {}  {}", job.id, job.priority, job.command'),
    Edit(
        "src/format.rs",
        '        assert_eq!(row(&job), "   7  make test");\n',
        '        assert_eq!(row(&job), "   7  5  make test");\n'
        '        assert_eq!(line(&job.with_priority(2)), "7@2 make test");\n',
    ),
    Edit("src/queue.rs", "the one with the lowest id.", "the one with the lowest priority, then the lowest id."),
    Edit("src/queue.rs", "min_by_key(|index| self.jobs[*index].id)?;",
         "min_by_key(|index| (self.jobs[*index].priority, self.jobs[*index].id))?;"),
    Edit(
        "src/queue.rs",
        "        assert_eq!(queue.pop(), None);\n    }\n",
        "        assert_eq!(queue.pop(), None);\n    }\n\n    #[test]\n    fn the_lowest_priority_runs_first() {\n"
        "        let mut queue = Queue::default();\n        queue.push(Job::new(1, \"a\"));\n"
        "        queue.push(Job::new(2, \"b\").with_priority(1));\n"
        "        assert_eq!(queue.pop().map(|job| job.id), Some(2));\n    }\n",
    ),
    Edit("src/store.rs", "one `ID<tab>COMMAND` per line.", "one `ID<tab>PRIORITY<tab>COMMAND` per line."),
    Edit("src/store.rs", 'format!("{}\\t{}\\n", job.id, job.command)',
         'format!("{}\\t{}\\t{}\\n", job.id, job.priority, job.command)'),
    Edit(
        "src/store.rs",
        "            let (id, command) = line.split_once('\\t')?;\n            Some(Job::new(id.parse().ok()?, command))\n",
        "            let (id, rest) = line.split_once('\\t')?;\n            let id = id.parse().ok()?;\n"
        "            // Earlier versions stored no priority.\n"
        "            let Some((priority, command)) = rest.split_once('\\t') else {\n"
        "                return Some(Job::new(id, rest));\n            };\n"
        "            Some(Job::new(id, command).with_priority(priority.parse().ok()?))\n",
    ),
    Edit("src/store.rs", "        assert_eq!(load(&save(&jobs)), jobs);\n",
         "        assert_eq!(load(&save(&jobs)), jobs);\n        assert_eq!(load(\"1\\ta b\\n2\\tc\\n\"), jobs);\n"),
    Edit(
        "src/main.rs",
        "    while let Some(job) = queue.pop() {\n        println!(\"{}\", format::row(&job));\n",
        "    let only_urgent = std::env::args().any(|argument| argument == \"--urgent\");\n"
        "    while let Some(job) = queue.pop() {\n        if only_urgent && job.priority >= 3 {\n            continue;\n"
        "        }\n        println!(\"{}\", format::row(&job));\n",
    ),
    Edit("README.md", "the id, a space, and the command.",
         "the id, perhaps `@` and a priority from 0 (first) to 9, a space, and the\ncommand. The default priority is 5."),
    Edit("README.md", "by id\n", "by priority, then id\nprintf '2@1 make\\n' | jobs --urgent             "
         "# only priorities below 3\n"),
    Edit("README.md", "as they are stored: ID<tab>COMMAND", "as they are stored: ID<tab>PRIORITY<tab>COMMAND"),
]

SEVEN_FILES = Task(
    name="seven-files",
    title="change across seven files",
    request=REQUEST,
    check=TEST,
    needs=("cargo",),
    files=FILES,
    hidden=seven_hidden,
    look=LOOK,
    work=[[JOB_EDIT, *PARSE_EDITS], [*OTHER_EDITS, Run(TEST)]],
)
