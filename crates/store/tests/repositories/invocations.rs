//! Tool calls: a row is stored before the effect and completed once.

use cleveragents_domain::{
    ContentHash, InvocationOutcome, PlanId, SessionId, Timestamp, ToolInvocation, ToolInvocationId,
};
use cleveragents_store::invocations::InvocationFilter;
use cleveragents_store::{Engine, Error, invocations, plans};
use cleveragents_testkit::{TestDatabase, at_once, proof_size};
use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

fn running(plan: PlanId, arguments: Value) -> ToolInvocation {
    ToolInvocation {
        id: ToolInvocationId::generate(),
        plan: Some(plan),
        session: None,

        turn: None,
        call_id: None,
        tool: "builtin/shell".to_owned(),
        arguments,
        outcome: InvocationOutcome::Running,
        output: None,
        log: None,
        media_type: None,
        error: None,

        reason: None,
        is_repeatable: false,
        started_at: Timestamp::now(),
        finished_at: None,
    }
}

fn insert(engine: &Engine, invocation: &ToolInvocation) -> Result<(), Error> {
    let invocation = invocation.clone();
    engine.write(move |unit| invocations::insert(unit, &invocation))
}

fn finish(engine: &Engine, invocation: &ToolInvocation) -> Result<bool, Error> {
    let invocation = invocation.clone();
    engine.write(move |unit| invocations::finish(unit, &invocation))
}

fn get(engine: &Engine, id: ToolInvocationId) -> Option<ToolInvocation> {
    engine
        .read(|reader| invocations::get(reader, id))
        .expect("read")
}

fn add_plan(engine: &Engine) -> PlanId {
    let plan = PlanId::generate();
    engine
        .write(move |unit| plans::insert(unit, &plans::NewPlan::empty(plan)))
        .expect("stored");
    plan
}

/// JSON of any shape, with any strings and numbers.
fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no such number", |number| number.is_finite())
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn arguments_are_stored_unchanged() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let plan = add_plan(&engine);
        let cases = u32::try_from(proof_size(200, 5000)).expect("a small number");
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        TestRunner::new(config)
            .run(&documents(), |document| {
                let call = running(plan, document);
                insert(&engine, &call).expect("stored");
                assert_eq!(
                    get(&engine, call.id).as_ref(),
                    Some(&call),
                    "on {}",
                    database.kind
                );
                Ok(())
            })
            .expect("holds on both databases");
    }
}

#[test]
fn a_call_is_finished_once_with_its_output() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let plan = add_plan(&engine);
        let call = running(plan, json!({"command": "true"}));
        insert(&engine, &call).expect("stored");
        let outcomes = at_once(8, |thread| {
            let mut ended = call.clone();
            ended.outcome = InvocationOutcome::Succeeded;
            ended.output = Some(ContentHash::of_bytes(&thread.to_le_bytes()));
            ended.finished_at = Some(Timestamp::now());
            (finish(&engine, &ended).expect("answered"), ended)
        });
        let winners: Vec<_> = outcomes.iter().filter(|(won, _)| *won).collect();
        assert_eq!(winners.len(), 1, "a call ends once");
        assert_eq!(get(&engine, call.id).as_ref(), Some(&winners[0].1));

        let mut unknown = winners[0].1.clone();
        unknown.id = ToolInvocationId::generate();
        assert_eq!(
            finish(&engine, &unknown),
            Ok(false),
            "the call was never started"
        );
        assert_eq!(get(&engine, unknown.id), None);
    }
}

#[test]
fn only_ended_calls_have_an_end_time() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let plan = add_plan(&engine);
        let mut call = running(plan, json!({}));
        call.finished_at = Some(Timestamp::now());
        assert!(matches!(insert(&engine, &call), Err(Error::Constraint(_))));
        call.finished_at = None;
        call.outcome = InvocationOutcome::Refused;
        assert!(matches!(insert(&engine, &call), Err(Error::Constraint(_))));
        call.finished_at = Some(Timestamp::now());
        call.error = Some("not allowed: 'rm'; \"-rf\"".to_owned());
        insert(&engine, &call).expect("refused at once");
        assert_eq!(get(&engine, call.id), Some(call));
        // A call that is finished without an end time gets the time of its unit of work.
        let mut call = running(plan, json!({}));
        insert(&engine, &call).expect("stored");
        call.outcome = InvocationOutcome::Failed;
        assert_eq!(finish(&engine, &call), Ok(true));
        assert!(get(&engine, call.id).expect("there").finished_at.is_some());
    }
}

#[test]
fn the_calls_of_a_plan_are_listed_oldest_first() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (plan, other) = (add_plan(&engine), add_plan(&engine));
        let calls: Vec<_> = (0..10).map(|number| running(plan, json!(number))).collect();
        for call in calls.iter().rev() {
            insert(&engine, call).expect("stored");
            insert(&engine, &running(other, json!("other"))).expect("stored");
        }
        let listed = engine
            .read(|reader| invocations::of_plan(reader, plan))
            .expect("read");
        assert_eq!(listed, calls);
    }
}

