//! Reads safety profiles and guards from YAML. Omitted fields have the values of the standard profile.

use std::path::Path;

use cleveragents_domain::yaml::{self, Fault};
use cleveragents_domain::{DefinitionFault, DefinitionFileError, DefinitionKind, MicroUsd};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::{AllowList, Guards, Safety, SafetyProfile, ToolPattern};
use crate::custom::Header;
use crate::spec::Category;

/// A safety profile and its guards.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SafetyEntry {
    cleveragents: Option<Header>,
    /// Name of the profile. Default: the path of its file.
    name: Option<String>,
    /// Purpose of the profile, in one sentence.
    description: Option<String>,
    /// Categories of tools that may run. Default: all; an empty list also means all.
    allowed_skill_categories: Option<Vec<Category>>,
    /// Tools that may run, such as `builtin/git-*`. Default: all; an empty list also means all.
    #[schemars(with = "Option<Vec<String>>")]
    allowed_tools: Option<Vec<Spanned<String>>>,
    /// Tools that may not run.
    #[schemars(with = "Option<Vec<String>>")]
    denied_tools: Option<Vec<Spanned<String>>>,
    /// Whether tools may make changes. Default: true.
    allow_changes: Option<bool>,
    /// Whether tools that make changes require a sandbox. Default: true.
    require_sandbox: Option<bool>,
    /// Whether a checkpoint is created before each change. Default: true.
    require_checkpoints: Option<bool>,
    /// Whether the user must approve every call. Default: false.
    require_human_approval: Option<bool>,
    /// Whether tools that are declared unsafe may run. Default: false.
    allow_unsafe_tools: Option<bool>,
    /// Maximum cost of one plan, in US dollars.
    #[schemars(with = "Option<f64>", range(min = 0))]
    max_cost_per_plan: Option<Spanned<f64>>,
    /// Maximum total cost, in US dollars.
    #[schemars(with = "Option<f64>", range(min = 0))]
    max_total_cost: Option<Spanned<f64>>,
    /// Maximum number of retries of a step. Default: 3.
    max_retries_per_step: Option<u32>,
    /// Limits on automatic work.
    guards: Option<GuardsEntry>,
}

/// Limits on automatic work.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GuardsEntry {
    /// Tools that may not run.
    #[schemars(with = "Option<Vec<String>>")]
    tool_denylist: Option<Vec<Spanned<String>>>,
    /// The only tools that may run. Default: all; an empty list means none.
    #[schemars(with = "Option<Vec<String>>")]
    tool_allowlist: Option<Vec<Spanned<String>>>,
    /// Maximum number of tool calls in one response of the model, or in one step of a plan.
    max_tool_calls_per_step: Option<u64>,
    /// Maximum total cost, in US dollars.
    #[schemars(with = "Option<f64>", range(min = 0))]
    max_total_cost: Option<Spanned<f64>>,
    /// Whether the user must approve every call that makes changes. Default: false.
    require_approval_for_writes: Option<bool>,
}

impl Safety {
    /// Parses a profile from the text of its file.
    pub fn read(text: &str, file: &Path) -> Result<Self, DefinitionFileError> {
        read_entry(text)
            .and_then(|entry| entry.finish(file))
            .map_err(|fault| fault.in_file(file, DefinitionKind::SafetyProfile, text))
    }

    /// JSON schema of safety profile files, for editors.
    pub fn schema() -> Value {
        schemars::schema_for!(SafetyEntry).to_value()
    }
}

fn read_entry(text: &str) -> Result<SafetyEntry, DefinitionFault> {
    let probe: Value = yaml::read(text)?;
    if !probe.is_object() {
        return Err(Fault::new(
            "the file does not contain a map with the fields of a safety profile",
        )
        .fixed_by("write one `field: value` per line, such as `require_human_approval: true`")
        .into());
    }
    let entry: SafetyEntry = yaml::read(text)?;
    let header = entry.cleveragents.as_ref();
    yaml::check_version(header.and_then(|header| header.version.as_ref()))?;
    Ok(entry)
}

