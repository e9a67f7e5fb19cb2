//! A salvage of a database keeps every row of every table.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_application::{AuditService, NewToken, TokenService};
use cleveragents_domain::PlanPhase;
use cleveragents_store::{Options, Severity, salvage};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;

use crate::MODEL;
use crate::support::{PlanEnvironment, User};

/// The tests of this module by name, which `main` runs.
pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "salvage::every_row_of_every_table_is_kept",
        every_row_of_every_table_is_kept,
    ),
    (
        "salvage::rows_whose_parent_is_lost_are_removed",
        rows_whose_parent_is_lost_are_removed,
    ),
];

/// A database with an applied plan and a token.
fn database_with_plan() -> TestDatabase {
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::new(&database, MODEL);
    let user = User::answering(Approval::Once);
    let check = "grep -q right price.txt".to_owned();
    let mut plan = environment.one_off("write it", &[check], None);
    for phase in [PlanPhase::Strategize, PlanPhase::Execute, PlanPhase::Apply] {
        plan = environment.drive(&plan, phase, &user).unwrap_or(plan);
    }
    let tokens = TokenService::new(environment.engine.acting_as("ada"));
    let token = NewToken {
        name: "ci".to_owned(),
        grants: vec!["acme=editor".parse().expect("a grant")],
        scopes: [].into(),
        expires_at: None,
    };
    tokens.create(token).expect("a token");
    drop(environment);
    database
}

/// The number of rows of each table that has data of users.
fn rows(database: &TestDatabase) -> BTreeMap<String, u64> {
    let tables = database.ask(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' \
         AND name NOT LIKE 'message_search%' AND name NOT IN ('schema_migrations', 'search_mark')",
    );
    let count = |table: &str| database.count(&format!("SELECT COUNT(*) FROM {table}"));
    let tables = tables.into_iter().flatten();
    tables.map(|table| (table.clone(), count(&table))).collect()
}

fn every_row_of_every_table_is_kept() {
    let database = database_with_plan();
    let before = rows(&database);
    for table in [
        "audit_entries",
        "blobs",
        "definitions",
        "plan_decisions",
        "plan_projects",
        "plan_steps",
        "plans",
        "run_steps",
        "token_grants",
        "tokens",
        "tool_invocations",
        "validation_results",
    ] {
        assert_ne!(before.get(table), Some(&0), "{table} proves nothing");
    }
    let report = salvage(&database.file(), &Options::default()).expect("salvaged");
    assert_eq!(report.incomplete, [""; 0]);
    assert_eq!(rows(&database), before);
    let engine = database.open();
    let checks = engine.check().expect("checked");
    assert!(
        checks.iter().all(|check| check.severity == Severity::Ok),
        "{checks:?}"
    );
    let audit = AuditService::new(Arc::clone(&engine));
    audit.verify(None).expect("the audit log is complete");
}

fn rows_whose_parent_is_lost_are_removed() {
    let database = database_with_plan();
    database.execute_sql("PRAGMA foreign_keys = OFF; DELETE FROM tokens; DELETE FROM runs;");
    salvage(&database.file(), &Options::default()).expect("salvaged");
    assert_eq!(
        database.ask("PRAGMA foreign_key_check"),
        Vec::<Vec<String>>::new()
    );
    let after = rows(&database);
    assert_eq!((after["token_grants"], after["run_steps"]), (0, 0));
    assert_ne!((after["audit_entries"], after["plans"]), (0, 0));
}
