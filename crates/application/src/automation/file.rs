//! Reading an automation profile from YAML.
//!
//! Thresholds and flags stand at the top. A file gives every threshold, or says with `extends` which
//! profile it builds on; then it gives only what differs.

use std::path::Path;

use cleveragents_domain::yaml::{self, Expand, Fault, Variables};
use cleveragents_domain::{
    AutomationGate, AutomationGuard, AutomationProfile, DEFAULT_RETRIES, MicroUsd, Name,
    Thresholds, is_threshold, nearest,
};
use cleveragents_tools::custom::{Header, Late, resolve};
use cleveragents_tools::{About, Complaint, FileError, RuleError, ToolPattern};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

/// The most often something is tried again.
const MOST_RETRIES: u32 = 100;

/// The file of an automation profile.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProfileEntry {
    cleveragents: Option<Header>,
    /// The version of the format: 3.0.
    #[schemars(with = "Option<Value>")]
    schema_version: Option<Spanned<Value>>,
    /// What it is called: `namespace/name`; in `local/` without a namespace.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// What it is for, in a line.
    #[schemars(with = "Option<String>")]
    description: Option<Spanned<String>>,
    /// The profile it builds on: what is left out here is as there.
    #[schemars(with = "Option<String>")]
    extends: Option<Spanned<String>>,
    /// How sure a plan must be to begin its strategy by itself, from 0 (always) to 1 (never).
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    decompose_task: Option<Late>,
    /// How sure it must be to go from the strategy to its execution.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    create_tool: Option<Late>,
    /// How sure it must be to go from the execution to applying.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    select_tool: Option<Late>,
    /// How sure it must be of a decision of the strategy.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    edit_code: Option<Late>,
    /// How sure it must be of a decision of the execution.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    execute_command: Option<Late>,
    /// How sure it must be to mend what failed validations found.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    create_file: Option<Late>,
    /// How sure it must be to go back from the execution to a new strategy.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    delete_content: Option<Late>,
    /// How sure it must be to go back from applying.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    access_network: Option<Late>,
    /// How sure it must be to begin child plans.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    install_dependency: Option<Late>,
    /// How sure it must be to try again what failed for a passing reason.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    modify_config: Option<Late>,
    /// How sure it must be to restore a checkpoint.
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    approve_plan: Option<Late>,
    /// Whether changes are made in a sandbox only; they are when not given.
    #[schemars(with = "Option<bool>")]
    require_sandbox: Option<Late>,
    /// Whether a checkpoint comes before each change; it does when not given.
    #[schemars(with = "Option<bool>")]
    require_checkpoints: Option<Late>,
    /// Whether tools may run that call themselves unsafe; they may not when not given.
    #[schemars(with = "Option<bool>")]
    allow_unsafe_tools: Option<Late>,
    /// The three flags, when they do not stand at the top.
    #[schemars(with = "Option<FlagsEntry>")]
    safety: Option<Spanned<FlagsEntry>>,
    /// Further limits; `null` for none.
    guards: Option<GuardsEntry>,
    /// How often a step is tried again; 3 when not given.
    #[schemars(with = "Option<u32>", range(max = 100))]
    max_retries: Option<Late>,
    /// How often what failed validations found is mended; 3 when not given.
    #[serde(alias = "validation_retry_limit")]
    #[schemars(with = "Option<u32>", range(max = 100))]
    validation_retries: Option<Late>,
}

/// The flags, where they stand apart.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FlagsEntry {
    /// Whether changes are made in a sandbox only.
    #[schemars(with = "Option<bool>")]
    require_sandbox: Option<Late>,
    /// Whether a checkpoint comes before each change.
    #[schemars(with = "Option<bool>")]
    require_checkpoints: Option<Late>,
    /// Whether tools may run that call themselves unsafe.
    #[schemars(with = "Option<bool>")]
    allow_unsafe_tools: Option<Late>,
}

