//! Tokens, and the audit log, which detects changes by other programs.

use cleveragents_application::{AuditError, AuditService, NewToken, TokenError, TokenService};
use cleveragents_domain::{Code, Diagnose as _, Timestamp};
use cleveragents_store::audit::AuditFilter;
use cleveragents_testkit::TestDatabase;

fn new_token(name: &str) -> NewToken {
    NewToken {
        name: name.to_owned(),
        grants: vec!["acme=editor".parse().expect("a grant")],
        ..NewToken::default()
    }
}

/// Creates five tokens, and drops the triggers that prevent changes of the audit log.
fn audit_without_triggers(database: &TestDatabase) -> AuditService {
    let engine = database.open().acting_as("ada");
    let tokens = TokenService::new(engine.clone());
    for number in 1..=5 {
        tokens
            .create(new_token(&format!("token-{number}")))
            .expect("made");
    }
    let sqlite = "DROP TRIGGER audit_entries_stay; DROP TRIGGER audit_entries_remain;";
    let postgres = "ALTER TABLE audit_entries DISABLE TRIGGER USER;";
    database.execute_sql(if database.folder().is_some() {
        sqlite
    } else {
        postgres
    });
    AuditService::new(engine)
}

fn first_broken_entry(audit: &AuditService) -> u64 {
    match audit.verify(None) {
        Err(AuditError::Broken { number, .. }) => number,
        other => panic!("not detected: {other:?}"),
    }
}

#[test]
fn defect_5809_every_way_to_change_the_audit_is_found_out() {
    let manipulations = [
        (
            "a part is changed",
            "UPDATE audit_entries SET identity = 'eve' WHERE number = 3",
            3,
        ),
        (
            "the details are changed",
            "UPDATE audit_entries SET details = '{}' WHERE number = 2",
            2,
        ),
        (
            "the kind is changed",
            "UPDATE audit_entries SET kind = 'x' WHERE number = 4",
            4,
        ),
        (
            "one is removed",
            "DELETE FROM audit_entries WHERE number = 3",
            3,
        ),
        (
            "the first is removed",
            "DELETE FROM audit_entries WHERE number = 1",
            1,
        ),
        (
            "the last is removed",
            "DELETE FROM audit_entries WHERE number = 5",
            5,
        ),
        (
            "the end is removed",
            "DELETE FROM audit_entries WHERE number > 2",
            3,
        ),
        (
            "two change places",
            "UPDATE audit_entries SET number = 99 WHERE number = 2; UPDATE audit_entries SET number = 2 WHERE number = 3; \
             UPDATE audit_entries SET number = 3 WHERE number = 99",
            2,
        ),
    ];
    for database in TestDatabase::each() {
        let audit = audit_without_triggers(&database);
        assert_eq!(audit.verify(None).expect("intact").count, 5);
        drop(audit);
    }
    for (manipulation, sql, first) in manipulations {
        for database in TestDatabase::each() {
            let audit = audit_without_triggers(&database);
            database.execute_sql(sql);
            assert_eq!(first_broken_entry(&audit), first, "{manipulation}");
        }
    }
}

/// If the last entry is removed and the head adjusted, the chain is still valid. Only a comparison with a head that was
/// stored elsewhere reveals the change.
#[test]
fn a_stored_head_detects_a_truncated_audit_log() {
    for database in TestDatabase::each() {
        let audit = audit_without_triggers(&database);
        let stored_head = audit.verify(None).expect("intact").head;
        audit.verify(Some(&stored_head)).expect("the same");
        database.execute_sql(
            "DELETE FROM audit_entries WHERE number = 5; \
             UPDATE audit_head SET number = 4, hash = (SELECT hash FROM audit_entries WHERE number = 4)",
        );
        assert_eq!(audit.verify(None).expect("a valid chain").count, 4);
        let error = audit.verify(Some(&stored_head)).expect_err("not the same");
        assert_eq!(error.code(), Code::AuditBroken);
    }
}

#[test]
fn the_database_refuses_to_change_the_audit_log() {
    for database in TestDatabase::each() {
        TokenService::new(database.open())
            .create(new_token("ci"))
            .expect("made");
        for sql in [
            "UPDATE audit_entries SET identity = 'eve'",
            "DELETE FROM audit_entries",
        ] {
            assert!(database.try_execute_sql(sql).is_err(), "{sql}");
        }
    }
}

#[test]
fn token_names_are_unique_and_creation_and_revocation_are_audited() {
    for database in TestDatabase::each() {
        let engine = database.open().acting_as("ada");
        let tokens = TokenService::new(engine.clone());
        let made = tokens.create(new_token("ci")).expect("made");
        assert_eq!(made.token.created_by, "ada");
        assert_ne!(made.token.secret_hash, made.secret.reveal());
        let code = |outcome: Result<_, TokenError>| {
            outcome
                .map(|_: cleveragents_application::CreatedToken| ())
                .expect_err("refused")
                .code()
        };
        assert_eq!(code(tokens.create(new_token("ci"))), Code::TokenExists);
        assert_eq!(code(tokens.create(new_token("a b"))), Code::InvalidName);
        assert_eq!(
            code(tokens.create(NewToken {
                grants: Vec::new(),
                ..new_token("x")
            })),
            Code::InvalidGrant
        );
        let expired = NewToken {
            expires_at: Some(Timestamp::now().plus_seconds(-1)),
            ..new_token("x")
        };
        assert_eq!(code(tokens.create(expired)), Code::InvalidGrant);

        tokens.revoke("ci").expect("revoked");
        assert_eq!(
            tokens.revoke("ci").expect_err("revoked").code(),
            Code::TokenNotFound
        );
        assert!(tokens.list(false).expect("listed").is_empty());
        assert_eq!(tokens.list(true).expect("listed").len(), 1);
        tokens
            .create(new_token("ci"))
            .expect("the name is free again");

        let audit = AuditService::new(engine);
        let entries = audit
            .list(&AuditFilter {
                limit: 10,
                ..AuditFilter::default()
            })
            .expect("listed");
        let kinds: Vec<&str> = entries
            .iter()
            .rev()
            .map(|entry| entry.kind.as_str())
            .collect();
        assert_eq!(kinds, ["token_created", "token_revoked", "token_created"]);
        assert!(entries.iter().all(|entry| entry.identity == "ada"));
        assert!(
            entries
                .iter()
                .all(|entry| !entry.details.contains(made.secret.reveal()))
        );
    }
}
