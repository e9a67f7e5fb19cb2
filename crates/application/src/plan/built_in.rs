//! The built-in actors, which work with any model that can call tools.
//!
//! Their instructions are files ([`PROMPTS`]). A file of the same name replaces a built-in one. It can be in
//! `.cleveragents/prompts` of a project that a plan works on, or in the folder `prompts` of the home folder; the
//! project's file takes precedence.

use std::collections::BTreeMap;
use std::path::Path;

use cleveragents_sandbox::{Links, read_regular};
use serde_json::{Value, json};

use super::report::{review_schema, strategy_schema};
use crate::actor::ActorText;

/// The name of the strategist and executor that use no model: they execute the items of the definition of done as tool
/// calls.
pub const DETERMINISTIC: &str = "builtin/deterministic";

/// The default strategist.
pub const STRATEGIST: &str = "builtin/strategist";
/// The default executor.
pub const EXECUTOR: &str = "builtin/executor";
/// Reviews whether a plan is done.
pub const REVIEWER: &str = "builtin/reviewer";
/// Estimates effort and cost of a plan.
pub const ESTIMATOR: &str = "builtin/estimator";

/// The instructions, by the name of their file without `.md`.
pub const PROMPTS: [(&str, &str); 12] = [
    ("base", include_str!("../../prompts/base.md")),
    ("strategist", include_str!("../../prompts/strategist.md")),
    ("executor", include_str!("../../prompts/executor.md")),
    ("fix", include_str!("../../prompts/fix.md")),
    ("reviewer", include_str!("../../prompts/reviewer.md")),
    ("estimator", include_str!("../../prompts/estimator.md")),
    ("chat", include_str!("../../prompts/chat.md")),
    ("summary", include_str!("../../prompts/summary.md")),
    ("hunt", include_str!("../../prompts/hunt.md")),
    ("triage", include_str!("../../prompts/triage.md")),
    ("capture", include_str!("../../prompts/capture.md")),
    ("verdict", include_str!("../../prompts/verdict.md")),
];

/// The built-in actors with a model, without `builtin/`.
const ROLES: [&str; 4] = ["strategist", "executor", "reviewer", "estimator"];

/// The tools of the reviewer, which changes nothing and asks nothing.
const REVIEW_TOOLS: [&str; 5] = [
    "builtin/file-read",
    "builtin/file-search",
    "builtin/git-diff",
    "builtin/git-show",
    "builtin/output-read",
];

/// Maximum size of an instruction file in the home folder, in bytes.
const MAX_PROMPT_BYTES: u64 = 1 << 20;

/// Maximum size of an instruction file in a project, in bytes.
const MAX_PROJECT_PROMPT_BYTES: u64 = 64 << 10;

/// Maximum number of model answers in the run of one step.
const MODEL_CALLS: u64 = 80;

/// The instructions of the built-in actors and of conversations: plain text, never a template.
pub(crate) struct RolePrompts {
    texts: BTreeMap<&'static str, String>,
}

impl RolePrompts {
    /// Reads each instruction file from the first project that has it, else from the home folder, else the built-in
    /// text.
    pub(crate) fn read(home: &Path, projects: &[&Path]) -> Self {
        let texts = PROMPTS.iter().map(|(name, standard)| {
            let custom = projects
                .iter()
                .find_map(|project| project_prompt(project, name))
                .or_else(|| home_prompt(&home.join("prompts"), name));
            (*name, custom.unwrap_or_else(|| (*standard).to_owned()))
        });
        Self {
            texts: texts.collect(),
        }
    }

    /// The text of an instruction file; empty for a name that is not in [`PROMPTS`].
    pub(crate) fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", |text| text.trim())
    }
}

fn home_prompt(folder: &Path, name: &str) -> Option<String> {
    let path = folder.join(format!("{name}.md"));
    let bytes = read_regular(&path, Links::Follow, MAX_PROMPT_BYTES).ok()??;
    String::from_utf8(bytes).ok()
}

/// Reads an instruction file of a project. Refuses symbolic links below the project: they could point to any file of
/// the user.
fn project_prompt(project: &Path, name: &str) -> Option<String> {
    let mut folder = project.to_owned();
    for part in [".cleveragents", "prompts"] {
        folder.push(part);
        if !std::fs::symlink_metadata(&folder).ok()?.is_dir() {
            return None;
        }
    }
    let path = folder.join(format!("{name}.md"));
    let bytes = read_regular(&path, Links::Refuse, MAX_PROJECT_PROMPT_BYTES).ok()??;
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.trim().is_empty())
}