impl SafetyEntry {
    fn finish(self, file: &Path) -> Result<Safety, DefinitionFault> {
        let standard = SafetyProfile::default();
        let listed = patterns(self.allowed_tools.as_deref())?.filter(|list| !list.is_empty());
        let profile = SafetyProfile {
            allowed_categories: self
                .allowed_skill_categories
                .filter(|list| !list.is_empty()),
            allowed_tools: listed.map_or_else(AllowList::default, AllowList::only),
            denied_tools: patterns(self.denied_tools.as_deref())?.unwrap_or_default(),
            allow_changes: self.allow_changes.unwrap_or(standard.allow_changes),
            require_sandbox: self.require_sandbox.unwrap_or(standard.require_sandbox),
            require_checkpoints: self
                .require_checkpoints
                .unwrap_or(standard.require_checkpoints),
            require_human_approval: self
                .require_human_approval
                .unwrap_or(standard.require_human_approval),
            allow_unsafe_tools: self
                .allow_unsafe_tools
                .unwrap_or(standard.allow_unsafe_tools),
            max_cost_per_plan: money(self.max_cost_per_plan.as_ref())?,
            max_total_cost: money(self.max_total_cost.as_ref())?,
            max_retries_per_step: self
                .max_retries_per_step
                .unwrap_or(standard.max_retries_per_step),
        };
        let guards = self.guards.unwrap_or_default();
        let allowlist = patterns(guards.tool_allowlist.as_deref())?;
        Ok(Safety {
            name: self.name.unwrap_or_else(|| file.display().to_string()),
            description: self.description.unwrap_or_default(),
            profile,
            guards: Guards {
                denylist: patterns(guards.tool_denylist.as_deref())?.unwrap_or_default(),
                allowlist: allowlist.map_or_else(AllowList::default, AllowList::only),
                max_tool_calls_per_step: guards.max_tool_calls_per_step,
                max_total_cost: money(guards.max_total_cost.as_ref())?,
                require_approval_for_writes: guards.require_approval_for_writes.unwrap_or(false),
            },
        })
    }
}

fn patterns(
    written: Option<&[Spanned<String>]>,
) -> Result<Option<Vec<ToolPattern>>, DefinitionFault> {
    let read = |entry: &Spanned<String>| {
        entry.value.parse().map_err(|error: super::RuleError| {
            DefinitionFault::rule(
                Fault::at(entry, error.to_string()),
                "write the full name of a tool or a pattern such as `builtin/git-*`",
            )
        })
    };
    written
        .map(|list| list.iter().map(read).collect())
        .transpose()
}

