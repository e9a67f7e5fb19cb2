//! [`Belongs`]: the namespace of what happened, by which it is decided who hears of it. An event whose namespace
//! cannot be told is for the person at the machine only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::{Event, Name};
use cleveragents_store::{
    Engine, Error, Reader, changesets, events, plans, projects, resources, runs, sandboxes,
    sessions,
};
use serde_json::Value;

/// How many things are remembered at most. The namespace of a thing never changes.
const REMEMBERED: usize = 20_000;

/// How many events about a thing that is gone are looked at.
const LOOKED_AT: u64 = 4;

/// Knows where events belong.
pub(crate) struct Belongs {
    engine: Arc<Engine>,
    known: Mutex<HashMap<Thing, Option<Arc<str>>>>,
}

/// Something whose namespace the database knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Thing {
    kind: Kind,
    id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Session,
    Plan,
    Project,
    Resource,
    Sandbox,
    Run,
    /// Anything else that an earlier event may have named the namespace of.
    Other,
}

/// How the namespace of an event is found.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Named(String),
    By(Thing),
    Nowhere,
}

impl Belongs {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            known: Mutex::default(),
        }
    }

    /// The namespace of an event.
    pub(crate) async fn namespace(&self, event: &Event) -> Result<Option<Arc<str>>, Error> {
        let thing = match find(event) {
            Found::Named(namespace) => return Ok(Some(namespace.into())),
            Found::Nowhere => return Ok(None),
            Found::By(thing) => thing,
        };
        let remembered = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&thing).cloned()
        };
        if let Some(namespace) = remembered {
            return Ok(namespace);
        }
        let (engine, wanted) = (Arc::clone(&self.engine), thing.clone());
        let found: Option<Arc<str>> =
            crate::blocking(move || engine.read(|reader| look_up(reader, &wanted)))
                .await?
                .map(Into::into);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(thing, found.clone());
        Ok(found)
    }
}

fn find(event: &Event) -> Found {
    let payload = |key| event.payload.get(key).and_then(Value::as_str);
    let named = |name: Option<&str>| match name.and_then(namespace_of) {
        Some(namespace) => Found::Named(namespace),
        None => Found::Nowhere,
    };
    let by = |kind, id: &str| {
        Found::By(Thing {
            kind,
            id: id.to_owned(),
        })
    };
    let subject = event.subject.as_str();
    if let Some(namespace) = payload("namespace") {
        return Found::Named(namespace.to_owned());
    }
    let kind = event.kind.as_str();
    match kind.split_once('.').unwrap_or((kind, "")) {
        ("session", _) => by(Kind::Session, subject),
        ("plan" | "decision" | "changeset", _)
        | ("invariant", "reconciled" | "violated")
        | ("validation", "judged" | "passed" | "failed") => by(Kind::Plan, subject),
        ("tool", "invoked" | "finished" | "refused") => match (payload("plan"), payload("session"))
        {
            (Some(plan), _) => by(Kind::Plan, plan),
            (None, Some(session)) => by(Kind::Session, session),
            (None, None) => Found::Nowhere,
        },
        ("tool" | "definition" | "resource_type", _) => named(Some(subject)),
        ("validation", _) => named(payload("validation")),
        ("invariant", _) => named(payload("source_name")),
        ("project", _) => by(Kind::Project, subject),
        ("resource", _) => by(Kind::Resource, subject),
        ("sandbox", _) => by(Kind::Sandbox, subject),
        ("run", _) => by(Kind::Run, subject),
        ("budget", _) => match subject.split_once(' ') {
            Some(("plan", id)) => by(Kind::Plan, id),
            Some(("session", id)) => by(Kind::Session, id),
            _ => Found::Nowhere,
        },
        ("task", _) => by(Kind::Other, subject),
        // Leases among them: they tell of machines and processes.
        _ => Found::Nowhere,
    }
}

/// The namespace of a name that says it.
fn namespace_of(name: &str) -> Option<String> {
    let whole: Name = name.contains('/').then(|| name.parse().ok()).flatten()?;
    Some(whole.namespace().to_owned())
}