/// The built-in actors by name. An instruction file in `folder` replaces the built-in text.
pub fn built_in_actors(folder: &Path) -> BTreeMap<String, ActorText> {
    let prompt = |file_name: &str| {
        let standard = PROMPTS.iter().find(|(name, _)| *name == file_name);
        home_prompt(folder, file_name)
            .or_else(|| standard.map(|(_, text)| (*text).to_owned()))
            .unwrap_or_default()
    };
    let mut actors = BTreeMap::new();
    for name in ROLES {
        let full_name = format!("builtin/{name}");
        // Outside a plan, these actors need the base text and the text of their role. A plan sends the base text once,
        // and the text of a role when its phase starts.
        let prompt = match name {
            "strategist" | "executor" => format!("{}\n{}", prompt("base"), prompt(name)),
            _ => prompt(name),
        };
        let text = ActorText {
            text: definition(&full_name, name, &prompt).to_string(),
            source: full_name.clone(),
        };
        actors.insert(full_name, text);
    }
    actors
}

/// Adapts the definition of a built-in actor to a plan: the plan supplies the instructions, and receives results
/// through report tools.
pub(super) fn in_plan(
    text: &str,
    role: &str,
    model: Option<&str>,
) -> Result<String, serde_json::Error> {
    let mut file: Value = serde_json::from_str(text)?;
    if let Value::Object(fields) = &mut file {
        fields.remove("system_prompt");
        if role != ESTIMATOR {
            fields.remove("response_format");
        }
        if let Some(model) = model {
            fields.insert("model".to_owned(), model.into());
        }
    }
    Ok(file.to_string())
}

/// The definition of an actor, as JSON, which is valid YAML.
fn definition(full_name: &str, name: &str, prompt: &str) -> Value {
    let mut file = json!({
        "name": full_name,
        "type": "llm",
        "system_prompt": prompt,
        "tools": match name {
            "reviewer" => json!(REVIEW_TOOLS),
            _ => json!(["builtin/*"]),
        },
        "limits": {"max_model_calls": MODEL_CALLS},
    });
    let (description, role, format) = match name {
        "strategist" => (
            "Makes the strategy of a plan",
            "strategy",
            Some(("strategy", strategy_schema())),
        ),
        "executor" => ("Executes the steps of a plan", "execution", None),
        "reviewer" => (
            "Reviews whether a plan is done",
            "review",
            Some(("review", review_schema())),
        ),
        _ => (
            "Estimates effort and cost of a plan",
            "estimation",
            Some(("estimate", estimate_schema())),
        ),
    };
    file["description"] = description.into();
    file["role_hint"] = role.into();
    if let Some((name, schema)) = format {
        file["response_format"] =
            json!({"type": "json_schema", "name": name, "schema": schema, "strict": true});
    }
    file
}

fn estimate_schema() -> Value {
    let range = json!({"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 2, "maxItems": 2});
    json!({
        "type": "object",
        "required": ["summary"],
        "properties": {
            "summary": {"type": "string"},
            "tokens": range,
            "cost_usd": range,
            "seconds": range,
            "rollback_risk": {"type": "number", "minimum": 0, "maximum": 1},
        },
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{PROMPTS, RolePrompts};

    /// Long instructions would be expensive, because every request of a plan repeats them.
    #[test]
    fn the_instructions_of_a_phase_stay_small() {
        let size = |file_name: &str| {
            let prompt = PROMPTS.iter().find(|(name, _)| *name == file_name);
            prompt.map_or(0, |(_, text)| text.len())
        };
        for phase in ["strategist", "executor", "fix", "reviewer", "estimator"] {
            let total = size("base") + size(phase);
            assert!(total <= 5_400, "base and {phase} have {total} bytes");
        }
    }

    #[test]
    fn project_prompts_override_home_prompts_and_links_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (home, project) = (folder.path().join("home"), folder.path().join("project"));
        let write = |folder: &Path, name: &str, text: &str| {
            std::fs::create_dir_all(folder).expect("a folder");
            std::fs::write(folder.join(name), text).expect("a file");
        };
        let project_prompts = project.join(".cleveragents/prompts");
        write(&home.join("prompts"), "base.md", "of the home");
        write(&home.join("prompts"), "fix.md", "of the home");
        write(
            &project_prompts,
            "base.md",
            "of the project: {{ context.secret }}\n",
        );
        write(&project_prompts, "executor.md", " \n");
        write(folder.path(), "secret.md", "secret");
        std::os::unix::fs::symlink(
            folder.path().join("secret.md"),
            project_prompts.join("reviewer.md"),
        )
        .expect("a link");
        write(&project_prompts, "strategist.md", &"x".repeat(70 << 10));
        let prompts = RolePrompts::read(&home, &[project.as_path()]);
        assert_eq!(prompts.text("base"), "of the project: {{ context.secret }}");
        assert_eq!(prompts.text("fix"), "of the home");
        for name in ["executor", "reviewer", "strategist"] {
            assert!(prompts.text(name).contains("Phase") || prompts.text(name).contains("review"));
        }
        // Files in a linked folder are ignored.
        let linked = folder.path().join("linked");
        std::fs::create_dir(&linked).expect("a folder");
        std::os::unix::fs::symlink(project.join(".cleveragents"), linked.join(".cleveragents"))
            .expect("a link");
        let prompts = RolePrompts::read(&home, &[linked.as_path()]);
        assert_eq!(prompts.text("base"), "of the home");
    }
}
