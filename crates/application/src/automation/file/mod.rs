//! Parses an automation profile from YAML.
//!
//! Thresholds and flags are top-level fields. A file either sets every threshold, or names a base profile with
//! `extends` and sets only the differences.

use std::path::Path;

use cleveragents_domain::yaml::{self, Expand, Fault, Variables};
use cleveragents_domain::{
    AutomationGate, AutomationGuard, AutomationProfile, DEFAULT_RETRIES, DefinitionFault,
    DefinitionFileError, DefinitionKind, MicroUsd, Name, Thresholds, hint, is_threshold, nearest,
    suggest,
};
use cleveragents_tools::custom::{Header, UnresolvedValue, resolve};
use cleveragents_tools::{RuleError, ToolPattern};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::definition::DefinitionType as _;

/// Maximum number of retries.
const MAX_RETRIES: u32 = 100;

/// The file of an automation profile.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProfileEntry {
    cleveragents: Option<Header>,
    /// Version of the format: 3.0.
    #[schemars(with = "Option<Value>")]
    schema_version: Option<Spanned<Value>>,
    /// Name of the profile: `namespace/name`; in `local/` without a namespace.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// Description, one line.
    #[schemars(with = "Option<String>")]
    description: Option<Spanned<String>>,
    /// The profile to extend: values that this file omits are taken from it.
    #[schemars(with = "Option<String>")]
    extends: Option<Spanned<String>>,
    /// Confidence that a plan needs to start its strategy without approval, from 0 (always starts) to 1
    /// (always asks).
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    decompose_task: Option<UnresolvedValue>,
    /// Confidence needed to continue from the strategy to its execution.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    create_tool: Option<UnresolvedValue>,
    /// Confidence needed to continue from the execution to applying.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    select_tool: Option<UnresolvedValue>,
    /// Confidence needed for a decision of the strategy.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    edit_code: Option<UnresolvedValue>,
    /// Confidence needed for a decision of the execution.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    execute_command: Option<UnresolvedValue>,
    /// Confidence needed to fix failed validations.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    create_file: Option<UnresolvedValue>,
    /// Confidence needed to return from the execution to a new strategy.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    delete_content: Option<UnresolvedValue>,
    /// Confidence needed to return from applying.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    access_network: Option<UnresolvedValue>,
    /// Confidence needed to start child plans.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    install_dependency: Option<UnresolvedValue>,
    /// Confidence needed to retry after a transient failure.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    modify_config: Option<UnresolvedValue>,
    /// Confidence needed to restore a checkpoint.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    approve_plan: Option<UnresolvedValue>,
    /// Whether changes are made only in a sandbox. Default: true.
    #[schemars(with = "Option<bool>")]
    require_sandbox: Option<UnresolvedValue>,
    /// Whether a checkpoint is created before each change. Default: true.
    #[schemars(with = "Option<bool>")]
    require_checkpoints: Option<UnresolvedValue>,
    /// Whether tools that declare themselves unsafe may run. Default: false.
    #[schemars(with = "Option<bool>")]
    allow_unsafe_tools: Option<UnresolvedValue>,
    /// The three flags above, if they are not at the top level.
    #[schemars(with = "Option<FlagsEntry>")]
    safety: Option<Spanned<FlagsEntry>>,
    /// Further limits; `null` for none.
    guards: Option<GuardsEntry>,
    /// Maximum number of retries of a step. Default: 3.
    #[schemars(with = "Option<u32>", range(max = 100))]
    max_retries: Option<UnresolvedValue>,
    /// Maximum number of attempts to fix failed validations. Default: 3.
    #[serde(alias = "validation_retry_limit")]
    #[schemars(with = "Option<u32>", range(max = 100))]
    validation_retries: Option<UnresolvedValue>,
}

/// Flags in the section `safety`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FlagsEntry {
    /// Whether changes are made only in a sandbox.
    #[schemars(with = "Option<bool>")]
    require_sandbox: Option<UnresolvedValue>,
    /// Whether a checkpoint is created before each change.
    #[schemars(with = "Option<bool>")]
    require_checkpoints: Option<UnresolvedValue>,
    /// Whether tools that declare themselves unsafe may run.
    #[schemars(with = "Option<bool>")]
    allow_unsafe_tools: Option<UnresolvedValue>,
}