fn look_up(reader: &mut dyn Reader, thing: &Thing) -> Result<Option<String>, Error> {
    let id = thing.id.as_str();
    let found = match thing.kind {
        Kind::Session => match id.parse() {
            Ok(id) => sessions::get(reader, id)?.map(|session| session.namespace),
            Err(_) => None,
        },
        Kind::Plan => match id.parse() {
            Ok(id) => plans::namespace(reader, id)?,
            Err(_) => None,
        },
        Kind::Project => match id.parse() {
            Ok(id) => projects::get(reader, id)?
                .and_then(|project| namespace_of(&project.name.to_string())),
            Err(_) => None,
        },
        Kind::Resource => match id.parse() {
            Ok(id) => resources::get(reader, id)?
                .and_then(|resource| first_segment(resource.name.as_str())),
            Err(_) => None,
        },
        Kind::Sandbox => match id.parse() {
            Ok(id) => of_sandbox(reader, id)?,
            Err(_) => None,
        },
        Kind::Run => match id.parse() {
            Ok(id) => runs::namespace(reader, id)?,
            Err(_) => None,
        },
        Kind::Other => None,
    };
    match found {
        Some(namespace) => Ok(Some(namespace)),
        None => remembered_by_events(reader, id),
    }
}

fn first_segment(name: &str) -> Option<String> {
    name.split_once('/')
        .map(|(namespace, _)| namespace.to_owned())
}

fn of_sandbox(
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

/// What is gone is known by what was said about it when it was made or removed.
fn remembered_by_events(reader: &mut dyn Reader, subject: &str) -> Result<Option<String>, Error> {
    let mut about = events::about(reader, subject, cleveragents_domain::Position(0), LOOKED_AT)?;
    about.extend(events::newest_about(reader, subject, LOOKED_AT)?);
    Ok(about.iter().find_map(|event| {
        let text = |key| event.payload.get(key).and_then(Value::as_str);
        text("namespace")
            .map(str::to_owned)
            .or_else(|| text("name").and_then(first_segment))
    }))
}

#[cfg(test)]
mod tests {
    use super::{Found, Kind, Thing, find};
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

    fn by(kind: Kind, id: &str) -> Found {
        Found::By(Thing {
            kind,
            id: id.to_owned(),
        })
    }

    #[test]
    fn what_an_event_says_decides_where_it_belongs() {
        let acme = || Found::Named("acme".to_owned());
        let said = event(EventKind::SessionCreated, "S", json!({"namespace": "acme"}));
        assert_eq!(find(&said), acme());
        let named = event(EventKind::DefinitionRegistered, "acme/reviewer", json!({}));
        assert_eq!(find(&named), acme());
        let of_plan = event(
            EventKind::ToolInvoked,
            "T",
            json!({"plan": "P", "session": "S"}),
        );
        assert_eq!(find(&of_plan), by(Kind::Plan, "P"));
        let of_run = event(EventKind::RunEnded, "R", json!({}));
        assert_eq!(find(&of_run), by(Kind::Run, "R"));
        let spent = event(EventKind::BudgetExhausted, "session S", json!({}));
        assert_eq!(find(&spent), by(Kind::Session, "S"));
    }

    #[test]
    fn what_belongs_nowhere_is_for_nobody_else() {
        for (kind, subject) in [
            (EventKind::TokenCreated, "T"),
            (EventKind::CleanupRan, "store"),
            (EventKind::PermissionGranted, "shell(acme/x)"),
            (EventKind::BudgetExhausted, "day 2026-01-31"),
            (EventKind::ToolInvoked, "T"),
            (EventKind::DefinitionRegistered, "nameless"),
        ] {
            assert_eq!(
                find(&event(kind, subject, json!({}))),
                Found::Nowhere,
                "{kind}"
            );
        }
    }

    #[test]
    fn leases_tell_of_machines_and_are_for_nobody_else() {
        let taken = json!({"kind": "session", "owner": {"host": "machine", "pid": 1}});
        let lease = event(EventKind::LeaseAcquired, "S", taken);
        assert_eq!(find(&lease), Found::Nowhere);
    }

    #[test]
    fn every_kind_is_decided_about() {
        // A new kind that nobody thought of must not be told to everybody.
        for kind in EventKind::ALL {
            let found = find(&event(*kind, "01ARZ3NDEKTSV4RRFFQ69G5FAV", json!({})));
            assert!(
                !matches!(found, Found::Named(_)),
                "{kind} is told to a namespace that nothing names"
            );
        }
    }
}
