//! [`EventScope`]: the namespace that an event belongs to, which decides which callers may see it.
//! An event with an unknown namespace is visible to the local user only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cleveragents_domain::{Event, Name};
use cleveragents_store::{
    Engine, Error, Reader, changesets, events, plans, projects, resources, runs, sandboxes,
    sessions,
};
use serde_json::Value;

/// Maximum number of cached namespaces. The namespace of an object never changes.
const CACHE_SIZE: usize = 20_000;

/// Number of the oldest, and of the newest, events about a removed object that are searched for its namespace.
const SEARCHED_EVENTS: u64 = 4;

/// Finds the namespaces of events. Caches the results; clones share the cache.
#[derive(Clone)]
pub struct EventScope {
    engine: Arc<Engine>,
    cache: Arc<Mutex<HashMap<Subject, Option<Arc<str>>>>>,
}

/// An object whose namespace is in the database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Subject {
    kind: SubjectKind,
    id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SubjectKind {
    Session,
    Plan,
    Project,
    Resource,
    Sandbox,
    Run,
    /// Any other object whose namespace an earlier event may contain.
    Other,
}

/// Lookup of the namespace of an event.
#[derive(Debug, PartialEq, Eq)]
enum NamespaceLookup {
    Named(String),
    Of(Subject),
    NoNamespace,
}

