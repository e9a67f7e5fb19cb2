//! Services that only a server uses: appends in batches, idempotency keys, callers, the audit log,
//! the namespaces of events.

use std::net::IpAddr;
use std::sync::Arc;

use cleveragents_application::{
    AppendOutcome, AppendRequest, AppendResponder, KeyClaim, LeaseService, NewToken, RequestKey,
    SERVER_LEASE, Services,
};
use cleveragents_domain::identity::{Namespaces, Permission, Scope};
use cleveragents_domain::{
    ContentHash, EventKind, LeaseSubject, NewEvent, NewMessage, Position, Role, SessionId, Ttl,
};
use cleveragents_store::audit::AuditFilter;
use cleveragents_store::{Engine, Error};
use cleveragents_testkit::TestDatabase;
use serde_json::{Map, json};

fn key(name: &str, request: &str) -> RequestKey {
    RequestKey {
        identity: "ada".to_owned(),
        key: name.to_owned(),
        hash: ContentHash::of_bytes(request.as_bytes()).hex(),
        server: "server one".to_owned(),
    }
}

fn session(services: &Services) -> SessionId {
    let sessions = services.sessions(1_000);
    let session = sessions.create_in("acme", None, None, "default");
    session.expect("created").id
}

fn append(session: SessionId, text: &str, key: Option<RequestKey>) -> AppendRequest {
    let message = NewMessage::new(Role::User, text.to_owned(), Map::new(), 1_000);
    AppendRequest::new(session, vec![message.expect("a message")], false, key)
}

/// Responds with the numbers of the messages, and fails for the text `poison`.
fn responder() -> AppendResponder {
    AppendResponder {
        body: |request, numbers| {
            let is_poison = request
                .messages()
                .any(|message| message.content() == "poison");
            if is_poison {
                return Err(Error::Internal("poison".to_owned()));
            }
            let count = request.messages().count();
            let numbers: Vec<u64> = numbers.take(count).map(|number| number.0).collect();
            Ok(json!(numbers).to_string())
        },
        stored_response: |body| (201, format!("kept {body}")),
    }
}

fn stored(outcome: &Result<AppendOutcome, Error>) -> &str {
    match outcome {
        Ok(AppendOutcome::Stored(body)) => body,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_batch_numbers_the_messages_of_each_session_in_order() {
    for database in TestDatabase::each() {
        let services = Services::new(database.open());
        let (one, two) = (session(&services), session(&services));
        let outcomes = services.appender(responder()).append_all(vec![
            append(one, "a", None),
            append(two, "b", None),
            append(SessionId::generate(), "nowhere", None),
            append(one, "c", None),
        ]);
        assert_eq!(stored(&outcomes[0]), "[0]");
        assert_eq!(stored(&outcomes[1]), "[0]");
        assert!(matches!(outcomes[2], Ok(AppendOutcome::NoSession)));
        assert_eq!(stored(&outcomes[3]), "[1]");
    }
}

#[test]
fn a_failed_append_does_not_affect_other_requests() {
    for database in TestDatabase::each() {
        let services = Services::new(database.open());
        let session = session(&services);
        let outcomes = services.appender(responder()).append_all(vec![
            append(session, "a", None),
            append(session, "poison", Some(key("k", "poison"))),
            append(session, "b", None),
        ]);
        assert_eq!(stored(&outcomes[0]), "[0]");
        assert!(outcomes[1].is_err());
        assert_eq!(stored(&outcomes[2]), "[1]");
        assert_eq!(database.count("SELECT COUNT(*) FROM messages"), 2);
        // Neither the message nor the key is stored, so the request can be repeated.
        assert_eq!(database.count("SELECT COUNT(*) FROM request_keys"), 0);
    }
}

#[test]
fn a_repeated_append_gets_the_response_of_the_first() {
    for database in TestDatabase::each() {
        let services = Services::new(database.open());
        let session = session(&services);
        let appender = services.appender(responder());
        let requests = || {
            vec![
                append(session, "a", Some(key("k", "a"))),
                append(session, "a", Some(key("k", "a"))),
                append(session, "b", Some(key("k", "b"))),
                append(SessionId::generate(), "c", Some(key("lost", "c"))),
            ]
        };
        let first = appender.append_all(requests());
        assert_eq!(stored(&first[0]), "[0]");
        assert!(matches!(first[3], Ok(AppendOutcome::NoSession)));
        let answered = AppendOutcome::Repeated(KeyClaim::Answered {
            status: 201,
            body: "kept [0]".to_owned(),
        });
        let second = appender.append_all(requests());
        for outcome in [&first[1], &second[0], &second[1]] {
            assert_eq!(outcome.as_ref().expect("answered"), &answered);
        }
        let conflict = AppendOutcome::Repeated(KeyClaim::Conflict);
        for outcomes in [&first, &second] {
            assert_eq!(outcomes[2].as_ref().expect("answered"), &conflict);
        }
        // A request without effect releases its key.
        assert!(matches!(second[3], Ok(AppendOutcome::NoSession)));
        assert_eq!(database.count("SELECT COUNT(*) FROM messages"), 1);
    }
}

#[test]
fn a_key_is_claimed_once_and_released_by_a_request_without_effect() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let services = Services::new(Arc::clone(&engine));
        let keys = services.request_keys();
        let request = key("k", "request");
        assert_eq!(keys.claim(&request).expect("answered"), KeyClaim::First);
        let pending = KeyClaim::Pending {
            server: "server one".to_owned(),
        };
        assert_eq!(keys.claim(&request).expect("answered"), pending);
        assert!(!keys.is_server_alive("server one").expect("answered"));
        let subject = LeaseSubject::new(SERVER_LEASE, "server one");
        let lease = LeaseService::new(engine).acquire(subject, Ttl::default());
        let _lease = lease.expect("a lease");
        assert!(keys.is_server_alive("server one").expect("answered"));
        keys.forget(&request).expect("released");
        assert_eq!(keys.claim(&request).expect("answered"), KeyClaim::First);
        keys.answer(&request, 200, "done").expect("kept");
        keys.forget(&request).expect("no effect on an answer");
        let answered = KeyClaim::Answered {
            status: 200,
            body: "done".to_owned(),
        };
        assert_eq!(keys.claim(&request).expect("answered"), answered);
        // A day later the key is free.
        database.execute_sql("UPDATE request_keys SET created_at = created_at - 86401000000");
        assert_eq!(keys.claim(&request).expect("answered"), KeyClaim::First);
    }
}

