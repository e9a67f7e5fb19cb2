//! The example project: a small shop in a git repository, with a failing test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cleveragents_domain::ContentHash;
use serde_json::json;

use super::{Demo, StepResult, failure, text, violated};
use crate::output::CommandError;

/// Model of the demo: the provider `scripted` answers from the file `model.yaml` in the folder of the demo.
pub(super) const MODEL: &str = "scripted/model.yaml";

/// Project and action of the demo.
pub(super) const PROJECT: &str = "local/shop";
pub(super) const ACTION: &str = "local/fix-tests";

/// The file that the plan fixes, and its test.
pub(super) const CODE: &str = "price.sh";
const TEST: &str = "test.sh";

/// Content of a file in the `examples` folder of the repository, which users can also try themselves.
macro_rules! example {
    ($path:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/",
            $path
        ))
    };
}

/// Files next to the repository that the commands of the demo read.
const FILES: [(&str, &str); 3] = [
    ("model.yaml", example!("models/shop.yaml")),
    ("action.yaml", example!("actions/fix-tests.yaml")),
    ("validation.yaml", example!("validations/tests.yaml")),
];

/// Result of a test run.
pub(super) struct TestRun {
    pub(super) passed: bool,
    pub(super) last_line: String,
}

impl Demo {
    /// The user's folder in the demo.
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
                    .with_hint("install git and repeat the command")
            })?;
        if !output.status.success() {
            let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(violated(&format!(
                "git {}: {output_text}",
                arguments.join(" ")
            )));
        }
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned())
    }

    /// Hash of the user's folder: content and `git status`.
    pub(super) fn fingerprint(&self) -> Result<ContentHash, CommandError> {
        let mut content = self.git(&["rev-parse", "HEAD"])?;
        content.push_str(&self.git(&["status", "--porcelain"])?);
        let mut names: Vec<PathBuf> = std::fs::read_dir(self.shop())
            .map_err(|error| failure("read a folder", &error))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_file())
            .collect();
        names.sort();
        for path in names {
            content.push_str(&path.display().to_string());
            content.push_str(&read(&path)?);
        }
        Ok(ContentHash::of_bytes(content.as_bytes()))
    }
}

pub(super) fn run_tests(folder: &Path) -> Result<TestRun, CommandError> {
    let output = Command::new("sh")
        .arg(TEST)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failure("run a test", &error))?;
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(TestRun {
        passed: output.status.success(),
        last_line: output_text.lines().last().unwrap_or_default().to_owned(),
    })
}

pub(super) fn read(path: &Path) -> Result<String, CommandError> {
    std::fs::read_to_string(path).map_err(|error| failure("read a file", &error))
}

pub(super) fn write(path: &Path, content: &str) -> Result<(), CommandError> {
    std::fs::write(path, content).map_err(|error| failure("write a file", &error))
}

/// Creates the repository and registers it.
pub(super) fn has_a_failing_test(demo: &Demo) -> Result<StepResult, CommandError> {
    let shop = demo.shop();
    std::fs::create_dir(&shop).map_err(|error| failure("create a folder", &error))?;
    for (name, content) in FILES {
        write(&demo.home.join(name), content)?;
    }
    write(&shop.join(CODE), example!("shop/price.sh"))?;
    write(&shop.join(TEST), example!("shop/test.sh"))?;
    demo.git(&["init", "-q"])?;
    demo.git(&["add", "."])?;
    demo.git(&["commit", "-qm", "A shop"])?;
    let before = run_tests(&shop)?;
    if before.passed {
        return Err(violated("the test passes before the plan runs"));
    }
    let resource = "local/shop";
    demo.agents(&["resource", "add", "git-checkout", "shop", "--path", "shop"])?;
    demo.agents(&["project", "create", PROJECT, "--resource", resource])?;
    demo.agents(&["validation", "add", "--config", "validation.yaml"])?;
    let attach = [
        "validation",
        "attach",
        "--project",
        PROJECT,
        resource,
        "local/tests",
    ];
    demo.agents(&attach)?;
    demo.agents(&["action", "create", "--config", "action.yaml"])?;
    let action = demo.agents(&["action", "show", ACTION])?;
    let attached = demo.agents(&["validation", "attachments", "--project", PROJECT])?;
    let count = attached["attachments"].as_array().map_or(0, Vec::len);
    if count != 1 {
        return Err(violated("the validation is not attached"));
    }
    let definition_of_done = text(&action["action"]["definition_of_done"]);
    Ok(StepResult {
        title: "A project with a failing test",
        promise: "An action defines when work is done; validations check the result of every plan",
        seen: format!(
            "the test prints `{}`; definition of done of {ACTION}: {}; local/tests validates its plans",
            before.last_line,
            definition_of_done.trim().trim_start_matches("- ")
        ),
        facts: json!({
            "test": before.last_line, "action": ACTION,
            "definition_of_done": definition_of_done, "validations": count,
        }),
        shown: String::new(),
    })
}