/// Limits in addition to the thresholds.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GuardsEntry {
    /// Names or patterns of tools that must not be called.
    #[schemars(with = "Option<Vec<String>>")]
    tool_denylist: Option<Vec<Spanned<String>>>,
    /// The only tools that may be called: none if the list is empty, any if it is not given.
    #[schemars(with = "Option<Vec<String>>")]
    tool_allowlist: Option<Vec<Spanned<String>>>,
    /// Maximum number of tool calls in one step.
    #[schemars(with = "Option<u64>")]
    max_tool_calls_per_step: Option<UnresolvedValue>,
    /// Maximum total cost of a plan, in US dollars.
    #[schemars(with = "Option<f64>", range(min = 0))]
    max_total_cost: Option<UnresolvedValue>,
    /// Whether the user must approve every call that changes something.
    #[schemars(with = "Option<bool>")]
    require_approval_for_writes: Option<UnresolvedValue>,
    /// Whether the user must approve applying, whatever the thresholds are.
    #[schemars(with = "Option<bool>")]
    require_approval_for_apply: Option<UnresolvedValue>,
}

/// The JSON schema of such files, for editors.
pub(super) fn schema() -> Value {
    let mut schema = schemars::schema_for!(ProfileEntry).to_value();
    if let Some(fields) = schema.as_object_mut() {
        yaml::add_aliases(
            fields,
            &[("validation_retries", &["validation_retry_limit"])],
        );
        // A file either extends another profile or sets every threshold.
        let thresholds = AutomationGate::ALL.map(AutomationGate::as_str);
        let any = serde_json::json!([{"required": ["extends"]}, {"required": thresholds}]);
        fields.insert("anyOf".to_owned(), any);
    }
    schema
}

/// Looks up the profile that another profile extends; the error is a message for the user.
pub(super) type FindBase<'f> = &'f mut dyn FnMut(&str) -> Result<AutomationProfile, String>;

/// Parses a profile from the text of its file.
pub(super) fn read(
    text: &str,
    file: &Path,
    variables: Variables<'_>,
    base: FindBase<'_>,
) -> Result<AutomationProfile, DefinitionFileError> {
    read_entry(text)
        .and_then(|entry| entry.finish(&Expand { text, variables }, base))
        .map_err(|fault| fault.in_file(file, DefinitionKind::AutomationProfile, text))
}

/// Refuses a new file that changes the threshold of a gate that has no effect, because the author would expect an
/// effect. A file without `extends` must set every gate, so any threshold is accepted there.
pub(super) fn check_idle_gates(
    text: &str,
    file: &Path,
    profile: &AutomationProfile,
    base: &AutomationProfile,
) -> Result<(), DefinitionFileError> {
    let check = || {
        let entry = read_entry(text)?;
        let given = [
            (AutomationGate::StartChildPlans, &entry.install_dependency),
            (AutomationGate::RestoreCheckpoint, &entry.approve_plan),
        ];
        for (gate, given) in given {
            let (Some(place), Some(why)) = (given, gate.reason_without_effect()) else {
                continue;
            };
            let (own, inherited) = (
                profile.thresholds.threshold(gate),
                base.thresholds.threshold(gate),
            );
            if (own - inherited).abs() > f64::EPSILON {
                let message = format!("`{}` has no effect: {why}", gate.as_str());
                return Err(DefinitionFault::rule(
                    Fault::at(place, message),
                    "leave it out",
                ));
            }
        }
        Ok(())
    };
    check().map_err(|fault: DefinitionFault| {
        fault.in_file(file, DefinitionKind::AutomationProfile, text)
    })
}

/// The profile that a text extends, even if the rest of the text is invalid.
pub(super) fn base_of(text: &str) -> Option<String> {
    let probe: Value = yaml::read(text).ok()?;
    probe.get("extends")?.as_str().map(str::to_owned)
}

fn read_entry(text: &str) -> Result<ProfileEntry, DefinitionFault> {
    let probe: Value = yaml::read(text)?;
    if !probe.is_object() {
        let message = "the file is not a map with the fields of an automation profile";
        return Err(Fault::new(message)
            .fixed_by("write `name: …`, `extends: trusted` and the differences, one per line")
            .into());
    }
    let entry: ProfileEntry = yaml::read(text)?;
    let header = entry.cleveragents.as_ref();
    yaml::check_version(header.and_then(|header| header.version.as_ref()))?;
    yaml::check_version(entry.schema_version.as_ref())?;
    Ok(entry)
}

