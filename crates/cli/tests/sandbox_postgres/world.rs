//! A user with a folder and a database on a server, and a sandbox of both.

use std::path::PathBuf;

use cleveragents_testkit::{Agents, Answer, TestDatabase};
use serde_json::Value;

/// Password in the URL of the database. The test server does not require a password.
pub(crate) const PASSWORD: &str = "geheim-wort";

/// A home, a folder `plain` with a file, and a database with a row, registered as `shop`.
pub(crate) struct World {
    pub(crate) agents: Agents,
    pub(crate) database: TestDatabase,
}

/// Adds the password to the URL of a database.
pub(crate) fn with_password(url: &str) -> String {
    let (before, after) = url.split_once('@').expect("the address names a user");
    let user = before.rsplit('/').next().expect("a user");
    let user = user.split(':').next().expect("a name");
    format!("postgres://{user}:{PASSWORD}@{after}")
}

impl World {
    /// Returns `None` if no server is available.
    pub(crate) fn new() -> Option<Self> {
        let database = TestDatabase::postgres()?;
        database.execute_sql(
            "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'old')",
        );
        let world = Self {
            agents: Agents::new(env!("CARGO_BIN_EXE_agents")),
            database,
        };
        std::fs::create_dir(world.place("plain")).expect("a folder");
        std::fs::write(world.place("plain/file"), "before\n").expect("a file");
        let url = with_password(&world.database.url);
        world
            .agents
            .data(&["resource", "add", "postgres", "shop", "--url", &url]);
        Some(world)
    }

    /// Like `new`, with a sandbox `fix` of the folder and the database.
    pub(crate) fn with_sandbox() -> Option<Self> {
        let world = Self::new()?;
        world.create();
        Some(world)
    }

    pub(crate) fn create(&self) {
        self.agents.data(&[
            "sandbox",
            "create",
            "fix",
            "--path",
            "plain",
            "--resource",
            "shop",
        ]);
    }

    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.agents.cwd().join(name)
    }

    /// Folder of a part of the only open sandbox.
    pub(crate) fn part(&self, alias: &str) -> PathBuf {
        let sandboxes = std::fs::read_dir(self.agents.home().join("sandboxes")).expect("sandboxes");
        let mut folders =
            sandboxes.map(|entry| entry.expect("an entry").path().join("work").join(alias));
        folders.find(|folder| folder.is_dir()).expect("the part")
    }

    /// Writes the script of the database, and changes files of the folder.
    pub(crate) fn write(&self, sql: &str) {
        std::fs::write(self.part("shop").join("changes.sql"), sql).expect("the script");
        std::fs::write(self.part("plain").join("file"), "after\n").expect("a file");
        std::fs::write(self.part("plain").join("new"), "new\n").expect("a file");
    }

    /// The user's data: files of the folder, and rows of the table.
    pub(crate) fn state(&self) -> (Vec<(String, String)>, Vec<Vec<String>>) {
        let entries = std::fs::read_dir(self.place("plain")).expect("a folder");
        let mut files: Vec<_> = entries
            .map(|entry| {
                let path = entry.expect("an entry").path();
                let name = path
                    .file_name()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned();
                (name, std::fs::read_to_string(&path).unwrap_or_default())
            })
            .collect();
        files.sort();
        (files, self.rows())
    }

    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        self.database.ask("SELECT id, v FROM t ORDER BY id")
    }

    pub(crate) fn query(&self, sql: &str) -> Value {
        self.agents.data(&["sandbox", "query", "fix", sql])
    }

    /// Runs a command that must fail with a code, and returns the message.
    pub(crate) fn refused(&self, arguments: &[&str], exit_code: i32, code: &str) -> String {
        let answer = self
            .agents
            .run(&[&["--format", "json"], arguments].concat());
        assert_eq!(answer.code, Some(exit_code), "{arguments:?}: {answer:?}");
        assert_no_password(&answer);
        let error = answer.json()["data"]["error"].clone();
        assert_eq!(error["code"], code, "{answer:?}");
        assert!(
            error["hint"].is_string(),
            "the error has a hint: {answer:?}"
        );
        error["message"].as_str().expect("a message").to_owned()
    }
}

pub(crate) fn assert_no_password(answer: &Answer) {
    assert!(
        !answer.out.contains(PASSWORD) && !answer.err.contains(PASSWORD),
        "{answer:?}"
    );
}
