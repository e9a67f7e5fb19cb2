//! Converts arguments as entered by the user into the properties and the location of a resource.
//!
//! Paths become absolute and canonical and must exist; types for repositories, databases and folders
//! refuse any other content.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::{Argument, ArgumentType, InheritedType, Properties, TypeName};
use regex::Regex;
use serde_json::Value;

use super::error::ResourceError;
use super::git::{self, GitProblem, git_probe};

/// Maximum length of an argument's text, in bytes.
const MAX_TEXT_BYTES: usize = 4_096;

/// The first bytes of every SQLite database.
const SQLITE_HEADER: &[u8; 16] = b"SQLite format 3\0";

/// Validated arguments of a resource.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValidatedArguments {
    pub(super) properties: Properties,
    pub(super) location: Option<String>,
}

/// A pattern that must match a whole value.
pub(super) fn whole_pattern(pattern: &str) -> Result<Regex, String> {
    Regex::new(&format!("^(?:{pattern})$"))
        .map_err(|_| format!("`{pattern}` is not a regular expression"))
}

/// Validates the default of an argument, as far as possible without a location.
pub(super) fn check_default(argument: &Argument, default: &str) -> Result<(), String> {
    match argument.kind {
        ArgumentType::Path => Ok(()),
        _ => value(argument, default, Path::new("/")).map(drop),
    }
}

fn value(argument: &Argument, text: &str, base: &Path) -> Result<Value, String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("is longer than {MAX_TEXT_BYTES} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err("contains a control character".to_owned());
    }
    // An address may contain a password, so the message does not repeat it.
    let shown = match argument.kind {
        ArgumentType::Url => "the value".to_owned(),
        _ => format!("`{text}`"),
    };
    if let Some(pattern) = &argument.validation_pattern
        && !whole_pattern(pattern)?.is_match(text)
    {
        return Err(format!("{shown} does not match {pattern}"));
    }
    match argument.kind {
        ArgumentType::String => Ok(text.into()),
        ArgumentType::Url if is_url(text) => Ok(text.into()),
        ArgumentType::Url => Err(format!("{shown} is not a URL such as https://host/path")),
        ArgumentType::Integer => text
            .parse::<i64>()
            .map(Value::from)
            .map_err(|_| format!("{shown} is not a whole number")),
        ArgumentType::Boolean => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Ok(true.into()),
            "false" | "no" | "0" => Ok(false.into()),
            _ => Err(format!("{shown} is neither true nor false")),
        },
        ArgumentType::Path if text.is_empty() => Err("the path is empty".to_owned()),
        ArgumentType::Path => Ok(base.join(text).display().to_string().into()),
    }
}

fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        let starts_with_letter = scheme
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic());
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
        starts_with_letter
            && scheme.bytes().all(legal)
            && !rest.is_empty()
            && !rest.contains(char::is_whitespace)
    })
}

/// The stored form of a path: absolute, without links, and valid UTF-8.
pub(super) fn canonical(path: &Path) -> Result<PathBuf, ResourceError> {
    let canonical = std::fs::canonicalize(path).map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
            _ => error.to_string(),
        };
        ResourceError::location(path, reason)
    })?;
    if canonical
        .to_str()
        .is_none_or(|text| text.contains(char::is_control))
    {
        return Err(ResourceError::unsuitable(
            &canonical,
            "has a name that is not valid text",
        ));
    }
    Ok(canonical)
}

/// Validates the arguments for a type. Relative paths start at `base`.
pub(super) fn check(
    kind: &InheritedType,
    given: &BTreeMap<String, String>,
    base: &Path,
) -> Result<ValidatedArguments, ResourceError> {
    let known = &kind.whole.arguments;
    let wrong = |argument: &str, problem: String| ResourceError::Argument {
        argument: argument.to_owned(),
        problem,
    };
    if let Some(name) = given
        .keys()
        .find(|name| !known.iter().any(|argument| argument.name == **name))
    {
        return Err(wrong(
            name,
            format!("type {} does not accept it", kind.whole.name),
        ));
    }
    let mut checked = ValidatedArguments {
        properties: Properties::new(),
        location: None,
    };
    for argument in known {
        let Some(text) = given.get(&argument.name).or(argument.default.as_ref()) else {
            if argument.required {
                return Err(wrong(&argument.name, "it is required".to_owned()));
            }
            continue;
        };
        let mut found =
            value(argument, text, base).map_err(|problem| wrong(&argument.name, problem))?;
        let location = match (argument.kind, found.as_str()) {
            (ArgumentType::Path, Some(text)) => {
                let path = canonical(Path::new(text))?.display().to_string();
                found = path.clone().into();
                Some(path)
            }
            (ArgumentType::Url, Some(text)) => Some(cleveragents_store::redact(text)),
            _ => None,
        };
        checked.location = checked.location.or(location);
        checked.properties.insert(argument.name.clone(), found);
    }
    check_location(kind, &checked)?;
    Ok(checked)
}

