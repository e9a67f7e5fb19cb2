//! Objects that an unfinished plan uses cannot be removed. Each test runs on both databases.

use std::sync::Arc;

use cleveragents_application::{McpService, SkillService, ToolService};
use cleveragents_domain::{Code, Diagnose as _, PlanId, StepCall};
use cleveragents_store::Engine;
use cleveragents_store::definitions::{self, DefinitionKind};
use cleveragents_store::plans::NewPlan;
use cleveragents_testkit::{TestDatabase, plans};
use serde_json::json;

/// Registers a tool, a tool that wraps it, MCP servers, and skills and actors that refer to these
/// in every supported way.
fn register(engine: &Arc<Engine>) {
    use DefinitionKind::{Actor, McpServer, Skill};
    let definitions = [
        (McpServer, "clock", r#"{"name": "clock", "command": "x"}"#),
        (McpServer, "other", r#"{"name": "other", "command": "x"}"#),
        (
            Skill,
            "local/counting",
            "name: local/counting\ntools: [{name: local/count}]\n",
        ),
        (
            Skill,
            "local/timing",
            "name: local/timing\nmcp_servers: [{name: clock}]\n",
        ),
        (
            Actor,
            "local/plain",
            "name: local/plain\nmodel: m/x\ntools: [\"local/*\", builtin/shell]\n",
        ),
        (
            Actor,
            "local/direct",
            "name: local/direct\nmodel: m/x\ntools: [count]\n",
        ),
        (
            Actor,
            "local/wire",
            "name: local/wire\ntool: local_S_count\n",
        ),
        (
            Actor,
            "local/wrapping",
            "name: local/wrapping\ntools: [local/around]\n",
        ),
        (
            Actor,
            "local/skilled",
            "name: local/skilled\nskills: [counting]\n",
        ),
        (
            Actor,
            "local/source",
            "name: local/source\ntool_sources: [{type: skill, name: local/timing}]\n",
        ),
        (
            Actor,
            "local/server",
            "name: local/server\nmcp_servers: [clock]\n",
        ),
        (
            Actor,
            "local/servertool",
            "name: local/servertool\ntools: [clock/now]\n",
        ),
        (
            Actor,
            "local/graph",
            "name: local/graph\nnodes:\n  a: {actor_ref: local/direct}\n  b: {actor_ref: server}\n  c: {actor_ref: graph}\n",
        ),
    ];
    let tools = [
        ("local/count", "name: local/count\ncommand: wc\n"),
        ("local/around", "name: local/around\nwraps: local/count\n"),
    ];
    plans::write(engine, move |unit| {
        for (kind, name, text) in &definitions {
            assert!(definitions::insert(unit, *kind, name, text, "file")?);
        }
        for (name, text) in &tools {
            assert!(definitions::insert(
                unit,
                DefinitionKind::Tool,
                name,
                text,
                "file"
            )?);
        }
        Ok(())
    });
}

fn plan_of(actor: &str) -> NewPlan {
    let mut new = plans::new_plan("p");
    new.inputs.actors.review = Some(actor.to_owned());
    new
}

fn cancel(engine: &Arc<Engine>, plan: PlanId) {
    plans::write(engine, move |unit| {
        cleveragents_store::plans::advance(
            unit,
            plan,
            cleveragents_domain::StageTransition::Cancel,
            &cleveragents_store::plans::TransitionDetails::default(),
        )
    });
}

#[test]
fn a_tool_of_an_unfinished_plan_cannot_be_removed() {
    for database in TestDatabase::each() {
        let engine = database.open();
        register(&engine);
        let service = ToolService::new(Arc::clone(&engine));
        let is_registered = || {
            let stored = engine.read(|reader| definitions::list(reader, DefinitionKind::Tool));
            let stored = stored.expect("read");
            stored.iter().any(|tool| tool.name == "local/count")
        };
        let mut calling = plans::new_plan("p");
        calling.definition_of_done = "- call `local/count` with `{}`".to_owned();
        let users = ["direct", "wire", "wrapping", "local/skilled", "graph"].map(plan_of);
        for new in users.into_iter().chain([calling]) {
            let plan = plans::store(&engine, &new);
            let error = service
                .remove("count", &|_| None)
                .expect_err("the plan needs it");
            assert_eq!(error.code(), Code::ToolInUse, "{new:?}");
            assert_eq!(error.details()["plans"], json!([plan]));
            assert!(
                error
                    .hint()
                    .is_some_and(|hint| hint.neutral().contains(&plan.to_string()))
            );
            assert!(is_registered());
            cancel(&engine, plan);
        }
        // Plans with these actors do not need the tool.
        for actor in ["plain", "server", "servertool", "openai/gpt-5.1"] {
            plans::store(&engine, &plan_of(actor));
        }
        service
            .remove("count", &|_| None)
            .expect("no plan needs it");
        assert!(!is_registered());
    }
}

#[test]
fn a_tool_that_a_step_calls_cannot_be_removed() {
    let database = TestDatabase::each().remove(0);
    let engine = database.open();
    register(&engine);
    let service = ToolService::new(Arc::clone(&engine));
    let plan = plans::store(&engine, &plans::new_plan("p"));
    let strategy = cleveragents_domain::PlanStrategy {
        steps: vec![cleveragents_domain::PlanStep {
            title: "Count".to_owned(),
            call: Some(StepCall {
                tool: "local/count".to_owned(),
                arguments: json!({}),
            }),
            ..cleveragents_domain::PlanStep::default()
        }],
        ..cleveragents_domain::PlanStrategy::default()
    };
    plans::write(&engine, move |unit| {
        cleveragents_store::plans::set_strategy(unit, plan, Some(&strategy))
    });
    let error = service
        .remove("local/count", &|_| None)
        .expect_err("a step calls it");
    assert_eq!(error.code(), Code::ToolInUse);
}

#[test]
fn a_server_of_an_unfinished_plan_cannot_be_removed() {
    for database in TestDatabase::each() {
        let engine = database.open();
        register(&engine);
        let service = McpService::new(Arc::clone(&engine));
        for actor in ["server", "servertool", "source", "graph"] {
            let plan = plans::store(&engine, &plan_of(actor));
            let error = service.remove("clock").expect_err("the plan needs it");
            assert_eq!(error.code(), Code::McpServerInUse, "{actor}");
            assert_eq!(error.details()["plans"], json!([plan]));
            assert!(
                error
                    .hint()
                    .is_some_and(|hint| hint.neutral().contains(&plan.to_string()))
            );
            service.get("clock").expect("it is there");
            cancel(&engine, plan);
        }
        plans::store(&engine, &plan_of("server"));
        service.remove("other").expect("no plan names it");
    }
}

#[test]
fn a_skill_that_an_actor_names_cannot_be_removed() {
    let database = TestDatabase::each().remove(0);
    let engine = database.open();
    register(&engine);
    let service = SkillService::new(Arc::clone(&engine), "none".into());
    for name in ["local/counting", "local/timing"] {
        let error = service
            .remove(name, &|_| None)
            .expect_err("an actor names it");
        assert_eq!(error.code(), Code::SkillInUse, "{name}");
    }
}
