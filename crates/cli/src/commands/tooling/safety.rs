//! Which safety profile and guards are in force, and who said so.
//!
//! Every level that says something is heard: options, variables, the file of the project and the
//! file of the person. What holds is what all of them allow, so nobody can allow again what another
//! denies. Somebody who chooses no profile has the standard one. The file of a project comes with the
//! code that is worked on, so it is no choice of the person's: it narrows the standard profile too.

use std::path::{Path, PathBuf};

use cleveragents_domain::{Code, nearest};
use cleveragents_tools::{AllowList, Guards, STANDARD, Safety, SafetyProfile, ToolPattern};
use serde::Serialize;
use serde_json::json;

use crate::arguments::SafetyOptions;
use crate::commands::read_definition;
use crate::config::{Key, Level, Source, Value, keys, tools};
use crate::context::Context;
use crate::output::CommandError;

/// What one level says.
#[derive(Debug, Serialize)]
pub(crate) struct Said {
    pub(crate) level: Level,
    /// The option, variable or line of a file.
    pub(crate) source: String,
    /// What it says, in a few words.
    pub(crate) says: String,
    #[serde(skip)]
    profile: SafetyProfile,
    #[serde(skip)]
    guards: Guards,
}

impl Said {
    fn profile(level: Level, source: String, safety: Safety) -> Self {
        Self {
            level,
            source,
            says: format!("profile {}", safety.name),
            profile: safety.profile,
            guards: safety.guards,
        }
    }

    fn guards(level: Level, source: String, says: String, guards: Guards) -> Self {
        Self {
            level,
            source,
            says,
            profile: SafetyProfile::demanding_nothing(),
            guards,
        }
    }
}

/// What is in force.
#[derive(Debug, Serialize)]
pub(crate) struct InForce {
    pub(crate) profile: SafetyProfile,
    pub(crate) guards: Guards,
    /// Who said what, the strongest level first.
    pub(crate) said: Vec<Said>,
}

/// Gathers what options and configuration say.
pub(crate) fn in_force(
    context: &Context,
    options: &SafetyOptions,
) -> Result<InForce, CommandError> {
    let mut said = Vec::new();
    if let Some(text) = &options.safety {
        let safety = named(context, text, None)?;
        said.push(Said::profile(Level::Flag, "--safety".to_owned(), safety));
    }
    for (level, source, value) in levels(context, &keys::SAFETY_PROFILE)? {
        let text = value.as_text().unwrap_or_default();
        let safety = named(context, text, Some((level, &source)))?;
        said.push(Said::profile(level, source.to_string(), safety));
    }
    let is_chosen = said.iter().any(|one| one.level != Level::Project);
    if !is_chosen && let Some(standard) = Safety::find(STANDARD) {
        said.push(Said::profile(
            Level::Default,
            Source::BuiltIn.to_string(),
            standard,
        ));
    }
    said.extend(guards_of_options(options)?);
    said.extend(guards_of_configuration(context)?);
    let mut profile = SafetyProfile::demanding_nothing();
    let mut guards = Guards::default();
    for one in &said {
        profile.narrow(&one.profile);
        guards.narrow(&one.guards);
    }
    Ok(InForce {
        profile,
        guards,
        said,
    })
}

/// A profile by its name, or that of a file. `origin` is where its name stands, when not on the
/// command line.
pub(crate) fn named(
    context: &Context,
    text: &str,
    origin: Option<(Level, &Source)>,
) -> Result<Safety, CommandError> {
    if let Some(safety) = Safety::find(text) {
        return Ok(safety);
    }
    let path = Path::new(text);
    let is_file = text.contains('/')
        || path
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml");
    if !is_file {
        return Err(unknown(text, origin));
    }
    let file = base(context, origin).join(path);
    // A pipe or a device would be waited for.
    if !file.is_file() {
        let message = format!("`{}` is not a file", file.display());
        return Err(CommandError::new(Code::FileAccess, message)
            .with_hint("name the file of a safety profile, or one of `agents safety list`"));
    }
    let text = read_definition(&file, "the file of a safety profile", Code::MalformedSafety)?;
    Ok(Safety::read(&text, &file)?)
}

/// The folder from which a path is seen: that of the project, the home, or the working folder.
fn base(context: &Context, origin: Option<(Level, &Source)>) -> PathBuf {
    let folder = match origin {
        Some((Level::Project, Source::File { path, .. })) => path.parent().and_then(Path::parent),
        Some((_, Source::File { path, .. })) => path.parent(),
        _ => context.environment.working_folder(),
    };
    folder.unwrap_or_else(|| Path::new("/")).to_owned()
}

fn unknown(name: &str, origin: Option<(Level, &Source)>) -> CommandError {
    let built_in = Safety::built_in().map(|safety| safety.name);
    let known = built_in.iter().map(String::as_str);
    let place = origin.map_or_else(String::new, |(_, source)| format!(" ({source})"));
    let hint = match nearest::best(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`agents safety list` shows all; a file ends in .yaml or has a / in it".to_owned(),
    };
    CommandError::new(
        Code::SafetyNotFound,
        format!("there is no safety profile `{name}`{place}"),
    )
    .with_hint(hint)
    .with_details(json!({"profiles": built_in}))
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

fn guards_of_options(options: &SafetyOptions) -> Result<Vec<Said>, CommandError> {
    let patterns = |given: &[String]| {
        given
            .iter()
            .map(|text| text.parse::<ToolPattern>())
            .collect::<Result<Vec<_>, _>>()
    };
    let mut said = Vec::new();
    let mut option = |name: &str, (says, guards)| {
        said.push(Said::guards(Level::Flag, name.to_owned(), says, guards));
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

fn guards_of_configuration(context: &Context) -> Result<Vec<Said>, CommandError> {
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
                said.push(Said::guards(level, source.to_string(), says, guards));
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