impl EventScope {
    /// Creates a scope that looks up namespaces in a database.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            cache: Arc::default(),
        }
    }

    /// The namespace of an event, without access to the database. The outer `None` means that only the database knows
    /// it; the inner `None` means that the event has no namespace.
    pub fn cached(&self, event: &Event) -> Option<Option<Arc<str>>> {
        match lookup(event) {
            NamespaceLookup::Named(namespace) => Some(Some(namespace.into())),
            NamespaceLookup::NoNamespace => Some(None),
            NamespaceLookup::Of(subject) => self.lock().get(&subject).cloned(),
        }
    }

    /// The namespace of an event, from the database if necessary.
    pub fn namespace(&self, event: &Event) -> Result<Option<Arc<str>>, Error> {
        let subject = match lookup(event) {
            NamespaceLookup::Named(namespace) => return Ok(Some(namespace.into())),
            NamespaceLookup::NoNamespace => return Ok(None),
            NamespaceLookup::Of(subject) => subject,
        };
        let found = self.engine.read(|reader| namespace_of(reader, &subject))?;
        let found: Option<Arc<str>> = found.map(Into::into);
        let mut cache = self.lock();
        if cache.len() >= CACHE_SIZE {
            cache.clear();
        }
        cache.insert(subject, found.clone());
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Option<Arc<str>>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lookup(event: &Event) -> NamespaceLookup {
    let payload = |key| event.payload.get(key).and_then(Value::as_str);
    let named = |name: Option<&str>| match name.and_then(namespace_in_name) {
        Some(namespace) => NamespaceLookup::Named(namespace),
        None => NamespaceLookup::NoNamespace,
    };
    let by = |kind, id: &str| {
        NamespaceLookup::Of(Subject {
            kind,
            id: id.to_owned(),
        })
    };
    let subject = event.subject.as_str();
    if let Some(namespace) = payload("namespace") {
        return NamespaceLookup::Named(namespace.to_owned());
    }
    let kind = event.kind.as_str();
    match kind.split_once('.').unwrap_or((kind, "")) {
        ("session", _) => by(SubjectKind::Session, subject),
        ("plan" | "decision" | "changeset", _)
        | ("invariant", "reconciled" | "violated")
        | ("validation", "judged" | "passed" | "failed") => by(SubjectKind::Plan, subject),
        ("tool", "invoked" | "finished" | "refused") => match (payload("plan"), payload("session"))
        {
            (Some(plan), _) => by(SubjectKind::Plan, plan),
            (None, Some(session)) => by(SubjectKind::Session, session),
            (None, None) => NamespaceLookup::NoNamespace,
        },
        ("tool" | "definition" | "resource_type", _) => named(Some(subject)),
        ("validation", _) => named(payload("validation")),
        ("invariant", _) => named(payload("source_name")),
        ("project", _) => by(SubjectKind::Project, subject),
        ("resource", _) => by(SubjectKind::Resource, subject),
        ("sandbox", _) => by(SubjectKind::Sandbox, subject),
        ("run", _) => by(SubjectKind::Run, subject),
        ("budget", _) => match subject.split_once(' ') {
            Some(("plan", id)) => by(SubjectKind::Plan, id),
            Some(("session", id)) => by(SubjectKind::Session, id),
            _ => NamespaceLookup::NoNamespace,
        },
        ("task", _) => by(SubjectKind::Other, subject),
        // This includes lease events: they name machines and processes, which only the local user may see.
        _ => NamespaceLookup::NoNamespace,
    }
}

/// The namespace of a full name.
fn namespace_in_name(name: &str) -> Option<String> {
    let full_name: Name = name.contains('/').then(|| name.parse().ok()).flatten()?;
    Some(full_name.namespace().to_owned())
}

fn namespace_of(reader: &mut dyn Reader, subject: &Subject) -> Result<Option<String>, Error> {
    let id = subject.id.as_str();
    let found = match subject.kind {
        SubjectKind::Session => match id.parse() {
            Ok(id) => sessions::get(reader, id)?.map(|session| session.namespace),
            Err(_) => None,
        },
        SubjectKind::Plan => match id.parse() {
            Ok(id) => plans::namespace(reader, id)?,
            Err(_) => None,
        },
        SubjectKind::Project => match id.parse() {
            Ok(id) => projects::get(reader, id)?
                .and_then(|project| namespace_in_name(&project.name.to_string())),
            Err(_) => None,
        },
        SubjectKind::Resource => match id.parse() {
            Ok(id) => resources::get(reader, id)?
                .and_then(|resource| first_segment(resource.name.as_str())),
            Err(_) => None,
        },
        SubjectKind::Sandbox => match id.parse() {
            Ok(id) => namespace_of_sandbox(reader, id)?,
            Err(_) => None,
        },
        SubjectKind::Run => match id.parse() {
            Ok(id) => runs::namespace(reader, id)?,
            Err(_) => None,
        },
        SubjectKind::Other => None,
    };
    match found {
        Some(namespace) => Ok(Some(namespace)),
        None => namespace_in_events(reader, id),
    }
}

fn first_segment(name: &str) -> Option<String> {
    name.split_once('/')
        .map(|(namespace, _)| namespace.to_owned())
}

fn namespace_of_sandbox(
    reader: &mut dyn Reader,
    id: cleveragents_domain::SandboxId,
) -> Result<Option<String>, Error> {
    let Some(sandbox) = sandboxes::get(reader, id)? else {
        return Ok(None);
    };
    match changesets::get(reader, sandbox.changeset)?.and_then(|changeset| changeset.plan) {
        Some(plan) => plans::namespace(reader, plan),
        None => Ok(None),
    }
}

/// The namespace of a removed object, from the events of its creation or removal.
fn namespace_in_events(reader: &mut dyn Reader, subject: &str) -> Result<Option<String>, Error> {
    let mut about = events::about(
        reader,
        subject,
        cleveragents_domain::Position(0),
        SEARCHED_EVENTS,
    )?;
    about.extend(events::newest_about(reader, subject, SEARCHED_EVENTS)?);
    Ok(about.iter().find_map(|event| {
        let text = |key| event.payload.get(key).and_then(Value::as_str);
        text("namespace")
            .map(str::to_owned)
            .or_else(|| text("name").and_then(first_segment))
    }))
}

#[cfg(test)]
mod tests {
    use super::{NamespaceLookup, Subject, SubjectKind, lookup};
    use cleveragents_domain::{Event, EventKind, Position, Timestamp};
    use serde_json::json;

    fn event(kind: EventKind, subject: &str, payload: serde_json::Value) -> Event {
        Event {
            position: Position(1),
            kind,
            subject: subject.to_owned(),
            payload,
            occurred_at: Timestamp::now(),
        }
    }

    fn by(kind: SubjectKind, id: &str) -> NamespaceLookup {
        NamespaceLookup::Of(Subject {
            kind,
            id: id.to_owned(),
        })
    }

    #[test]
    fn the_namespace_comes_from_the_object_of_an_event() {
        let acme = || NamespaceLookup::Named("acme".to_owned());
        let with_namespace = event(EventKind::SessionCreated, "S", json!({"namespace": "acme"}));
        assert_eq!(lookup(&with_namespace), acme());
        let named = event(EventKind::DefinitionRegistered, "acme/reviewer", json!({}));
        assert_eq!(lookup(&named), acme());
        let of_plan = event(
            EventKind::ToolInvoked,
            "T",
            json!({"plan": "P", "session": "S"}),
        );
        assert_eq!(lookup(&of_plan), by(SubjectKind::Plan, "P"));
        let of_run = event(EventKind::RunEnded, "R", json!({}));
        assert_eq!(lookup(&of_run), by(SubjectKind::Run, "R"));
        let exhausted = event(EventKind::BudgetExhausted, "session S", json!({}));
        assert_eq!(lookup(&exhausted), by(SubjectKind::Session, "S"));
    }

    #[test]
    fn events_without_a_namespace_are_for_the_local_user_only() {
        for (kind, subject) in [
            (EventKind::TokenCreated, "T"),
            (EventKind::CleanupRan, "store"),
            (EventKind::PermissionGranted, "shell(acme/x)"),
            (EventKind::BudgetExhausted, "day 2026-01-31"),
            (EventKind::ToolInvoked, "T"),
            (EventKind::DefinitionRegistered, "nameless"),
        ] {
            assert_eq!(
                lookup(&event(kind, subject, json!({}))),
                NamespaceLookup::NoNamespace,
                "{kind}"
            );
        }
    }

    #[test]
    fn leases_name_machines_and_have_no_namespace() {
        let payload = json!({"kind": "session", "owner": {"host": "machine", "pid": 1}});
        let lease = event(EventKind::LeaseAcquired, "S", payload);
        assert_eq!(lookup(&lease), NamespaceLookup::NoNamespace);
    }

    #[test]
    fn events_that_name_no_namespace_have_none() {
        // A new kind of event that this module does not handle must not be visible to all callers.
        for kind in EventKind::ALL {
            let found = lookup(&event(*kind, "01ARZ3NDEKTSV4RRFFQ69G5FAV", json!({})));
            assert!(
                !matches!(found, NamespaceLookup::Named(_)),
                "{kind} is visible in a namespace that the event does not name"
            );
        }
    }
}
