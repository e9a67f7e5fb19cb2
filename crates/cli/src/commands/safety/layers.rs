//! Safety layers of a command: options, environment variables, project file and user file.
//! The crate `application` combines them.

use std::path::{Path, PathBuf};

use cleveragents_application::{
    EffectiveSafety, SafetyLayer, SafetySelection, find_safety_profile,
};
use cleveragents_tools::{AllowList, Guards, Safety, SafetyProfile, ToolPattern};

use crate::config::{ConfigLevel, Key, Source, Value, keys, tools};
use crate::output::CommandError;
use crate::process_configuration::ProcessConfiguration;

fn profile_layer(level: ConfigLevel, source: String, safety: Safety) -> SafetyLayer {
    SafetyLayer {
        level: level.as_str().to_owned(),
        source,
        description: format!("profile {}", safety.name),
        is_chosen_profile: level != ConfigLevel::Project,
        profile: safety.profile,
        guards: safety.guards,
    }
}

fn guards_layer(
    level: ConfigLevel,
    source: String,
    description: String,
    guards: Guards,
) -> SafetyLayer {
    SafetyLayer {
        level: level.as_str().to_owned(),
        source,
        description,
        is_chosen_profile: false,
        profile: SafetyProfile::unrestricted(),
        guards,
    }
}

/// Combined limits of options and configuration.
pub(crate) fn safety_in_force(
    process: &ProcessConfiguration,
    selection: &SafetySelection,
) -> Result<EffectiveSafety, CommandError> {
    let mut profiles = Vec::new();
    if let Some(text) = &selection.safety {
        let safety = named_profile(process, text, None)?;
        profiles.push(profile_layer(
            ConfigLevel::Flag,
            "--safety".to_owned(),
            safety,
        ));
    }
    for (level, source, value) in levels(process, &keys::SAFETY_PROFILE)? {
        let text = value.as_text().unwrap_or_default();
        let safety = named_profile(process, text, Some((level, &source)))?;
        profiles.push(profile_layer(level, source.to_string(), safety));
    }
    let mut guards = guards_of_options(selection)?;
    guards.extend(guards_of_configuration(process)?);
    Ok(EffectiveSafety::combine(profiles, guards))
}

/// Reads a profile by name or from a file. `origin` is the configuration source that names the profile;
/// `None` for the command line.
pub(crate) fn named_profile(
    process: &ProcessConfiguration,
    text: &str,
    origin: Option<(ConfigLevel, &Source)>,
) -> Result<Safety, CommandError> {
    let location = origin.map_or_else(String::new, |(_, source)| format!(" ({source})"));
    Ok(find_safety_profile(
        text,
        &base_folder(process, origin),
        &location,
    )?)
}

/// Base folder of relative paths: project, home or working folder.
fn base_folder(process: &ProcessConfiguration, origin: Option<(ConfigLevel, &Source)>) -> PathBuf {
    let folder = match origin {
        Some((ConfigLevel::Project, Source::File { path, .. })) => {
            path.parent().and_then(Path::parent)
        }
        Some((_, Source::File { path, .. })) => path.parent(),
        _ => process.environment.working_folder(),
    };
    folder.unwrap_or_else(|| Path::new("/")).to_owned()
}

/// Values of a key at each level of the configuration.
fn levels(
    process: &ProcessConfiguration,
    key: &'static Key,
) -> Result<Vec<(ConfigLevel, Source, Value)>, CommandError> {
    let chain = process.configuration.resolve_key(key)?.chain;
    let as_tuple = |step: crate::config::Step| Some((step.level, step.source?, step.value?));
    Ok(chain.into_iter().filter_map(as_tuple).collect())
}

fn guards_of_options(options: &SafetySelection) -> Result<Vec<SafetyLayer>, CommandError> {
    let patterns = |texts: &[String]| {
        texts
            .iter()
            .map(|text| text.parse::<ToolPattern>())
            .collect::<Result<Vec<_>, _>>()
    };
    let mut collected = Vec::new();
    let mut option = |name: &str, (description, guards)| {
        collected.push(guards_layer(
            ConfigLevel::Flag,
            name.to_owned(),
            description,
            guards,
        ));
    };
    if !options.deny_tool.is_empty() {
        option("--deny-tool", deny_guards(patterns(&options.deny_tool)?));
    }
    if !options.allow_tool.is_empty() {
        option("--allow-tool", allow_guards(patterns(&options.allow_tool)?));
    }
    if let Some(max_calls) = options.max_calls {
        option("--max-calls", call_limit_guards(max_calls));
    }
    if options.approve_writes {
        option("--approve-writes", approval_guards());
    }
    Ok(collected)
}

/// Converts the value of a key to guards; `None` if it sets no limit.
type Reader<'r> = &'r dyn Fn(&Value) -> Option<(String, Guards)>;

fn guards_of_configuration(
    process: &ProcessConfiguration,
) -> Result<Vec<SafetyLayer>, CommandError> {
    let list = |value: &Value| value.as_text().and_then(tools).unwrap_or_default();
    let readers: [(&'static Key, Reader<'_>); 4] = [
        (&keys::SAFETY_DENY_TOOLS, &|value| {
            Some(deny_guards(list(value)))
        }),
        (&keys::SAFETY_ALLOW_TOOLS, &|value| {
            Some(allow_guards(list(value)))
        }),
        (&keys::SAFETY_MAX_CALLS, &|value| {
            value.as_integer().map(call_limit_guards)
        }),
        (&keys::SAFETY_APPROVE_WRITES, &|value| {
            value
                .as_flag()
                .filter(|is_set| *is_set)
                .map(|_| approval_guards())
        }),
    ];
    let mut collected = Vec::new();
    for (key, read) in readers {
        for (level, source, value) in levels(process, key)? {
            if let Some((description, guards)) = read(&value) {
                collected.push(guards_layer(level, source.to_string(), description, guards));
            }
        }
    }
    Ok(collected)
}

fn deny_guards(denylist: Vec<ToolPattern>) -> (String, Guards) {
    let guards = Guards {
        denylist,
        ..Guards::default()
    };
    (format!("deny {}", listed(&guards.denylist)), guards)
}

fn allow_guards(patterns: Vec<ToolPattern>) -> (String, Guards) {
    let description = format!("allow only {}", listed(&patterns));
    let guards = Guards {
        allowlist: AllowList::only(patterns),
        ..Guards::default()
    };
    (description, guards)
}

fn call_limit_guards(max_calls: u64) -> (String, Guards) {
    let guards = Guards {
        max_tool_calls_per_step: Some(max_calls),
        ..Guards::default()
    };
    (format!("at most {max_calls} calls per response"), guards)
}

fn approval_guards() -> (String, Guards) {
    let guards = Guards {
        require_approval_for_writes: true,
        ..Guards::default()
    };
    ("ask before every write".to_owned(), guards)
}

/// Comma-separated patterns.
pub(crate) fn listed(patterns: &[ToolPattern]) -> String {
    let texts: Vec<String> = patterns.iter().map(ToolPattern::to_string).collect();
    texts.join(", ")
}
