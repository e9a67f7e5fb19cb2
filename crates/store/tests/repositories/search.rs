//! Full-text search returns the same results on both databases.

use cleveragents_domain::{
    EventKind, Metadata, NewMessage, Role, SearchQuery, Sequence, SessionId, TokenUsage,
};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::search::{Hit, MATCH_MARKS, Scope};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::{Engine, Error, messages, search, sessions};
use cleveragents_testkit::{TestDatabase, proof_size};

fn add_session(engine: &Engine, texts: &[(Role, &str)]) -> SessionId {
    let id = SessionId::generate();
    let new = NewSession {
        owner: None,
        name: None,
        actor: None,
        namespace: "local".to_owned(),
        automation: "supervised".to_owned(),
        usage: TokenUsage::default(),
        forked_from: None,
        created_at: None,
    };
    let batch: Vec<AppendedMessage> = texts
        .iter()
        .map(|(role, text)| {
            NewMessage::new(*role, (*text).to_owned(), Metadata::new(), usize::MAX)
                .expect("a message")
                .into()
        })
        .collect();
    engine
        .write(move |unit| {
            sessions::insert(unit, id, &new, EventKind::SessionCreated)?;
            messages::append(unit, id, &batch, AppendEvents::Nothing)?;
            Ok::<_, Error>(id)
        })
        .expect("stored")
}

fn index_all(engine: &Engine) {
    let (indexed, newest) = engine.read(search::lag).expect("read");
    let mut remaining = newest.saturating_sub(indexed);
    while remaining > 0 {
        remaining = engine.write(search::index_more).expect("indexed");
    }
}

fn find_in(engine: &Engine, query: &str, scope: &Scope, limit: u64) -> Vec<Hit> {
    index_all(engine);
    let query = SearchQuery::parse(query).expect("a query");
    engine
        .read(|reader| search::find(reader, &query, scope, limit))
        .expect("searched")
}

/// Sequence numbers of the messages found, in ascending order.
fn find(engine: &Engine, query: &str) -> Vec<u64> {
    let mut found: Vec<u64> = find_in(engine, query, &Scope::default(), 100)
        .iter()
        .map(|hit| hit.sequence.0)
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn words_phrases_and_prefixes_match() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let texts = [
            "The engine cache had a race between two threads",
            "A cache for the engine, rebuilt",
            "Nothing of that kind",
            "ENGINES everywhere",
        ];
        add_session(&engine, &texts.map(|text| (Role::User, text)));
        let expectations: [(&str, &[u64]); 12] = [
            ("engine", &[0, 1]),
            ("Engine CACHE", &[0, 1]),
            ("cache engine", &[0, 1]),
            ("\"engine cache\"", &[0]),
            ("\"cache engine\"", &[]),
            ("engin*", &[0, 1, 3]),
            ("engin", &[]),
            ("engine nothing", &[]),
            ("\"the engine\" rebuilt", &[1]),
            ("thr*", &[0]),
            ("cach* rac*", &[0]),
            ("missing", &[]),
        ];
        for (query, expected) in expectations {
            assert_eq!(
                find(&engine, query),
                expected,
                "{query} on {}",
                database.kind
            );
        }
    }
}

/// Users search for code, paths and addresses.
#[test]
fn punctuation_in_texts_and_queries_hides_no_match() {
    let texts = [
        "see src/cleveragents/engine_cache.py line 42",
        "mail to ada@example.com about it",
        "open https://docs.example.org/guide/start?page=7#top now",
        "version 3.51.3 of SQLite, not 3.51.2",
        "call self.database_url.split(':') here",
        "foo-bar and x86_64-unknown-linux-gnu",
        "it's C++, isn't it? <b>bold</b> & \"quoted\" -- 'single'",
        "$HOME/.config/agents.toml; rm -rf /tmp/x",
    ];
    let expectations: [(&str, &[u64]); 22] = [
        ("engine_cache.py", &[0]),
        ("cache", &[0]),
        ("cleveragents", &[0]),
        ("src/cleveragents", &[0]),
        ("42", &[0]),
        ("ada@example.com", &[1]),
        ("ada", &[1]),
        ("example", &[1, 2]),
        ("guide", &[2]),
        ("page=7", &[2]),
        ("https://docs.example.org/guide", &[2]),
        ("3.51.3", &[3]),
        ("database_url", &[4]),
        ("split", &[4]),
        ("foo-bar", &[5]),
        ("bar", &[5]),
        ("x86_64", &[5]),
        ("linux-gnu", &[5]),
        ("bold", &[6]),
        ("quoted", &[6]),
        ("agents.toml", &[7]),
        ("tmp", &[7]),
    ];
    for database in TestDatabase::each() {
        let engine = database.open();
        add_session(&engine, &texts.map(|text| (Role::User, text)));
        let mismatches: Vec<_> = expectations
            .iter()
            .map(|(query, expected)| (*query, find(&engine, query), *expected))
            .filter(|(_, found, expected)| found != expected)
            .collect();
        assert!(
            mismatches.is_empty(),
            "on {} (query, found, expected): {mismatches:?}",
            database.kind
        );
    }
}