#[test]
fn calls_are_listed_newest_first_by_session_tool_and_outcome() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let plan = add_plan(&engine);
        let mut all = Vec::new();
        for (tool, outcome) in [
            ("builtin/git-log", InvocationOutcome::Succeeded),
            ("builtin/git_log", InvocationOutcome::Refused),
            ("local/100%", InvocationOutcome::Failed),
            ("builtin/shell", InvocationOutcome::Refused),
        ] {
            let mut call = running(plan, json!({}));
            call.tool = tool.to_owned();
            call.outcome = outcome;
            call.log = Some(ContentHash::of_bytes(tool.as_bytes()));
            call.media_type = Some("image/png".to_owned());
            call.finished_at = Some(call.started_at);
            insert(&engine, &call).expect("stored");
            all.push(call);
        }
        all.sort_by_key(|call| std::cmp::Reverse(call.id));
        let listed = |filter: &InvocationFilter| {
            let page = engine
                .read(|reader| invocations::list(reader, filter))
                .expect("read");
            (page.invocations, page.matching)
        };
        assert_eq!(listed(&InvocationFilter::default()), (all.clone(), 4));
        let page = InvocationFilter {
            offset: 1,
            limit: Some(2),
            ..InvocationFilter::default()
        };
        assert_eq!(listed(&page), (all[1..3].to_vec(), 4), "{}", database.kind);
        let beyond = InvocationFilter {
            offset: 9,
            ..InvocationFilter::default()
        };
        assert_eq!(listed(&beyond), (Vec::new(), 4));
        for (pattern, expected) in [
            ("builtin/git-log", vec!["builtin/git-log"]),
            // Characters that are special in SQL are literal here.
            ("builtin/git_log", vec!["builtin/git_log"]),
            ("local/100%", vec!["local/100%"]),
            ("%", vec![]),
            (
                "builtin/git?log",
                vec!["builtin/git-log", "builtin/git_log"],
            ),
            ("*/s*", vec!["builtin/shell"]),
        ] {
            let filter = InvocationFilter {
                tool: Some(pattern.to_owned()),
                ..InvocationFilter::default()
            };
            let mut names: Vec<_> = listed(&filter)
                .0
                .into_iter()
                .map(|call| call.tool)
                .collect();
            names.sort_unstable();
            assert_eq!(names, expected, "{pattern} on {}", database.kind);
        }
        let refused = InvocationFilter {
            outcome: Some(InvocationOutcome::Refused),
            limit: Some(1),
            ..InvocationFilter::default()
        };
        let (calls, matching) = listed(&refused);
        assert_eq!((calls.len(), matching), (1, 2));
        let elsewhere = InvocationFilter {
            session: Some(SessionId::generate()),
            ..InvocationFilter::default()
        };
        assert_eq!(listed(&elsewhere), (Vec::new(), 0));
        let id = all[2].id.to_string();
        let found = |prefix: &str| {
            engine
                .read(|reader| invocations::with_prefix(reader, prefix, 9))
                .expect("read")
        };
        assert_eq!(found(&id), [all[2].clone()], "on {}", database.kind);
        assert_eq!(
            found(&id[..6]).len(),
            4,
            "ids of the same hour share a prefix"
        );
        assert!(found("7ZZZZZ").is_empty());
    }
}

/// A call belongs to its plan, otherwise to the run that owns its session, otherwise to its session.
#[test]
fn calls_are_listed_from_visible_namespaces_only() {
    use cleveragents_domain::identity::Namespaces;
    use cleveragents_domain::{EventKind, RunId, TokenUsage};
    use cleveragents_store::runs::{self, NewRun};
    use cleveragents_store::sessions::{self, NewSession};
    for database in TestDatabase::each() {
        let engine = database.open();
        let session = |namespace: &str, owner: Option<String>| {
            let id = SessionId::generate();
            let new = NewSession {
                owner,
                name: None,
                actor: None,
                namespace: namespace.to_owned(),
                automation: "supervised".to_owned(),
                usage: TokenUsage::default(),
                forked_from: None,
                created_at: None,
            };
            let stored = engine
                .write(move |unit| sessions::insert(unit, id, &new, EventKind::SessionCreated));
            stored.expect("stored");
            id
        };
        let run = NewRun {
            id: RunId::generate(),
            namespace: "acme".to_owned(),
            actor: "builtin/deterministic".to_owned(),
            actor_hash: String::new(),
            definitions: json!({}),
            input: json!({}),
            options: json!({}),
        };
        let owner = runs::owner(run.id);
        let stored = engine.write(move |unit| runs::insert(unit, &run));
        stored.expect("stored");
        let plan = add_plan(&engine);
        let mut calls = Vec::new();
        for (plan, session) in [
            (None, Some(session("acme", None))),
            (None, Some(session("other", None))),
            // The sessions of a run are `local`; the run itself is in `acme`.
            (None, Some(session("local", Some(owner.clone())))),
            // A plan without a project is `local`, regardless of its session.
            (Some(plan), Some(session("acme", None))),
            (None, None),
        ] {
            let mut call = running(PlanId::generate(), json!({}));
            (call.plan, call.session) = (plan, session);
            insert(&engine, &call).expect("stored");
            calls.push(call.id);
        }
        let only = |name: &str| Namespaces::Only([name.to_owned()].into());
        let none = || Namespaces::Only([].into());
        let all = || Namespaces::All;
        for (sessions, plans, runs, expected) in [
            (all(), all(), all(), vec![0, 1, 2, 3, 4]),
            (only("acme"), only("acme"), only("acme"), vec![0, 2]),
            (only("acme"), only("acme"), none(), vec![0]),
            (only("other"), only("other"), only("other"), vec![1]),
            (none(), none(), none(), vec![]),
        ] {
            let filter = InvocationFilter {
                visible: sessions,
                visible_plans: plans,
                visible_runs: runs,
                ..InvocationFilter::default()
            };
            let page = engine.read(|reader| invocations::list(reader, &filter));
            let page = page.expect("read");
            let mut found: Vec<_> = page.invocations.iter().map(|call| call.id).collect();
            found.sort();
            let expected: Vec<_> = expected
                .into_iter()
                .map(|index: usize| calls[index])
                .collect();
            assert_eq!(found, expected, "{} {filter:?}", database.kind);
            assert_eq!(page.matching, expected.len() as u64);
        }
    }
}