/// Whether a type is the built-in type `built_in` or inherits from it.
pub(super) fn is_a(kind: &InheritedType, built_in: &str) -> bool {
    kind.chain
        .iter()
        .any(|name: &TypeName| name.as_str() == built_in)
}

/// Checks that the location contains what the type requires.
fn check_location(kind: &InheritedType, checked: &ValidatedArguments) -> Result<(), ResourceError> {
    let text = |name: &str| checked.properties.get(name).and_then(Value::as_str);
    if let Some(url) = text("url")
        && is_a(kind, "postgres")
        && cleveragents_store::Server::at(url).is_err()
    {
        // The address may contain a password, so the message contains neither the address nor the parser's error.
        return Err(ResourceError::Argument {
            argument: "url".to_owned(),
            problem: "the value is not an address such as postgres://user@host/database".to_owned(),
        });
    }
    let Some(path) = text("path").map(Path::new) else {
        return Ok(());
    };
    if is_a(kind, "git-checkout") {
        let probe = repository(path)?;
        if let Some(branch) = text("branch")
            && !git::has_branch(path, branch).map_err(problem(path))?
        {
            return Err(ResourceError::Argument {
                argument: "branch".to_owned(),
                problem: format!("{} has no branch `{branch}`", path.display()),
            });
        }
        drop(probe);
    }
    if (is_a(kind, "fs-directory") || is_a(kind, "fs-mount")) && !path.is_dir() {
        return Err(ResourceError::unsuitable(path, "is not a folder"));
    }
    let needs_file = ["fs-file", "sqlite", "duckdb", "devcontainer-instance"];
    if needs_file.iter().any(|built_in| is_a(kind, built_in)) && !path.is_file() {
        return Err(ResourceError::unsuitable(path, "is not a file"));
    }
    if is_a(kind, "sqlite") && !is_sqlite(path) {
        return Err(ResourceError::unsuitable(path, "is not an SQLite database"));
    }
    Ok(())
}

fn problem(path: &Path) -> impl Fn(GitProblem) -> ResourceError {
    move |problem| match problem {
        GitProblem::NotARepository(reason) => {
            ResourceError::unsuitable(path, format!("is not a git repository: {reason}"))
        }
        GitProblem::Unavailable(reason) => ResourceError::Git(reason),
    }
}

/// The repository whose root is at a path.
pub(super) fn repository(path: &Path) -> Result<git::GitProbe, ResourceError> {
    if !path.is_dir() {
        return Err(ResourceError::unsuitable(path, "is not a folder"));
    }
    let probe = git_probe(path).map_err(problem(path))?;
    let is_at_path = |place: &Path| std::fs::canonicalize(place).is_ok_and(|place| place == path);
    match &probe.root {
        Some(root) if is_at_path(root) => Ok(probe),
        Some(root) => Err(ResourceError::unsuitable(
            path,
            format!("is not the root of a git repository; {} is", root.display()),
        )),
        None if probe.is_bare && is_at_path(&probe.common_dir) => Ok(probe),
        None => Err(ResourceError::unsuitable(
            path,
            "is inside a git repository, but not its root",
        )),
    }
}

/// Whether a path is a file that starts with the SQLite header.
pub(super) fn is_sqlite(path: &Path) -> bool {
    let mut header = [0; SQLITE_HEADER.len()];
    // Opening something else, such as a pipe, could block forever.
    if !path.is_file() {
        return false;
    }
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut header))
        .is_ok_and(|()| header == *SQLITE_HEADER)
}