/// Words that are search operators of the database are plain words in a query.
#[test]
fn operators_of_the_database_are_plain_words() {
    for database in TestDatabase::each() {
        let engine = database.open();
        add_session(
            &engine,
            &[(Role::User, "this and that or NOT near everything")],
        );
        for query in [
            "and",
            "or",
            "not",
            "NEAR",
            "AND that",
            "this OR nothing*",
            "a\"b",
            "content:x",
            "'",
            "that | this",
            "!this",
            "(this",
            "this <-> that",
            "\\",
            "^this",
            "-that",
            "{this}",
        ] {
            // The result does not matter, but the query must not fail.
            if SearchQuery::parse(query).is_ok() {
                find(&engine, query);
            }
        }
        assert_eq!(
            find(&engine, "and or not near"),
            [0],
            "on {}",
            database.kind
        );
    }
}

#[test]
fn letters_of_every_script_are_searched() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let texts = [
            "Ein Café in Zürich",
            "привет мир",
            "日本語 テスト",
            "smile 😀 word",
        ];
        add_session(&engine, &texts.map(|text| (Role::User, text)));
        for (query, expected) in [
            ("Café", 0),
            ("Zürich", 0),
            ("привет", 1),
            ("日本語", 2),
            ("word", 3),
        ] {
            assert_eq!(
                find(&engine, query),
                [expected],
                "{query} on {}",
                database.kind
            );
        }
        if database.kind == "sqlite" {
            assert_eq!(find(&engine, "cafe zurich"), [0], "accents are optional");
        }
    }
}

#[test]
fn a_scope_limits_a_search_to_a_session_or_a_role() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let mixed = [
            (Role::User, "a question"),
            (Role::Assistant, "an answer to the question"),
        ];
        let (first, second) = (add_session(&engine, &mixed), add_session(&engine, &mixed));
        let search = |session, role| {
            let mut found: Vec<_> = find_in(
                &engine,
                "question",
                &Scope {
                    session,
                    role,
                    ..Scope::default()
                },
                100,
            )
            .into_iter()
            .map(|hit| (hit.session, hit.sequence.0, hit.role))
            .collect();
            found.sort_unstable_by_key(|(session, sequence, _)| (*session, *sequence));
            found
        };
        let (user, assistant) = (Role::User, Role::Assistant);
        assert_eq!(
            search(Some(first), None),
            [(first, 0, user), (first, 1, assistant)]
        );
        assert_eq!(
            search(None, Some(assistant)),
            [(first, 1, assistant), (second, 1, assistant)]
        );
        assert_eq!(search(Some(second), Some(user)), [(second, 0, user)]);
        assert!(search(Some(SessionId::generate()), None).is_empty());
        assert_eq!(
            find_in(&engine, "question", &Scope::default(), 3).len(),
            3,
            "a limit"
        );
    }
}

#[test]
fn an_excerpt_marks_the_match_and_the_best_hit_comes_first() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let long = format!("{} needle {}", "hay ".repeat(200), "hay ".repeat(200));
        let texts = [long.as_str(), "needle needle needle", "hay"];
        let id = add_session(&engine, &texts.map(|text| (Role::User, text)));
        let hits = find_in(&engine, "needle", &Scope::default(), 10);
        let order: Vec<u64> = hits.iter().map(|hit| hit.sequence.0).collect();
        assert_eq!(order, [1, 0], "on {}", database.kind);
        assert!(hits[0].score > hits[1].score);
        let marked = format!("{}needle{}", MATCH_MARKS.0, MATCH_MARKS.1);
        assert!(hits[1].excerpt.contains(&marked), "{:?}", hits[1].excerpt);
        assert!(
            hits[1].excerpt.len() < 400,
            "an excerpt, not the whole message"
        );
        let stored = engine
            .read(|reader| messages::page(reader, id, Sequence(0), 1))
            .expect("read")
            .remove(0);
        assert_eq!(
            (hits[1].message, hits[1].created_at),
            (stored.id, stored.created_at)
        );
    }
}