#[test]
fn a_token_is_valid_until_it_is_revoked_and_its_use_is_stored_once_a_minute() {
    for database in TestDatabase::each() {
        let services = Services::new(database.open());
        let tokens = services.tokens();
        let new = NewToken {
            name: "ci".to_owned(),
            grants: vec!["acme=editor".parse().expect("a grant")],
            ..NewToken::default()
        };
        let made = tokens.create(new).expect("created");
        let hash = ContentHash::of_bytes(made.secret.reveal().as_bytes()).hex();
        let found = tokens.authenticate(&hash).expect("answered");
        assert_eq!(found.expect("valid").name, "ci");
        let used = || database.ask("SELECT last_used_at FROM tokens");
        let first = used();
        assert_ne!(first[0][0], "", "the use is stored");
        tokens
            .authenticate(&hash)
            .expect("answered")
            .expect("valid");
        assert_eq!(used(), first);
        let caller = tokens.caller("ci").expect("answered").expect("valid");
        assert!(caller.may(Scope::Tasks, Permission::Write, "acme"));
        assert!(tokens.caller("other").expect("answered").is_none());
        let from: IpAddr = [127, 0, 0, 1].into();
        services
            .audit()
            .authentication_succeeded(&made.token, from)
            .expect("recorded");
        tokens.revoke("ci").expect("revoked");
        assert!(tokens.authenticate(&hash).expect("answered").is_none());
        assert!(tokens.caller("ci").expect("answered").is_none());
        services
            .audit()
            .access_denied("ci", "/api/v1/plans", Permission::Manage, "acme")
            .expect("recorded");
        services
            .audit()
            .authentication_failed(from, "/api/v1/plans")
            .expect("recorded");
        let filter = AuditFilter {
            limit: 100,
            ..AuditFilter::default()
        };
        let entries = services.audit().list(&filter).expect("read");
        let entry_of_kind = |kind: &str| {
            let mut found = entries.iter().filter(|entry| entry.kind == kind);
            found.next().expect("recorded").clone()
        };
        assert_eq!(entry_of_kind("auth_success").identity, "ci");
        let denied = entry_of_kind("access_denied");
        assert_eq!(denied.namespace.as_deref(), Some("acme"));
        assert_eq!(denied.details, r#"{"needs":"admin"}"#);
        assert_eq!(
            entry_of_kind("auth_failure").identity,
            "unknown at 127.0.0.1"
        );
    }
}

fn emit(engine: &Engine, kind: EventKind, subject: String, payload: serde_json::Value) {
    let event = NewEvent {
        kind,
        subject,
        payload,
    };
    engine
        .write(move |unit| {
            unit.emit(event.clone());
            Ok::<(), Error>(())
        })
        .expect("written");
}

#[test]
fn the_namespace_of_an_event_is_found_after_its_subject_is_deleted() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let services = Services::new(Arc::clone(&engine));
        let session = session(&services);
        emit(
            &engine,
            EventKind::SessionRenamed,
            session.to_string(),
            json!({}),
        );
        emit(
            &engine,
            EventKind::CleanupRan,
            "store".to_owned(),
            json!({}),
        );
        let events = services.events().after(Position(0), 10).expect("read");
        let event_of_kind = |kind| {
            let mut found = events.iter().filter(|event| event.kind == kind);
            found.next().expect("there").clone()
        };
        let (renamed, cleanup) = (
            event_of_kind(EventKind::SessionRenamed),
            event_of_kind(EventKind::CleanupRan),
        );
        let scope = services.event_scope();
        assert_eq!(scope.cached(&renamed), None, "only the database knows it");
        let found = scope.namespace(&renamed).expect("answered");
        assert_eq!(found.as_deref(), Some("acme"));
        assert_eq!(scope.cached(&renamed), Some(found), "the result is cached");
        assert_eq!(scope.cached(&cleanup), Some(None), "no namespace");
        services.sessions(1_000).delete(session).expect("deleted");
        let afterwards = services.event_scope().namespace(&renamed);
        assert_eq!(afterwards.expect("answered").as_deref(), Some("acme"));
        let last = services.events().newest().expect("read");
        assert!(last > renamed.position);
        let plans = services.plans().page(&Namespaces::All, None, 10);
        assert!(plans.expect("read").is_empty());
    }
}
