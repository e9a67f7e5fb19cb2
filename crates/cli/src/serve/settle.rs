//! What a call names, made whole: names get the caller's namespace, references become ids, and who may not do it
//! there is refused. What is checked is what is run.

use cleveragents_application::{
    BookError, RunServiceError, SessionError, SessionService,
};
use cleveragents_domain::identity::{Caller, EVERY_NAMESPACE, LOCAL_NAMESPACE, Permission, Scope};
use cleveragents_domain::{AutomationProfile, Code, Kind, Name, NewAuditEntry, PlanId, SessionId};
use cleveragents_server::Failure;
use cleveragents_store::{audit, plans};
use serde_json::{Value, json};

use super::operations::{Given, Offered};
use super::table::Part;
use crate::context::Context;
use crate::output::CommandError;

/// Something that a call touches, and what that needs.
#[derive(Debug, Clone)]
pub(super) struct Touched {
    pub(super) namespace: String,
    pub(super) scope: Scope,
    pub(super) permission: Permission,
    /// What those are told who cannot even look at it.
    pub(super) absent: Option<CommandError>,
}

impl Touched {
    /// Whether it is a definition that comes with the program, which every caller may read. Stored things (those
    /// with `absent`) belong to their namespace only, whatever it is called.
    pub(super) fn is_common(&self) -> bool {
        self.absent.is_none() && self.permission == Permission::Read && is_common(&self.namespace)
    }
}

/// Makes whole what a call names, and gives what it touches. `home` is the namespace of names without one; without a
/// home they stay as they are and touch nothing that is known.
pub(super) fn settle(
    context: &Context,
    offered: &Offered,
    given: &mut Given,
    home: Option<&str>,
) -> Result<Vec<Touched>, CommandError> {
    let mut touched = Vec::new();
    for part in offered.row.parts {
        let parameter = part.parameter();
        let values = given.of(parameter).to_vec();
        let mut whole = Vec::new();
        for value in values {
            let (text, touch) = one(context, offered, *part, value, home)?;
            whole.push(text);
            touched.extend(touch);
        }
        if !whole.is_empty() {
            given.set(parameter, whole);
        }
    }
    Ok(touched)
}

fn here(offered: &Offered, namespace: &str) -> Touched {
    Touched {
        namespace: namespace.to_owned(),
        scope: offered.row.scope,
        permission: offered.row.permission,
        absent: None,
    }
}

fn one(
    context: &Context,
    offered: &Offered,
    part: Part,
    value: String,
    home: Option<&str>,
) -> Result<(String, Vec<Touched>), CommandError> {
    let (id, namespace, absent) = match part {
        Part::Session(_) => {
            let sessions = context.sessions()?;
            let absent = SessionError::NotFound(value.clone()).into();
            let found = match sessions.resolve(&value) {
                Err(SessionError::Ambiguous { .. }) if is_nobody(context) => {
                    return Ok((value, Vec::new()));
                }
                Err(SessionError::Ambiguous {
                    reference,
                    candidates,
                }) => seen_of(context, &sessions, reference, candidates)?,
                found => found.map_err(|error| told(error.into(), &absent))?,
            };
            let session = sessions
                .get(found)
                .map_err(|error| told(error.into(), &absent))?;
            (session.id.to_string(), session.namespace, absent)
        }
        Part::Plan(_) => {
            let absent = BookError::NotFound {
                reference: value.clone(),
                nearest: Vec::new(),
            };
            let absent = absent.into();
            let plan = context.plans()?.resolve(&value);
            let plan = plan.map_err(|error| told(error.into(), &absent))?;
            (plan.id.to_string(), of_plan(context, plan.id)?, absent)
        }
        Part::Run(_) => {
            let absent = RunServiceError::NotFound {
                reference: value.clone(),
                candidates: Vec::new(),
            };
            let absent = absent.into();
            let run = context.runs()?.resolve(&value);
            let run = run.map_err(|error| told(error.into(), &absent))?;
            (run.id.to_string(), run.namespace, absent)
        }
        Part::Resumed(_) => return resumed(context, offered, &value),
        Part::Name(_) | Part::Read(_) | Part::Definition(_) => {
            return by_name(context, offered, part, value, home);
        }
    };
    let touch = Touched {
        absent: Some(absent),
        ..here(offered, &namespace)
    };
    Ok((id, vec![touch]))
}