/// SQLite reuses the row id of a removed message for the next one.
#[test]
fn deleted_sessions_are_not_found_and_their_replacements_are() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let kept_session = add_session(&engine, &[(Role::User, "kept words")]);
        for round in 0..5 {
            let old = format!("old words {round}");
            let deleted = add_session(&engine, &[(Role::User, old.as_str()); 3]);
            assert_eq!(find(&engine, "words").len(), 4);
            engine
                .write(move |unit| sessions::delete(unit, deleted))
                .expect("deleted");
            assert_eq!(
                find(&engine, "words"),
                [0],
                "round {round} on {}",
                database.kind
            );
            let new = format!("new words {round}");
            let replacement = add_session(&engine, &[(Role::User, new.as_str()); 3]);
            assert_eq!(
                find(&engine, "new words"),
                [0, 1, 2],
                "round {round} on {}",
                database.kind
            );
            assert!(find(&engine, "old").is_empty());
            engine
                .write(move |unit| sessions::delete(unit, replacement))
                .expect("deleted");
        }
        // A session that is deleted before it was indexed.
        let unseen = add_session(&engine, &[(Role::User, "unseen words")]);
        engine
            .write(move |unit| sessions::delete(unit, unseen))
            .expect("deleted");
        assert_eq!(find(&engine, "words"), [0]);
        engine
            .write(move |unit| sessions::delete(unit, kept_session))
            .expect("deleted");
        assert!(find(&engine, "words").is_empty());
        let checks = engine.check().expect("checked");
        assert!(
            checks
                .iter()
                .all(|check| check.severity == cleveragents_store::Severity::Ok),
            "{checks:?}"
        );
    }
}

#[test]
fn a_dropped_index_is_rebuilt() {
    for database in TestDatabase::each() {
        let engine = database.open();
        add_session(
            &engine,
            &[(Role::User, "some words"), (Role::User, "other words")],
        );
        assert_eq!(find(&engine, "words"), [0, 1]);
        engine.rebuild_search().expect("the index is dropped");
        assert_eq!(find(&engine, "words"), [0, 1], "on {}", database.kind);
        assert_eq!(find(&engine, "other"), [1]);
    }
}

/// More messages than one unit of work indexes, and messages that arrive during indexing.
#[test]
fn a_long_history_is_indexed_in_steps_without_gaps() {
    let count = proof_size(6_000, 60_000);
    for database in TestDatabase::each() {
        let engine = database.open();
        let texts: Vec<String> = (0..count).map(|number| format!("all n{number}")).collect();
        let batch: Vec<(Role, &str)> = texts
            .iter()
            .map(|text| (Role::User, text.as_str()))
            .collect();
        let id = add_session(&engine, &batch);
        let (indexed, newest) = engine.read(search::lag).expect("read");
        if database.kind == "sqlite" {
            assert_eq!((indexed, newest), (0, count as u64));
            let remaining = engine.write(search::index_more).expect("indexed");
            assert!(
                remaining > 0 && remaining < count as u64,
                "one step does not index all messages"
            );
            add_session(&engine, &[(Role::User, "late")]);
        } else {
            add_session(&engine, &[(Role::User, "late")]);
        }
        for number in [0, 1, count / 2, count - 1] {
            assert_eq!(
                find(&engine, &format!("n{number}")),
                [number as u64],
                "{}",
                database.kind
            );
        }
        assert_eq!(find(&engine, "late"), [0]);
        let scope = Scope {
            session: Some(id),
            ..Scope::default()
        };
        assert_eq!(
            find_in(&engine, "all", &scope, u64::from(u32::MAX)).len(),
            count
        );
    }
}

/// A single message may be larger than what a database can index.
#[test]
fn a_huge_message_can_be_stored_and_found() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let words: Vec<String> = (0..200_000).map(|number| format!("word{number}")).collect();
        let words = words.join(" ");
        let unbroken = "x".repeat(3_000_000);
        add_session(
            &engine,
            &[
                (Role::Tool, words.as_str()),
                (Role::Tool, unbroken.as_str()),
            ],
        );
        assert_eq!(find(&engine, "word17"), [0], "on {}", database.kind);
    }
}
