//! The safety layers of this command: options, variables, the file of the project and the file of the user. How they
//! combine is decided in `application`.

use std::path::{Path, PathBuf};

use cleveragents_application::{
    EffectiveSafety, SafetyLayer, SafetySelection, find_safety_profile,
};
use cleveragents_tools::{AllowList, Guards, Safety, SafetyProfile, ToolPattern};

use crate::config::{Key, Level, Source, Value, keys, tools};
use crate::context::Context;
use crate::output::CommandError;

fn profile_layer(level: Level, source: String, safety: Safety) -> SafetyLayer {
    SafetyLayer {
        level: level.as_str().to_owned(),
        source,
        says: format!("profile {}", safety.name),
        is_chosen_profile: level != Level::Project,
        profile: safety.profile,
        guards: safety.guards,
    }
}

fn guards_layer(level: Level, source: String, says: String, guards: Guards) -> SafetyLayer {
    SafetyLayer {
        level: level.as_str().to_owned(),
        source,
        says,
        is_chosen_profile: false,
        profile: SafetyProfile::demanding_nothing(),
        guards,
    }
}

/// What options and configuration demand together.
pub(crate) fn safety_in_force(
    context: &Context,
    selection: &SafetySelection,
) -> Result<EffectiveSafety, CommandError> {
    let mut profiles = Vec::new();
    if let Some(text) = &selection.safety {
        let safety = named_profile(context, text, None)?;
        profiles.push(profile_layer(Level::Flag, "--safety".to_owned(), safety));
    }
    for (level, source, value) in levels(context, &keys::SAFETY_PROFILE)? {
        let text = value.as_text().unwrap_or_default();
        let safety = named_profile(context, text, Some((level, &source)))?;
        profiles.push(profile_layer(level, source.to_string(), safety));
    }
    let mut guards = guards_of_options(selection)?;
    guards.extend(guards_of_configuration(context)?);
    Ok(EffectiveSafety::combine(profiles, guards))
}

/// A profile by its name, or from a file. `origin` is where its name was found, when not on the command line.
pub(crate) fn named_profile(
    context: &Context,
    text: &str,
    origin: Option<(Level, &Source)>,
) -> Result<Safety, CommandError> {
    let place = origin.map_or_else(String::new, |(_, source)| format!(" ({source})"));
    Ok(find_safety_profile(
        text,
        &base_folder(context, origin),
        &place,
    )?)
}

/// The folder that a path is relative to: that of the project, the home, or the working folder.
fn base_folder(context: &Context, origin: Option<(Level, &Source)>) -> PathBuf {
    let folder = match origin {
        Some((Level::Project, Source::File { path, .. })) => path.parent().and_then(Path::parent),
        Some((_, Source::File { path, .. })) => path.parent(),
        _ => context.environment.working_folder(),
    };
    folder.unwrap_or_else(|| Path::new("/")).to_owned()
}

/// What the levels of the configuration set a key to.
fn levels(
    context: &Context,
    key: &'static Key,
) -> Result<Vec<(Level, Source, Value)>, CommandError> {
    let chain = context.configuration.resolve_key(key)?.chain;
    let said = |step: crate::config::Step| Some((step.level, step.source?, step.value?));
    Ok(chain.into_iter().filter_map(said).collect())
}

fn guards_of_options(options: &SafetySelection) -> Result<Vec<SafetyLayer>, CommandError> {
    let patterns = |given: &[String]| {
        given
            .iter()
            .map(|text| text.parse::<ToolPattern>())
            .collect::<Result<Vec<_>, _>>()
    };
    let mut said = Vec::new();
    let mut option = |name: &str, (says, guards)| {
        said.push(guards_layer(Level::Flag, name.to_owned(), says, guards));
    };
    if !options.deny_tool.is_empty() {
        option("--deny-tool", denying(patterns(&options.deny_tool)?));
    }
    if !options.allow_tool.is_empty() {
        option("--allow-tool", allowing(patterns(&options.allow_tool)?));
    }
    if let Some(most) = options.max_calls {
        option("--max-calls", calling(most));
    }
    if options.approve_writes {
        option("--approve-writes", asking());
    }
    Ok(said)
}

/// What the value of a key means; nothing when it demands nothing.
type Reader<'r> = &'r dyn Fn(&Value) -> Option<(String, Guards)>;

fn guards_of_configuration(context: &Context) -> Result<Vec<SafetyLayer>, CommandError> {
    let list = |value: &Value| value.as_text().and_then(tools).unwrap_or_default();
    let readers: [(&'static Key, Reader<'_>); 4] = [
        (&keys::SAFETY_DENY_TOOLS, &|value| {
            Some(denying(list(value)))
        }),
        (&keys::SAFETY_ALLOW_TOOLS, &|value| {
            Some(allowing(list(value)))
        }),
        (&keys::SAFETY_MAX_CALLS, &|value| {
            value.as_integer().map(calling)
        }),
        (&keys::SAFETY_APPROVE_WRITES, &|value| {
            value.as_flag().filter(|asks| *asks).map(|_| asking())
        }),
    ];
    let mut said = Vec::new();
    for (key, read) in readers {
        for (level, source, value) in levels(context, key)? {
            if let Some((says, guards)) = read(&value) {
                said.push(guards_layer(level, source.to_string(), says, guards));
            }
        }
    }
    Ok(said)
}

fn denying(denylist: Vec<ToolPattern>) -> (String, Guards) {
    let guards = Guards {
        denylist,
        ..Guards::default()
    };
    (format!("deny {}", listed(&guards.denylist)), guards)
}

fn allowing(patterns: Vec<ToolPattern>) -> (String, Guards) {
    let says = format!("allow only {}", listed(&patterns));
    let guards = Guards {
        allowlist: AllowList::only(patterns),
        ..Guards::default()
    };
    (says, guards)
}

fn calling(most: u64) -> (String, Guards) {
    let guards = Guards {
        max_tool_calls_per_step: Some(most),
        ..Guards::default()
    };
    (format!("at most {most} calls after one answer"), guards)
}

fn asking() -> (String, Guards) {
    let guards = Guards {
        require_approval_for_writes: true,
        ..Guards::default()
    };
    ("ask before every change".to_owned(), guards)
}

/// Patterns with commas between them.
pub(crate) fn listed(patterns: &[ToolPattern]) -> String {
    let texts: Vec<String> = patterns.iter().map(ToolPattern::to_string).collect();
    texts.join(", ")
}