/// Something by its whole name that is only looked at, or run.
fn looked_at(offered: &Offered, name: &str) -> Touched {
    Touched {
        permission: Permission::Read,
        ..here(offered, namespace_of(name))
    }
}

/// A run that is gone on with: whoever does that needs what beginning it would need.
fn resumed(
    context: &Context,
    offered: &Offered,
    reference: &str,
) -> Result<(String, Vec<Touched>), CommandError> {
    let (id, mut touched) = one(
        context,
        offered,
        Part::Run("run"),
        reference.to_owned(),
        None,
    )?;
    let run = context.runs()?.resolve(&id)?;
    let options = run.options;
    touched.push(here(offered, namespace_of(&run.actor)));
    let ground = &options["ground"];
    let is_plain = |(name, value): (&String, &Value)| {
        ["project", "read_only", "max_cost"].contains(&name.as_str()) || is_nothing(value)
    };
    let is_served = !context
        .served
        .as_ref()
        .is_none_or(|served| served.caller.is_local());
    let is_bound = !ground
        .as_object()
        .is_none_or(|ground| ground.iter().all(is_plain));
    if is_served && (is_bound || !is_nothing(&options["context"])) {
        let message =
            format!("the run {id} has rights that were given to it at the machine of the server");
        return Err(CommandError::new(Code::LocalOnly, message)
            .with_hint("go on with it there, with --local"));
    }
    touched.extend(
        ground["project"]
            .as_str()
            .map(|project| here(offered, namespace_of(project))),
    );
    let lists = ["skills", "servers", "tools"].map(|name| options[name].as_array());
    let names = lists
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(Value::as_str);
    touched.extend(names.map(|name| looked_at(offered, name)));
    Ok((id, touched))
}

/// Whether a value says as much as if it were not there.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_so) => !is_so,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Number(_) | Value::String(_) => false,
    }
}

/// The one session of several of a name that the caller sees: what others have is no reason not to know which is meant.
fn seen_of(
    context: &Context,
    sessions: &SessionService,
    reference: String,
    candidates: Vec<(SessionId, Option<String>)>,
) -> Result<SessionId, SessionError> {
    let mut seen = Vec::new();
    for (id, name) in candidates {
        if sees(context, &sessions.get(id)?.namespace) {
            seen.push((id, name));
        }
    }
    match seen.as_slice() {
        [] => Err(SessionError::NotFound(reference)),
        [(only, _)] => Ok(*only),
        _ => Err(SessionError::Ambiguous {
            reference,
            candidates: seen,
        }),
    }
}

/// Whether it is not known yet who calls.
fn is_nobody(context: &Context) -> bool {
    let served = context.served.as_ref();
    served.is_some_and(|served| served.caller.identity().is_empty())
}

/// Whether the caller may look at what is in a namespace.
fn sees(context: &Context, namespace: &str) -> bool {
    let served = context.served.as_ref();
    served.is_none_or(|served| served.visible.contains(namespace))
}

/// What is told of something that cannot be found: nothing of what others have.
fn told(error: CommandError, absent: &CommandError) -> CommandError {
    match error.code().kind() {
        Kind::NotFound | Kind::Usage => absent.clone(),
        _ => error,
    }
}

fn of_plan(context: &Context, plan: PlanId) -> Result<String, CommandError> {
    let engine = context.engine()?;
    let namespace = engine.read(|reader| plans::namespace(reader, plan))?;
    Ok(namespace.unwrap_or_else(|| LOCAL_NAMESPACE.to_owned()))
}

