//! Scripts that try to commit early: none of them leaves changes.

use super::world::World;

/// Database content before the tests.
const HELPERS: &str = "
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (50, 'p'); COMMIT; END $$;
CREATE PROCEDURE rolls_back() LANGUAGE plpgsql AS $$ BEGIN ROLLBACK; INSERT INTO t VALUES (51, 'p'); END $$;
CREATE FUNCTION hidden() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'COMMIT'; END $$;
CREATE FUNCTION calls() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL commits(); END $$;
CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN COMMIT; RETURN NEW; END $$;
";

/// Statements that the tests put between a first and a last insert.
const DISGUISES: [&str; 35] = [
    "COMMIT;",
    "commit",
    "Commit Work;",
    "END;",
    "ABORT;",
    "ROLLBACK;",
    "ROLLBACK WORK;",
    "COMMIT AND CHAIN;",
    "ROLLBACK AND CHAIN;",
    "ROLLBACK/**/TO/**/x; COMMIT;",
    "BEGIN;",
    "START TRANSACTION;",
    "PREPARE TRANSACTION 'x';",
    "PREPARE x AS SELECT 1; EXECUTE x;",
    "COMMIT PREPARED 'x';",
    ";;;COMMIT;;;",
    "/* a /* nested */ comment */COMMIT;",
    "-- a comment that ends here\rCOMMIT;",
    "-- one\nCOMMIT -- two\n;",
    "SELECT 1;COMMIT;SELECT 2;",
    "SELECT 'a\\'; COMMIT; --';",
    "SET standard_conforming_strings = off; SELECT 'a\\'; SELECT '; COMMIT; --';",
    // One statement for a parser that treats a backslash as an escape, and three for the server.
    "SET standard_conforming_strings = off; SELECT 'a\\'' ; COMMIT; -- ';",
    "SET standard_conforming_strings = off;",
    "SELECT E'a'\n'b\\''; COMMIT; SELECT '';",
    "SELECT $a$ $b$ $a$; COMMIT; SELECT $b$ $b$;",
    "DO $$ BEGIN COMMIT; END $$;",
    "DO $$ BEGIN ROLLBACK; END $$;",
    "DO $$ BEGIN EXECUTE 'COMMIT'; END $$;",
    "CALL commits();",
    "CALL rolls_back();",
    "SELECT hidden();",
    "SELECT calls();",
    "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fires();",
    "CREATE PROCEDURE own() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$; CALL own();",
];

#[test]
fn no_disguised_script_commits_early() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    world.database.execute_sql(HELPERS);
    let old = world.state();
    for disguise in DISGUISES {
        let sql = format!(
            "INSERT INTO t VALUES (2, 'first');\n{disguise}\nINSERT INTO t VALUES (3, 'last');\n"
        );
        world.write(&sql);
        for arguments in [
            ["sandbox", "apply", "fix", "--dry-run"].as_slice(),
            &["sandbox", "apply", "fix"],
        ] {
            let answer = world.agents.run(arguments);
            assert_eq!(
                answer.code,
                Some(1),
                "{disguise:?}, {arguments:?}: {answer:?}"
            );
            assert_eq!(world.state(), old, "{disguise:?}, {arguments:?}");
        }
    }
    // A query refuses the same statements.
    world.write("-- nothing\n");
    for disguise in DISGUISES {
        let sql = format!(
            "INSERT INTO t VALUES (2, 'first');\n{disguise}\nINSERT INTO t VALUES (3, 'last');\n"
        );
        let answer = world
            .agents
            .run(&["sandbox", "query", "fix", "--record", &sql]);
        assert_eq!(answer.code, Some(1), "{disguise:?}: {answer:?}");
        assert_eq!(world.state(), old, "{disguise:?}");
    }
    assert_eq!(
        world
            .agents
            .data(&["sandbox", "diff", "fix", "--part", "shop", "--stat"])["count"],
        1
    );
}

#[test]
fn statements_outside_of_a_transaction_are_refused() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    let old = world.state();
    for sql in [
        "VACUUM;",
        "VACUUM t;",
        "COPY t FROM STDIN;\n4\tx\n\\.\n",
        "COPY t TO STDOUT;",
        "\\copy t from 'x'",
        "SELECT 1 \\gexec",
        "\\connect other",
        "DISCARD ALL;",
        "LISTEN x;",
        "SELECT 'no end",
    ] {
        world.write(&format!("INSERT INTO t VALUES (2, 'first');\n{sql}"));
        let message = world.refused(&["sandbox", "apply", "fix", "--dry-run"], 1, "CA-0660");
        assert!(message.contains("line 2"), "{sql}: {message}");
        world.refused(&["sandbox", "apply", "fix"], 1, "CA-0660");
        assert_eq!(world.state(), old, "{sql}");
    }
}
