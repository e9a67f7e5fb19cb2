//! Attachments of validations to resources, and validation results of plans.

use cleveragents_domain::{ContentHash, PlanId, ValidationMode, ValidationResult, ValidationScope};
use cleveragents_store::definitions::{self, DefinitionKind};
use cleveragents_store::{Engine, blobs, plans, validations};
use cleveragents_testkit::{TestDatabase, at_once};
use serde_json::json;

fn add_plan(engine: &Engine) -> PlanId {
    let plan = PlanId::generate();
    engine
        .write(move |unit| plans::insert(unit, &plans::NewPlan::empty(plan)))
        .expect("stored");
    plan
}

fn result(message: &str, output: Option<ContentHash>) -> ValidationResult {
    ValidationResult {
        validation: "local/tests".to_owned(),
        mode: ValidationMode::Informational,
        attachment_id: None,
        resource: Some("local/api".to_owned()),
        scope: ValidationScope::Done,
        scope_target: None,
        definition_hash: "sha256:0".to_owned(),
        passed: false,
        message: message.to_owned(),
        data: Some(json!({"metrics": {"tests": 3}})),
        output,
        duration_ms: 5,
        attempt: 2,
        position: 7,
    }
}

#[test]
fn results_are_stored_unchanged_with_consecutive_numbers() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let plan = add_plan(&engine);
        let other = add_plan(&engine);
        // Eight threads record results concurrently; each number is assigned once.
        at_once(8, |number| {
            let found = result(&number.to_string(), None);
            let stored = engine.write(move |unit| validations::record(unit, plan, &found));
            assert!(matches!(stored, Ok(Some(_))), "{stored:?}");
        });
        let found = engine
            .read(|reader| validations::results(reader, plan))
            .expect("read");
        let numbers: Vec<u64> = found.iter().map(|stored| stored.number).collect();
        assert_eq!(numbers, (0..8).collect::<Vec<u64>>(), "{}", database.kind);
        for stored in &found {
            assert_eq!(stored.result, result(&stored.result.message, None));
        }
        let none = engine.read(|reader| validations::results(reader, other));
        assert!(none.expect("read").is_empty());
        let missing_plan = PlanId::generate();
        let refused =
            engine.write(move |unit| validations::record(unit, missing_plan, &result("x", None)));
        assert_eq!(refused.expect("no error"), None);
    }
}

#[test]
fn output_of_a_validation_is_kept_with_its_result() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let plan = add_plan(&engine);
        let hash = engine
            .write(move |unit| {
                let hash = blobs::put(unit, b"all that it printed")?;
                validations::record(unit, plan, &result("x", Some(hash)))?;
                Ok::<_, cleveragents_store::Error>(hash)
            })
            .expect("stored");
        database.execute_sql("UPDATE blobs SET created_at = 0");
        assert_eq!(engine.write(blobs::collect), Ok(0), "{}", database.kind);
        let is_sound = |engine: &Engine| {
            let checks = engine.check().expect("checked");
            let check = checks
                .iter()
                .find(|check| check.name == "validation outputs");
            check.expect("it is checked").detail == "sound"
        };
        assert!(is_sound(&engine));
        database.execute_sql("DELETE FROM blobs");
        assert!(!is_sound(&engine), "{}", database.kind);
        let stored_again = engine.write(|unit| blobs::put(unit, b"all that it printed"));
        assert_eq!(stored_again, Ok(hash));
        database.execute_sql("DELETE FROM plans");
        database.execute_sql("UPDATE blobs SET created_at = 0");
        assert_eq!(engine.write(blobs::collect), Ok(1), "{}", database.kind);
    }
}

#[test]
fn tools_and_validations_share_one_namespace() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let insert = |kind: DefinitionKind| {
            engine.write(move |unit| definitions::insert(unit, kind, "local/x", "text", "file"))
        };
        assert_eq!(insert(DefinitionKind::Validation), Ok(true));
        assert_eq!(insert(DefinitionKind::Tool), Ok(false));
        let update = engine.write(|unit| {
            definitions::update(unit, DefinitionKind::Tool, "local/x", "new", "file")
        });
        assert_eq!(update, Ok(false), "it is no tool");
        let remove =
            engine.write(|unit| definitions::remove(unit, DefinitionKind::Tool, "local/x"));
        assert_eq!(remove, Ok(false), "it is no tool");
        let list = |kind: DefinitionKind| {
            let all = engine.read(|reader| definitions::list(reader, kind));
            all.expect("read").len()
        };
        assert_eq!(
            (list(DefinitionKind::Tool), list(DefinitionKind::Validation)),
            (0, 1)
        );
    }
}