fn by_name(
    context: &Context,
    offered: &Offered,
    part: Part,
    value: String,
    home: Option<&str>,
) -> Result<(String, Vec<Touched>), CommandError> {
    match part {
        Part::Definition(_) => {
            let (text, name) = definition(context, value, home)?;
            let touch = here(offered, namespace_of(&name));
            Ok((text, vec![touch]))
        }
        Part::Name(parameter) => {
            let name = named(context, parameter, value, home)?;
            let touch = name
                .contains('/')
                .then(|| here(offered, namespace_of(&name)));
            Ok((name, touch.into_iter().collect()))
        }
        other => {
            let parameter = other.parameter();
            let name = named(context, parameter, value, home)?;
            let touch = name.contains('/').then(|| looked_at(offered, &name));
            Ok((name, touch.into_iter().collect()))
        }
    }
}

/// A name with its namespace. Projects and resources may be meant by their ids.
fn named(
    context: &Context,
    parameter: &str,
    value: String,
    home: Option<&str>,
) -> Result<String, CommandError> {
    if value.contains('/') || AutomationProfile::find_built_in(&value).is_some() {
        return Ok(value);
    }
    let is_id = value.len() == 26 && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let projects = ["reference", "project", "projects", "more_projects"];
    let resources = ["reference", "resource", "resources", "parent", "child"];
    if is_id
        && projects.contains(&parameter)
        && let Ok((project, _)) = context.projects()?.view(&value)
    {
        return Ok(project.name.to_string());
    }
    if is_id
        && resources.contains(&parameter)
        && let Ok(details) = context.resources()?.show(&value)
    {
        return Ok(details.resource.name.to_string());
    }
    Ok(home.map_or_else(|| value.clone(), |home| format!("{home}/{value}")))
}

/// The namespace of a name.
pub(super) fn namespace_of(name: &str) -> &str {
    let (prefix, _) = name.split_once('/').unwrap_or((LOCAL_NAMESPACE, name));
    prefix
        .split_once(':')
        .map_or(prefix, |(_, namespace)| namespace)
}

/// The text of a definition and the name in it. Callers from elsewhere cannot name variables of the server, nor what
/// is only on its machine.
fn definition(
    context: &Context,
    text: String,
    home: Option<&str>,
) -> Result<(String, String), CommandError> {
    let wrong = |message: &str| CommandError::new(Code::MalformedRequest, message);
    let tree: Value = serde_saphyr::from_str(&text)
        .map_err(|error| wrong("the definition is not valid YAML").caused_by(&error))?;
    let name = tree["name"]
        .as_str()
        .ok_or_else(|| wrong("the definition has no `name`"))?
        .to_owned();
    let is_local = context
        .served
        .as_ref()
        .is_none_or(|served| served.caller.is_local());
    if is_local {
        return Ok((text, name));
    }
    if text.contains("${") {
        return Err(wrong(
            "a definition that comes from elsewhere cannot name variables (`${…}`) of the server",
        ));
    }
    if names_local(&tree) {
        return Err(CommandError::new(
            Code::LocalOnly,
            "the definition names something in `local/`, or a model that is a file, which never leave their machine",
        ));
    }
    if name.contains('/') {
        return Ok((text, name));
    }
    let home = home.ok_or_else(|| no_home(&name))?;
    let line = regex::Regex::new(&format!(
        r#"(?m)^name:[ \t]*["']?{}["']?[ \t]*(#.*)?$"#,
        regex::escape(&name)
    ))
    .map_err(|error| CommandError::internal("the name cannot be sought").caused_by(&error))?;
    let whole = format!("{home}/{name}");
    let placed = line
        .replace(&text, format!("name: {whole}").as_str())
        .into_owned();
    if placed == text {
        return Err(no_home(&name));
    }
    Ok((placed, whole))
}