fn money(written: Option<&Spanned<f64>>) -> Result<Option<MicroUsd>, DefinitionFault> {
    written
        .map(|amount| {
            MicroUsd::from_usd_rounded_up(amount.value).ok_or_else(|| {
                let message = format!("`{}` is not an amount of US dollars", amount.value);
                DefinitionFault::rule(Fault::at(amount, message), "write it like 0.50")
            })
        })
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::Safety;
    use cleveragents_domain::{Code, Diagnose as _};
    use std::path::Path;

    fn read(text: &str) -> Result<Safety, cleveragents_domain::DefinitionFileError> {
        Safety::read(text, Path::new("s.yaml"))
    }

    #[test]
    fn omitted_fields_have_the_standard_value() {
        let read = read("name: team/ours\n").expect("it reads");
        let standard = Safety::find("standard").expect("built in");
        assert_eq!(read.profile, standard.profile);
        assert_eq!(read.guards, standard.guards);
        assert_eq!(read.name, "team/ours");
    }

    #[test]
    fn every_field_is_parsed() {
        let text = "\
cleveragents: {version: '3.0'}
name: team/ours
description: What we agreed on
allowed_skill_categories: [file_operations, git_operations]
allowed_tools: ['builtin/*']
denied_tools: [builtin/shell]
allow_changes: false
require_sandbox: false
require_checkpoints: false
require_human_approval: true
allow_unsafe_tools: true
max_cost_per_plan: 1.5
max_total_cost: 20
max_retries_per_step: 1
guards:
  tool_denylist: [builtin/file-delete]
  tool_allowlist: []
  max_tool_calls_per_step: 4
  max_total_cost: 0.25
  require_approval_for_writes: true
";
        let safety = serde_json::to_value(read(text).expect("it reads")).expect("JSON");
        let expected = serde_json::json!({
            "name": "team/ours",
            "description": "What we agreed on",
            "allowed_skill_categories": ["file_operations", "git_operations"],
            "allowed_tools": [["builtin/*"]],
            "denied_tools": ["builtin/shell"],
            "allow_changes": false,
            "require_sandbox": false,
            "require_checkpoints": false,
            "require_human_approval": true,
            "allow_unsafe_tools": true,
            "max_cost_per_plan": 1.5,
            "max_total_cost": 20.0,
            "max_retries_per_step": 1,
            "guards": {
                "tool_denylist": ["builtin/file-delete"],
                "tool_allowlist": [[]],
                "max_tool_calls_per_step": 4,
                "max_total_cost": 0.25,
                "require_approval_for_writes": true,
            },
        });
        assert_eq!(safety, expected);
    }

    #[test]
    fn errors_in_files_name_the_position_and_the_fix() {
        for (text, code, message, fix) in [
            (
                "",
                Code::MalformedSafety,
                "s.yaml:1:1: the file does not contain a map",
                "per line",
            ),
            (
                "- a\n",
                Code::MalformedSafety,
                "s.yaml:1:1: the file does not contain a map",
                "per line",
            ),
            (
                "requir_sandbox: true\n",
                Code::MalformedSafety,
                "s.yaml:1:1: there is no field `requir_sandbox`",
                "require_sandbox",
            ),
            (
                "name: a\nguards:\n  denylist: []\n",
                Code::MalformedSafety,
                "s.yaml:3:3: there is no field `denylist`",
                "tool_denylist",
            ),
            (
                "require_sandbox: perhaps\n",
                Code::MalformedSafety,
                "s.yaml:1:18",
                "docs/reference/tools.md",
            ),
            (
                "denied_tools: builtin/shell\n",
                Code::MalformedSafety,
                "s.yaml:1:15: a list is expected",
                "write a list",
            ),
            (
                "denied_tools:\n- builtin/shell\n- shell\n",
                Code::InvalidSafety,
                "s.yaml:3:3",
                "full name",
            ),
            (
                "guards: {tool_denylist: [B/X]}\n",
                Code::InvalidSafety,
                "s.yaml:1:26",
                "full name",
            ),
            (
                "allowed_skill_categories: [files]\n",
                Code::MalformedSafety,
                "s.yaml:1:28: there is no value `files`",
                "file_operations",
            ),
            (
                "max_total_cost: -1\n",
                Code::InvalidSafety,
                "s.yaml:1:17: `-1` is not an amount",
                "0.50",
            ),
            (
                "max_total_cost: .nan\n",
                Code::MalformedSafety,
                "s.yaml:1:17",
                "docs/reference/tools.md",
            ),
            (
                "guards: {max_tool_calls_per_step: -1}\n",
                Code::MalformedSafety,
                "s.yaml:1:35",
                "docs/reference/tools.md",
            ),
            (
                "name: a\nname: b\n",
                Code::MalformedSafety,
                "s.yaml:2:1: the field `name` occurs twice",
                "one of them",
            ),
            (
                "cleveragents: {version: '9'}\n",
                Code::MalformedSafety,
                "s.yaml:1:25: the format version 9",
                "3.0",
            ),
        ] {
            let error = read(text).expect_err(text);
            let shown = error.to_string();
            assert!(shown.starts_with(message), "{text}: {shown}");
            assert_eq!(error.code(), code, "{text}: {shown}");
            let hint = error.hint().expect("a hint").neutral();
            assert!(hint.contains(fix), "{text}: {hint}");
        }
    }
}
