//! The actors that come with the program: they work with any model that can call tools.
//!
//! Their instructions are files ([`PROMPTS`]); a file of the same name in the folder `prompts` of the home
//! takes the place of one.

use std::collections::BTreeMap;
use std::path::Path;

use cleveragents_sandbox::{Links, read_regular};
use serde_json::{Value, json};

use crate::actor::ActorText;

/// The name of the pair that needs no model: steps come from the definition of done, and are calls of tools.
pub const DETERMINISTIC: &str = "builtin/deterministic";

/// Who thinks plans out when nobody else is named.
pub const STRATEGIST: &str = "builtin/strategist";
/// Who carries plans out when nobody else is named.
pub const EXECUTOR: &str = "builtin/executor";
/// Judges whether a plan is done.
pub const REVIEWER: &str = "builtin/reviewer";
/// Says what a plan will take.
pub const ESTIMATOR: &str = "builtin/estimator";

/// The instructions, by the name of their file.
pub const PROMPTS: [(&str, &str); 4] = [
    ("strategist", include_str!("../../prompts/strategist.md")),
    ("executor", include_str!("../../prompts/executor.md")),
    ("reviewer", include_str!("../../prompts/reviewer.md")),
    ("estimator", include_str!("../../prompts/estimator.md")),
];

/// The largest file of instructions, in bytes.
const LONGEST_PROMPT: u64 = 1 << 20;

/// The actors, with instructions from a folder where it has them.
pub fn built_in_actors(folder: &Path) -> BTreeMap<String, ActorText> {
    let mut actors = BTreeMap::new();
    for (name, standard) in PROMPTS {
        let own = read_regular(
            &folder.join(format!("{name}.md")),
            Links::Follow,
            LONGEST_PROMPT,
        );
        let own = own
            .ok()
            .flatten()
            .and_then(|own| String::from_utf8(own).ok());
        let prompt = own.as_deref().unwrap_or(standard);
        let whole = format!("builtin/{name}");
        let text = ActorText {
            text: file(&whole, name, prompt).to_string(),
            source: whole.clone(),
        };
        actors.insert(whole, text);
    }
    actors
}

/// The file of an actor. JSON is YAML.
fn file(whole: &str, name: &str, prompt: &str) -> Value {
    let mut file = json!({
        "name": whole,
        "type": "llm",
        "system_prompt": prompt,
        "tools": ["builtin/*"],
        "limits": {"max_model_calls": 200},
    });
    let (description, role, format) = match name {
        "strategist" => (
            "Thinks plans out",
            "strategy",
            Some(("strategy", strategy_schema())),
        ),
        "executor" => ("Carries plans out", "execution", None),
        "reviewer" => (
            "Judges whether plans are done",
            "review",
            Some(("review", review_schema())),
        ),
        _ => (
            "Says what plans will take",
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

fn strategy_schema() -> Value {
    json!({
        "type": "object",
        "required": ["summary", "steps"],
        "properties": {
            "summary": {"type": "string", "minLength": 1},
            "risk": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "decisions": {"type": "array", "items": {
                "type": "object",
                "required": ["question", "chosen"],
                "properties": {
                    "question": {"type": "string", "minLength": 1},
                    "chosen": {"type": "string", "minLength": 1},
                    "alternatives": {"type": "array", "items": {"type": "string"}},
                    "confidence": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
                    "rationale": {"type": "string"},
                    "type": {"type": "string", "enum": ["strategy_choice", "resource_selection"]},
                    "depends_on": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                    "resources": {"type": "array", "items": {"type": "string"}},
                },
            }},
            "steps": {"type": "array", "minItems": 1, "items": {
                "type": "object",
                "required": ["title", "description"],
                "properties": {
                    "title": {"type": "string", "minLength": 1},
                    "description": {"type": "string"},
                    "files": {"type": "array", "items": {"type": "string"}},
                    "after": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                    "risk": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
                },
            }},
        },
    })
}

fn review_schema() -> Value {
    json!({
        "type": "object",
        "required": ["criteria"],
        "properties": {
            "criteria": {"type": "array", "items": {
                "type": "object",
                "required": ["number", "met", "evidence"],
                "properties": {
                    "number": {"type": "integer", "minimum": 1},
                    "met": {"type": "boolean"},
                    "evidence": {"type": "string"},
                },
            }},
        },
    })
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
