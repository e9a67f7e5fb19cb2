//! Turns of one session at the same time.

use std::sync::Arc;

use cleveragents_domain::{Role, SessionId};
use cleveragents_testkit::{TestDatabase, at_once};

use crate::support::{TestUser, TurnFixture, TurnSetup};

#[test]
fn sixteen_concurrent_turns_are_complete_and_never_mixed() {
    for database in TestDatabase::each() {
        let first = TurnFixture::new(&database);
        let session: SessionId = first.session;
        at_once(16, |number| {
            let mut fixture = TurnFixture::on(Arc::clone(&first.engine));
            fixture.session = session;
            // The answer depends on nothing but the question.
            let script = format!(
                "answers:\n- when: '^question {number}$'\n  calls: [{{id: c{number}, name: builtin_S_file-read, arguments: {{path: a.txt}}}}]\n\
                 - {{when: '.', text: 'answer {number}'}}\n"
            );
            let user = TestUser::absent();
            let prompt = format!("question {number}");
            let setup = TurnSetup {
                in_sandbox: false,
                ..TurnSetup::asking(&prompt, &user)
            };
            let report = fixture.run_turn(&script, setup).expect("answered");
            assert_eq!(report.answer, format!("answer {number}"));
        });
        let messages = first.messages();
        assert_eq!(messages.len(), 64);
        for (number, turn) in messages.chunks(4).enumerate() {
            let roles: Vec<Role> = turn.iter().map(|message| message.role).collect();
            assert_eq!(
                roles,
                [Role::User, Role::Assistant, Role::Tool, Role::Assistant]
            );
            let asked = turn[0]
                .content
                .strip_prefix("question ")
                .expect("a question");
            assert_eq!(turn[3].content, format!("answer {asked}"));
            let sequences: Vec<u64> = turn.iter().map(|message| message.sequence.0).collect();
            let from = 4 * number as u64;
            assert_eq!(sequences, (from..from + 4).collect::<Vec<_>>());
        }
    }
}

/// Stored calls are ordered by their ids, so that requests for child plans keep the order of the answer.
#[test]
fn concurrent_calls_of_one_answer_are_stored_in_the_order_of_the_answer() {
    let database = TestDatabase::sqlite();
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    // Enough rounds that threads which generate ids themselves disagree with this order at least once.
    for round in 0..30 {
        let calls: Vec<String> = (0..8)
            .map(|number| {
                format!("{{id: r{round:02}c{number}, name: builtin_S_dir-list, arguments: {{path: a{number}-{round}}}}}")
            })
            .collect();
        let script = format!(
            "answers:\n- when: '^round {round}$'\n  calls: [{}]\n- {{when: '.', text: done}}\n",
            calls.join(", ")
        );
        let prompt = format!("round {round}");
        let setup = TurnSetup::asking(&prompt, &user);
        fixture.run_turn(&script, setup).expect("answered");
    }
    let mut calls = fixture.calls();
    calls.sort_by_key(|call| call.id);
    let stored: Vec<String> = calls.into_iter().filter_map(|call| call.call_id).collect();
    let mut expected = stored.clone();
    expected.sort_unstable();
    assert_eq!(stored.len(), 240);
    assert_eq!(stored, expected);
}