impl ProfileEntry {
    fn finish(
        mut self,
        expand: &Expand<'_>,
        find: FindBase<'_>,
    ) -> Result<AutomationProfile, DefinitionFault> {
        expand.text(&mut self.name.value)?;
        let name = self.full_name()?;
        let base = self.base(expand, &name, find)?;
        let base = base.as_ref();
        let thresholds = self.thresholds(expand, base)?;
        let description = match &mut self.description {
            Some(description) => {
                expand.text(&mut description.value)?;
                description.value.trim().to_owned()
            }
            None => String::new(),
        };
        self.lift_flags()?;
        let flag = |given: Option<UnresolvedValue>, inherited: Option<bool>, default: bool| {
            let given = resolve::<bool>(given, expand, "`true` or `false`")?;
            Ok::<bool, DefinitionFault>(given.or(inherited).unwrap_or(default))
        };
        Ok(AutomationProfile {
            name,
            description,
            thresholds,
            require_sandbox: flag(
                self.require_sandbox.take(),
                base.map(|base| base.require_sandbox),
                true,
            )?,
            require_checkpoints: flag(
                self.require_checkpoints.take(),
                base.map(|base| base.require_checkpoints),
                true,
            )?,
            allow_unsafe_tools: flag(
                self.allow_unsafe_tools.take(),
                base.map(|base| base.allow_unsafe_tools),
                false,
            )?,
            guards: match self.guards.take() {
                Some(guards) => Some(guards.finish(expand)?),
                None => base.and_then(|base| base.guards.clone()),
            },
            max_retries: retries(self.max_retries.take(), expand)?
                .or_else(|| base.map(|base| base.max_retries))
                .unwrap_or(DEFAULT_RETRIES),
            validation_retries: retries(self.validation_retries.take(), expand)?
                .or_else(|| base.map(|base| base.validation_retries))
                .unwrap_or(DEFAULT_RETRIES),
        })
    }

    fn full_name(&self) -> Result<String, DefinitionFault> {
        let at = |message: String| Fault::at(&self.name, message);
        let written = self.name.value.trim().to_lowercase();
        if AutomationProfile::find_built_in(&written).is_some() {
            return Err(DefinitionFault::rule(
                at(format!("`{written}` is built in")),
                format!(
                    "choose another name, such as `local/{written}`, and write `extends: {written}`"
                ),
            ));
        }
        let fix = "write `namespace/name` in lower case, such as `local/careful`";
        let name: Name = written
            .parse()
            .map_err(|error: cleveragents_domain::NameError| {
                DefinitionFault::rule(at(error.to_string()), fix)
            })?;
        name.require_free_namespace()
            .map_err(|error| DefinitionFault::rule(at(error.to_string()), fix))?;
        Ok(name.to_string())
    }

    fn base(
        &mut self,
        expand: &Expand<'_>,
        name: &str,
        find: FindBase<'_>,
    ) -> Result<Option<AutomationProfile>, DefinitionFault> {
        let Some(extends) = &mut self.extends else {
            return Ok(None);
        };
        expand.text(&mut extends.value)?;
        if AutomationProfile::complete_name(&extends.value) == name {
            return Err(DefinitionFault::rule(
                Fault::at(extends, "a profile cannot extend itself"),
                "name another one, such as `trusted`",
            ));
        }
        find(&extends.value).map(Some).map_err(|why| {
            let names = AutomationProfile::built_in_names();
            let fix = match nearest::best(&extends.value, names) {
                Some(nearest) => hint!("did you mean `{}`?", nearest),
                None => hint!("{} lists the profiles", suggest::automation_profile_list()),
            };
            DefinitionFault::rule(Fault::at(extends, why), fix)
        })
    }

    fn thresholds(
        &mut self,
        expand: &Expand<'_>,
        base: Option<&AutomationProfile>,
    ) -> Result<Thresholds, DefinitionFault> {
        let given = [
            self.decompose_task.take(),
            self.create_tool.take(),
            self.select_tool.take(),
            self.edit_code.take(),
            self.execute_command.take(),
            self.create_file.take(),
            self.delete_content.take(),
            self.access_network.take(),
            self.install_dependency.take(),
            self.modify_config.take(),
            self.approve_plan.take(),
        ];
        let mut values = [0.0; AutomationGate::ALL.len()];
        let mut missing = Vec::new();
        for ((gate, given), value) in AutomationGate::ALL.into_iter().zip(given).zip(&mut values) {
            let place = given.clone();
            let expected = "a number from 0 (never ask) to 1 (always ask)";
            match (resolve::<f64>(given, expand, expected)?, place, base) {
                (Some(number), Some(place), _) if !is_threshold(number) => {
                    let message = format!("`{}` cannot be {number}", gate.as_str());
                    return Err(DefinitionFault::rule(
                        Fault::at(&place, message),
                        format!("write {expected}"),
                    ));
                }
                (Some(number), ..) => *value = number,
                (None, _, Some(base)) => *value = base.thresholds.threshold(gate),
                (None, _, None) => missing.push(gate.as_str()),
            }
        }
        let refused = |message: String| {
            DefinitionFault::rule(
                Fault::at(&self.name, message),
                "set all of them, or extend a profile with `extends: trusted`",
            )
        };
        if !missing.is_empty() {
            let message = format!("these thresholds are missing: {}", missing.join(", "));
            return Err(refused(message));
        }
        Thresholds::new(values)
            .ok_or_else(|| refused("a threshold is not between 0 and 1".to_owned()))
    }

