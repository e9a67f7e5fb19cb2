//! The project of the story: a small shop in a git repository, with a test that fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cleveragents_domain::ContentHash;
use serde_json::json;

use super::{Stop, Tour, broken, failure, text};
use crate::output::CommandError;

/// The model of the tour: a script in its folder.
pub(super) const MODEL: &str = "scripted/model.yaml";

/// The project and the action of the story.
pub(super) const PROJECT: &str = "local/shop";
pub(super) const ACTION: &str = "local/fix-tests";

/// The file that is mended, and the test that judges it.
pub(super) const CODE: &str = "price.sh";
const TEST: &str = "test.sh";

/// A file of the folder `examples`: the story is one that people can try themselves.
macro_rules! example {
    ($path:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/",
            $path
        ))
    };
}

/// What is written beside the repository, for the commands of the tour.
const FILES: [(&str, &str); 3] = [
    ("model.yaml", example!("models/shop.yaml")),
    ("action.yaml", example!("actions/fix-tests.yaml")),
    ("validation.yaml", example!("validations/tests.yaml")),
];

/// What a run of the tests came to.
pub(super) struct Tested {
    pub(super) passed: bool,
    pub(super) last_line: String,
}

impl Tour {
    /// The folder of the user in the story.
    pub(super) fn shop(&self) -> PathBuf {
        self.home.join("shop")
    }

    pub(super) fn git(&self, arguments: &[&str]) -> Result<String, CommandError> {
        let output = Command::new("git")
            .args(["-c", "user.name=You", "-c", "user.email=you@example.com"])
            .args([
                "-c",
                "commit.gpgsign=false",
                "-c",
                "init.defaultBranch=main",
            ])
            .args(arguments)
            .current_dir(self.shop())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                failure("run git, which the demo needs", &error)
                    .with_hint("install git and try again")
            })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(broken(&format!("git {}: {said}", arguments.join(" "))));
        }
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned())
    }

    /// Everything a reader of the user's folder sees, as one hash: content and what git says of it.
    pub(super) fn fingerprint(&self) -> Result<ContentHash, CommandError> {
        let mut all = self.git(&["rev-parse", "HEAD"])?;
        all.push_str(&self.git(&["status", "--porcelain"])?);
        let mut names: Vec<PathBuf> = std::fs::read_dir(self.shop())
            .map_err(|error| failure("read a folder", &error))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_file())
            .collect();
        names.sort();
        for path in names {
            all.push_str(&path.display().to_string());
            all.push_str(&read(&path)?);
        }
        Ok(ContentHash::of(all.as_bytes()))
    }
}

/// Runs the tests in a folder.
pub(super) fn tested(folder: &Path) -> Result<Tested, CommandError> {
    let output = Command::new("sh")
        .arg(TEST)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failure("run a test", &error))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Tested {
        passed: output.status.success(),
        last_line: said.lines().last().unwrap_or_default().to_owned(),
    })
}

pub(super) fn read(path: &Path) -> Result<String, CommandError> {
    std::fs::read_to_string(path).map_err(|error| failure("read a file", &error))
}

pub(super) fn write(path: &Path, content: &str) -> Result<(), CommandError> {
    std::fs::write(path, content).map_err(|error| failure("write a file", &error))
}

/// Makes the repository, and tells the program about it.
pub(super) fn has_a_failing_test(tour: &Tour) -> Result<Stop, CommandError> {
    let shop = tour.shop();
    std::fs::create_dir(&shop).map_err(|error| failure("make a folder", &error))?;
    for (name, content) in FILES {
        write(&tour.home.join(name), content)?;
    }
    write(&shop.join(CODE), example!("shop/price.sh"))?;
    write(&shop.join(TEST), example!("shop/test.sh"))?;
    tour.git(&["init", "-q"])?;
    tour.git(&["add", "."])?;
    tour.git(&["commit", "-qm", "A shop"])?;
    let before = tested(&shop)?;
    if before.passed {
        return Err(broken("the test passes before anything is done"));
    }
    let resource = "local/shop";
    tour.agents(&["resource", "add", "git-checkout", "shop", "--path", "shop"])?;
    tour.agents(&["project", "create", PROJECT, "--resource", resource])?;
    tour.agents(&["validation", "add", "--config", "validation.yaml"])?;
    let attach = [
        "validation",
        "attach",
        "--project",
        PROJECT,
        resource,
        "local/tests",
    ];
    tour.agents(&attach)?;
    tour.agents(&["action", "create", "--config", "action.yaml"])?;
    let action = tour.agents(&["action", "show", ACTION])?;
    let attached = tour.agents(&["validation", "attachments", "--project", PROJECT])?;
    let count = attached["attachments"].as_array().map_or(0, Vec::len);
    if count != 1 {
        return Err(broken("the validation is not attached"));
    }
    let done = text(&action["action"]["definition_of_done"]);
    Ok(Stop {
        title: "A project with a failing test",
        promise: "An action says when work is done; validations say whether it is, whoever did it",
        seen: format!(
            "the test ends with `{}`; the action {ACTION} wants: {}; the validation local/tests judges its plans",
            before.last_line,
            done.trim().trim_start_matches("- ")
        ),
        facts: json!({"test": before.last_line, "action": ACTION, "definition_of_done": done, "validations": count}),
        shown: String::new(),
    })
}
