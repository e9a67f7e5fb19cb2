//! Scripts that try to disguise their statements.

use proptest::prelude::*;

use super::{ADMITTED, CONTROL, Script};
use crate::error::Error;

fn texts(sql: &str) -> Vec<String> {
    let script = Script::parse("changes.sql", sql.as_bytes()).expect("it is admitted");
    script
        .statements
        .into_iter()
        .map(|statement| statement.text)
        .collect()
}

fn refusal(sql: &str) -> (usize, String) {
    match Script::parse("changes.sql", sql.as_bytes()) {
        Err(Error::SqlNotAdmitted { line, reason, .. }) => (line, reason),
        other => panic!("{sql:?} is not refused: {other:?}"),
    }
}

#[test]
fn statements_are_split_by_the_rules_of_the_server() {
    assert_eq!(texts(""), Vec::<String>::new());
    assert_eq!(
        texts(" ;; -- nothing\n;/* at /* all */ */"),
        Vec::<String>::new()
    );
    assert_eq!(texts("select 1; select 2"), ["select 1", "select 2"]);
    for statement in [
        "select ';'",
        "select 'it''s; fine'",
        "select \"a;\"\"b\"",
        r"select E'a\';b'",
        "select E'a'\n 'b\\';c'",
        "select $$ ; $$",
        "select $a$ ; $$ ; $b$ ; $a$",
        "select 1 /* ; /* ; */ ; */ + 1",
        "select 1 -- ;\n + 1",
        "select 1 -- ;\r + 1",
        "create rule r as on insert to t do also (delete from a; delete from b)",
        "create function f() returns int begin atomic select 1; select case when true then 1 end; end",
        "create or replace procedure p() begin atomic insert into t values (1); end",
        "select a$b$c from t",
        "select $1",
    ] {
        assert_eq!(texts(statement), [statement]);
        assert_eq!(
            texts(&format!("{statement}; select 2")),
            [statement, "select 2"]
        );
    }
}

#[test]
fn a_backslash_escapes_no_quote_in_a_plain_text() {
    assert_eq!(
        texts(r"select 'a\'; select 2"),
        [r"select 'a\'", "select 2"]
    );
}

#[test]
fn comments_around_a_statement_are_not_part_of_it() {
    assert_eq!(
        texts("-- one\nselect 1 -- two\n; /* three */ select 2 -- four"),
        ["select 1", "select 2"]
    );
}

#[test]
fn the_line_of_a_statement_is_that_of_its_first_word() {
    let script = Script::parse("changes.sql", b"\n-- x\n  select 1;\n\nselect\n2;").expect("it is");
    let lines: Vec<_> = script
        .statements
        .iter()
        .map(|statement| statement.line)
        .collect();
    assert_eq!(lines, [3, 5]);
}

#[test]
fn statements_that_end_a_transaction_are_refused_in_any_form() {
    for sql in [
        "commit",
        "COMMIT;",
        "Commit Work",
        "end",
        "abort",
        "rollback",
        "rollback;",
        "rollback work",
        "begin",
        "start transaction",
        "prepare transaction 'x'",
        "prepare x as select 1",
        "commit prepared 'x'",
        "rollback prepared 'x'",
        "commit and chain",
        "rollback and chain",
        "select 1;commit",
        "select 1;/**/commit",
        "--\ncommit",
        "-- x\rcommit",
        "/* /* */ */commit",
        "\u{b}commit",
        "select 'a\\';commit --'",
        "rollback to_nothing",
        "rollback/**/to x",
    ] {
        let (_, reason) = refusal(sql);
        assert!(reason.contains("transaction"), "{sql:?}: {reason}");
    }
    assert_eq!(refusal("select 1;\n\n commit").0, 3);
}

#[test]
fn statements_outside_transactions_are_refused() {
    for sql in [
        "vacuum",
        "copy t from stdin",
        "copy t to program 'x'",
        "\\copy t from x",
        "select 1 \\gexec",
        "discard all",
        "listen x",
        "load 'x'",
        "checkpoint",
        "1",
        "'x'",
        "execute x",
        "\u{feff}select 1",
    ] {
        refusal(sql);
    }
    for sql in [
        "select '",
        "select \"",
        "select /*",
        "select $a$ x $b$",
        r"select E'\'",
    ] {
        assert!(refusal(sql).1.contains("does not end"), "{sql}");
    }
    assert!(Script::parse("changes.sql", b"select '\xff'").is_err());
    assert!(Script::parse("changes.sql", b"select '\0'").is_err());
}

#[test]
fn savepoints_are_admitted() {
    let sql = "savepoint a; insert into t values (1); rollback to a; rollback work to savepoint a; release a";
    assert_eq!(texts(sql).len(), 5);
}

#[test]
fn any_script_can_be_continued() {
    let next = Script::parse("given", b" insert into t values (2) -- two").expect("it is");
    for first in [
        "",
        "-- note",
        "-- note\n",
        "select 1",
        "select 1;",
        "select 1 -- x",
        "select 1; -- x",
    ] {
        let script = Script::parse("changes.sql", first.as_bytes()).expect("it is");
        let combined = script.followed_by(first, &next);
        let mut expected = texts(first);
        expected.push("insert into t values (2)".to_owned());
        assert_eq!(texts(&combined), expected, "{combined:?}");
        assert!(
            combined.starts_with(first) && combined.ends_with(";\n"),
            "{combined:?}"
        );
    }
}

#[test]
fn no_admitted_word_controls_a_transaction() {
    for word in ADMITTED {
        // Only as `ROLLBACK TO`, which the tests above cover.
        assert!(word == "rollback" || !CONTROL.contains(&word), "{word}");
    }
}

proptest! {
    /// Every admitted statement is part of the text and begins with an admitted word.
    #[test]
    fn an_admitted_text_begins_with_an_admitted_word(parts in proptest::collection::vec(
        prop_oneof![
            Just("commit"), Just("select"), Just(";"), Just("'"), Just("\""), Just("$$"), Just("$a$"), Just("--"),
            Just("/*"), Just("*/"), Just("\n"), Just("\r"), Just(" "), Just("e'"), Just("\\"), Just("("), Just(")"),
            Just("begin"), Just("end"), Just("create function"), Just("rollback"), Just("to"), Just("é"),
        ],
        0..24,
    )) {
        let sql = parts.concat();
        if let Ok(script) = Script::parse("changes.sql", sql.as_bytes()) {
            for statement in script.statements {
                let text = statement.text.to_ascii_lowercase();
                prop_assert!(sql.contains(&statement.text));
                prop_assert!(
                    text.starts_with('(') || ADMITTED.iter().any(|word| text.starts_with(word)),
                    "{text}"
                );
                let first = text.split(|next: char| !next.is_alphanumeric()).next();
                let controls = CONTROL.iter().any(|word| first == Some(*word));
                prop_assert!(!controls || first == Some("rollback"), "{}", text);
            }
        }
    }
}