/// Limits beside the thresholds.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GuardsEntry {
    /// Tools that may not be called, by names or patterns.
    #[schemars(with = "Option<Vec<String>>")]
    tool_denylist: Option<Vec<Spanned<String>>>,
    /// The only tools that may be called; none when the list is empty, any when it is not given.
    #[schemars(with = "Option<Vec<String>>")]
    tool_allowlist: Option<Vec<Spanned<String>>>,
    /// How many tools may be called in one step.
    #[schemars(with = "Option<u64>")]
    max_tool_calls_per_step: Option<Late>,
    /// What a plan may cost altogether, in US dollars.
    #[schemars(with = "Option<f64>", range(min = 0))]
    max_total_cost: Option<Late>,
    /// Whether a person agrees to every call that changes something.
    #[schemars(with = "Option<bool>")]
    require_approval_for_writes: Option<Late>,
    /// Whether a person agrees to applying, whatever the thresholds say.
    #[schemars(with = "Option<bool>")]
    require_approval_for_apply: Option<Late>,
}

/// The JSON schema of such files, for editors.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(ProfileEntry).to_value();
    if let Some(fields) = schema.as_object_mut() {
        yaml::add_aliases(
            fields,
            &[("validation_retries", &["validation_retry_limit"])],
        );
        // Either it builds on another profile, or it says everything.
        let thresholds = AutomationGate::ALL.map(AutomationGate::as_str);
        let any = serde_json::json!([{"required": ["extends"]}, {"required": thresholds}]);
        fields.insert("anyOf".to_owned(), any);
    }
    schema
}

/// Finds the profile that another one builds on; what is wrong with it is told in a sentence.
pub(super) type FindBase<'f> = &'f mut dyn FnMut(&str) -> Result<AutomationProfile, String>;

/// Reads a profile from the text of its file.
pub(super) fn read(
    text: &str,
    file: &Path,
    variables: Variables<'_>,
    base: FindBase<'_>,
) -> Result<AutomationProfile, FileError> {
    read_entry(text)
        .and_then(|entry| entry.finish(&Expand { text, variables }, base))
        .map_err(|complaint| complaint.in_file(file, About::Profile))
}

/// Refuses a new file that changes a gate without effect: whoever wrote it expects something of it. A file that
/// builds on no other has to name all gates, so there their values are taken as they are.
pub(super) fn check_idle_gates(
    text: &str,
    file: &Path,
    profile: &AutomationProfile,
    base: &AutomationProfile,
) -> Result<(), FileError> {
    let check = || {
        let entry = read_entry(text)?;
        let given = [
            (AutomationGate::StartChildPlans, &entry.install_dependency),
            (AutomationGate::RestoreCheckpoint, &entry.approve_plan),
        ];
        for (gate, given) in given {
            let (Some(place), Some(why)) = (given, gate.idle_because()) else {
                continue;
            };
            let (own, inherited) = (
                profile.thresholds.threshold(gate),
                base.thresholds.threshold(gate),
            );
            if (own - inherited).abs() > f64::EPSILON {
                let message = format!("`{}` has no effect: {why}", gate.as_str());
                return Err(Complaint::rule(Fault::at(place, message), "leave it out"));
            }
        }
        Ok(())
    };
    check().map_err(|complaint: Complaint| complaint.in_file(file, About::Profile))
}

/// What a profile builds on, by what its text says, whatever else is wrong with it.
pub(super) fn base_of(text: &str) -> Option<String> {
    let probe: Value = yaml::read(text).ok()?;
    probe.get("extends")?.as_str().map(str::to_owned)
}