    /// Moves the flags from `safety` to the top level.
    fn lift_flags(&mut self) -> Result<(), DefinitionFault> {
        let Some(nested) = &mut self.safety else {
            return Ok(());
        };
        let flags = std::mem::take(&mut nested.value);
        for (name, top, nested) in [
            (
                "require_sandbox",
                &mut self.require_sandbox,
                flags.require_sandbox,
            ),
            (
                "require_checkpoints",
                &mut self.require_checkpoints,
                flags.require_checkpoints,
            ),
            (
                "allow_unsafe_tools",
                &mut self.allow_unsafe_tools,
                flags.allow_unsafe_tools,
            ),
        ] {
            match (&top, nested) {
                (Some(_), Some(nested)) => {
                    return Err(DefinitionFault::rule(
                        Fault::at(
                            &nested,
                            format!("`{name}` is set here and at the top of the file"),
                        ),
                        "remove one of them",
                    ));
                }
                (None, Some(nested)) => *top = Some(nested),
                (_, None) => {}
            }
        }
        Ok(())
    }
}

fn retries(
    given: Option<UnresolvedValue>,
    expand: &Expand<'_>,
) -> Result<Option<u32>, DefinitionFault> {
    let place = given.clone();
    let expected = "a whole number from 0 to 100";
    let number = resolve::<u32>(given, expand, expected)?;
    if let (Some(number), Some(place)) = (number, place)
        && number > MAX_RETRIES
    {
        let message = format!("`{number}` is not {expected}");
        return Err(DefinitionFault::rule(
            Fault::at(&place, message),
            format!("write {expected}"),
        ));
    }
    Ok(number)
}

impl GuardsEntry {
    fn finish(self, expand: &Expand<'_>) -> Result<AutomationGuard, DefinitionFault> {
        let flag = |given: Option<UnresolvedValue>| {
            let given = resolve::<bool>(given, expand, "`true` or `false`")?;
            Ok::<bool, DefinitionFault>(given.unwrap_or(false))
        };
        let place = self.max_total_cost.clone();
        let dollars = resolve::<f64>(self.max_total_cost, expand, "an amount of US dollars")?;
        let max_total_cost = match (dollars, place) {
            (Some(dollars), Some(place)) => {
                let amount = MicroUsd::from_usd_rounded_up(dollars).ok_or_else(|| {
                    let message = format!("`{dollars}` is not an amount of US dollars");
                    DefinitionFault::rule(Fault::at(&place, message), "write it like 0.50")
                })?;
                Some(amount)
            }
            _ => None,
        };
        Ok(AutomationGuard {
            tool_denylist: patterns(self.tool_denylist, expand)?.unwrap_or_default(),
            tool_allowlist: patterns(self.tool_allowlist, expand)?,
            max_tool_calls_per_step: resolve::<u64>(
                self.max_tool_calls_per_step,
                expand,
                "a whole number",
            )?,
            max_total_cost,
            require_approval_for_writes: flag(self.require_approval_for_writes)?,
            require_approval_for_apply: flag(self.require_approval_for_apply)?,
        })
    }
}

fn patterns(
    written: Option<Vec<Spanned<String>>>,
    expand: &Expand<'_>,
) -> Result<Option<Vec<String>>, DefinitionFault> {
    let read = |mut item: Spanned<String>| {
        expand.text(&mut item.value)?;
        let pattern = item.value.parse::<ToolPattern>();
        let pattern = pattern.map_err(|error: RuleError| {
            DefinitionFault::rule(
                Fault::at(&item, error.to_string()),
                "write the full name of a tool or a pattern such as `builtin/git-*`",
            )
        })?;
        Ok(pattern.to_string())
    };
    written
        .map(|list| list.into_iter().map(read).collect())
        .transpose()
}

#[cfg(test)]
mod tests;