fn names_local(tree: &Value) -> bool {
    match tree {
        Value::String(text) => {
            let text = text.trim().to_lowercase();
            let (first, _) = text.split_once('/').unwrap_or((&text, ""));
            is_of_files(first) || text.starts_with("local/")
        }
        Value::Array(items) => items.iter().any(names_local),
        Value::Object(fields) => fields.values().any(names_local),
        _ => false,
    }
}

fn no_home(name: &str) -> CommandError {
    CommandError::usage(format!("`{name}` is in no namespace"))
        .with_hint(format!("write it with one: NAMESPACE/{name}"))
}

/// Refuses who may not do what a call touches, and writes the refusal down.
pub(super) fn check(
    context: &Context,
    caller: &Caller,
    offered: &Offered,
    given: &Given,
    touched: &[Touched],
) -> Result<(), CommandError> {
    if caller.is_local() {
        return Ok(());
    }
    for part in offered.row.parts {
        let bare = given.of(part.parameter()).iter().find(|value| {
            matches!(part, Part::Name(_) | Part::Read(_))
                && !value.contains('/')
                && AutomationProfile::find_built_in(value).is_none()
        });
        if let Some(bare) = bare {
            return Err(no_home(bare));
        }
    }
    if offered.row.is_everywhere
        && !caller.may_everywhere(offered.row.scope, offered.row.permission)
    {
        let everywhere = here(offered, EVERY_NAMESPACE);
        return Err(denied(context, caller, offered, &everywhere)?);
    }
    let (scope, permission) = (offered.row.scope, offered.row.permission);
    let is_said_where = touched
        .iter()
        .any(|touch| touch.scope == scope && touch.permission == permission && !touch.is_common());
    if !is_said_where && caller.reach(scope, permission).is_empty() {
        // Whoever may do it nowhere may not do it to what is not named either.
        let everywhere = here(offered, EVERY_NAMESPACE);
        return Err(denied(context, caller, offered, &everywhere)?);
    }
    for touch in touched {
        if is_of_files(&touch.namespace.trim().to_lowercase()) {
            return Err(CommandError::new(
                Code::LocalOnly,
                format!("models of `{}` are files of the machine", touch.namespace),
            ));
        }
        if !touch.is_common() && !caller.may(touch.scope, touch.permission, &touch.namespace) {
            let sees = caller.may(touch.scope, Permission::Read, &touch.namespace);
            if let Some(absent) = touch.absent.as_ref().filter(|_| !sees) {
                return Err(absent.clone());
            }
            return Err(denied(context, caller, offered, touch)?);
        }
    }
    Ok(())
}

/// Whether the models of a provider are files, which only who is at the machine may name.
fn is_of_files(provider: &str) -> bool {
    matches!(provider, "scripted" | "replay")
}

/// Whether a namespace is the program's own, or holds models.
fn is_common(namespace: &str) -> bool {
    let name = format!("{namespace}/x").parse::<Name>();
    namespace == "builtin" || name.is_ok_and(|name| name.require_free_namespace().is_err())
}

fn denied(
    context: &Context,
    caller: &Caller,
    offered: &Offered,
    touch: &Touched,
) -> Result<CommandError, CommandError> {
    let role = touch.permission.least_role();
    let entry = NewAuditEntry {
        kind: "access_denied",
        identity: caller.identity().to_owned(),
        namespace: Some(touch.namespace.clone()),
        subject: Some(offered.row.name.to_owned()),
        details: json!({"needs": role.as_str()}),
    };
    let engine = context.engine()?;
    engine.write(move |unit| audit::record(unit, entry.clone()))?;
    let message = format!("this needs the role {role} on `{}`", touch.namespace);
    Ok(CommandError::new(Code::Forbidden, message)
        .with_hint("ask an owner of the namespace for a token with that role"))
}

/// A failure of a command, as protocols tell it.
pub(super) fn failure(error: &CommandError) -> Failure {
    let failure = Failure::new(error.code(), error.to_string()).with_details(error.details());
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