fn read_entry(text: &str) -> Result<ProfileEntry, Complaint> {
    let probe: Value = yaml::read(text)?;
    if !probe.is_object() {
        let message = "the file does not hold a map with the fields of an automation profile";
        return Err(Fault::new(message)
            .fixed_by("write `name: …`, `extends: trusted` and what differs, one a line")
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
    ) -> Result<AutomationProfile, Complaint> {
        expand.text(&mut self.name.value)?;
        let name = self.whole_name()?;
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
        let flag = |given: Option<Late>, inherited: Option<bool>, careful: bool| {
            let given = resolve::<bool>(given, expand, "`true` or `false`")?;
            Ok::<bool, Complaint>(given.or(inherited).unwrap_or(careful))
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

    fn whole_name(&self) -> Result<String, Complaint> {
        let at = |message: String| Fault::at(&self.name, message);
        let written = self.name.value.trim().to_lowercase();
        if AutomationProfile::find_built_in(&written).is_some() {
            return Err(Complaint::rule(
                at(format!("`{written}` is part of the program")),
                format!(
                    "choose another name, such as `local/{written}`, and write `extends: {written}`"
                ),
            ));
        }
        let fix = "write `namespace/name` in lower case, such as `local/careful`";
        let name: Name = written
            .parse()
            .map_err(|error: cleveragents_domain::NameError| {
                Complaint::rule(at(error.to_string()), fix)
            })?;
        name.require_free_namespace()
            .map_err(|error| Complaint::rule(at(error.to_string()), fix))?;
        Ok(name.to_string())
    }

    fn base(
        &mut self,
        expand: &Expand<'_>,
        name: &str,
        find: FindBase<'_>,
    ) -> Result<Option<AutomationProfile>, Complaint> {
        let Some(extends) = &mut self.extends else {
            return Ok(None);
        };
        expand.text(&mut extends.value)?;
        if super::service::whole_name(&extends.value) == name {
            return Err(Complaint::rule(
                Fault::at(extends, "a profile cannot build on itself"),
                "name another one, such as `trusted`",
            ));
        }
        find(&extends.value).map(Some).map_err(|why| {
            let names = AutomationProfile::built_in_names();
            let fix = match nearest::best(&extends.value, names) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "`agents automation-profile list` shows what there is".to_owned(),
            };
            Complaint::rule(Fault::at(extends, why), fix)
        })
    }

    fn thresholds(
        &mut self,
        expand: &Expand<'_>,
        base: Option<&AutomationProfile>,
    ) -> Result<Thresholds, Complaint> {
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
            let expected = "a number from 0 (always by itself) to 1 (always ask)";
            match (resolve::<f64>(given, expand, expected)?, place, base) {
                (Some(number), Some(place), _) if !is_threshold(number) => {
                    let message = format!("`{}` cannot be {number}", gate.as_str());
                    return Err(Complaint::rule(
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
            Complaint::rule(
                Fault::at(&self.name, message),
                "give all of them, or build on a profile with `extends: trusted`",
            )
        };
        if !missing.is_empty() {
            let message = format!("these thresholds are missing: {}", missing.join(", "));
            return Err(refused(message));
        }
        Thresholds::new(values).ok_or_else(|| refused("a threshold is not from 0 to 1".to_owned()))
    }

    /// Takes the flags from `safety` to the top.
    fn lift_flags(&mut self) -> Result<(), Complaint> {
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
                    return Err(Complaint::rule(
                        Fault::at(
                            &nested,
                            format!("`{name}` stands here and at the top of the file"),
                        ),
                        "leave one of them out",
                    ));
                }
                (None, Some(nested)) => *top = Some(nested),
                (_, None) => {}
            }
        }
        Ok(())
    }
}

fn retries(given: Option<Late>, expand: &Expand<'_>) -> Result<Option<u32>, Complaint> {
    let place = given.clone();
    let expected = "a whole number from 0 to 100";
    let number = resolve::<u32>(given, expand, expected)?;
    if let (Some(number), Some(place)) = (number, place)
        && number > MOST_RETRIES
    {
        let message = format!("`{number}` is not {expected}");
        return Err(Complaint::rule(
            Fault::at(&place, message),
            format!("write {expected}"),
        ));
    }
    Ok(number)
}

impl GuardsEntry {
    fn finish(self, expand: &Expand<'_>) -> Result<AutomationGuard, Complaint> {
        let flag = |given: Option<Late>| {
            let given = resolve::<bool>(given, expand, "`true` or `false`")?;
            Ok::<bool, Complaint>(given.unwrap_or(false))
        };
        let place = self.max_total_cost.clone();
        let dollars = resolve::<f64>(self.max_total_cost, expand, "an amount of US dollars")?;
        let max_total_cost = match (dollars, place) {
            (Some(dollars), Some(place)) => {
                let amount = MicroUsd::from_usd_rounded_up(dollars).ok_or_else(|| {
                    let message = format!("`{dollars}` is not an amount of US dollars");
                    Complaint::rule(Fault::at(&place, message), "write it like 0.50")
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
) -> Result<Option<Vec<String>>, Complaint> {
    let read = |mut one: Spanned<String>| {
        expand.text(&mut one.value)?;
        let pattern = one.value.parse::<ToolPattern>();
        let pattern = pattern.map_err(|error: RuleError| {
            Complaint::rule(
                Fault::at(&one, error.to_string()),
                "write the whole name of a tool or a pattern such as `builtin/git-*`",
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
