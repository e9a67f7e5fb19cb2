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
