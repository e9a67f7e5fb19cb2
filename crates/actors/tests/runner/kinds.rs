//! Tests of each kind of node.

use std::sync::Arc;

use cleveragents_actors::Reducer;
use cleveragents_actors::graph::{
    AgentNode, Argument, Memory, RouterRule, SubgraphNode, TextMatch,
};
use cleveragents_actors::ports::{FailureKind, NoLog};
use cleveragents_actors::{NodeKind, RunError};
use serde_json::{Value, json};

use crate::draft::{
    Draft, agent, bare_agent, call, expression, function, map, pairs, subgraph, template, tool,
};
use crate::fixtures::{Echo, failure, model_call, paths, run, run_failing, run_new, state};

#[test]
fn an_agent_writes_its_key_and_the_conversation() {
    let actor = Draft::new(&["ask"])
        .does("ask", agent("About {{ input }}?", "reply"))
        .exit("ask")
        .actor();
    let (outcome, steps) = run_new(&actor, json!({"input": "bees"}));
    assert_eq!(outcome.output, json!("[About bees?]"), "the last answer");
    assert_eq!(
        *outcome.state.values(),
        *state(json!({
            "input": "bees",
            "messages": [
                {"role": "user", "content": "About bees?"},
                {"role": "assistant", "content": "[About bees?]"},
            ],
            "reply": "[About bees?]",
        }))
        .values()
    );
    assert_eq!(outcome.usage, model_call());
    assert_eq!((outcome.steps, outcome.recalled), (1, 0));
    assert_eq!(outcome.last.as_deref(), Some("ask#0"));
    assert_eq!((steps[0].kind.as_str(), &steps[0].next), ("agent", &None));
}

#[test]
fn an_agent_without_a_prompt_uses_the_input() {
    let kind = NodeKind::Agent(AgentNode {
        agent: Arc::new(bare_agent()),
        prompt: None,
        output: "output".to_owned(),
    });
    let actor = Draft::new(&["ask"]).does("ask", kind).exit("ask").actor();
    let (outcome, _) = run_new(&actor, json!({"input": {"a": 1}}));
    assert_eq!(outcome.output, json!(r#"[{"a":1}]"#));
    let error = run_failing(&actor, json!({}), &Echo::default());
    assert!(error.to_string().contains("`input`"), "{error}");
}

#[test]
fn an_agent_receives_the_conversation_within_its_memory_limits() {
    let earlier = json!([
        {"role": "user", "content": "12345678"},
        {"role": "assistant", "content": "1234"},
        {"role": "user", "content": "12345678"},
    ]);
    for (memory, expected) in [
        (Memory::default(), 3),
        (
            Memory {
                enabled: false,
                ..Memory::default()
            },
            0,
        ),
        (
            Memory {
                max_messages: Some(2),
                ..Memory::default()
            },
            2,
        ),
        (
            Memory {
                max_messages: Some(9),
                ..Memory::default()
            },
            3,
        ),
        (
            Memory {
                max_tokens: Some(3),
                ..Memory::default()
            },
            2,
        ),
        (
            Memory {
                max_tokens: Some(1),
                ..Memory::default()
            },
            0,
        ),
    ] {
        let mut configured_agent = bare_agent();
        configured_agent.memory = memory;
        configured_agent.system_prompt = Some(template("Be {{ context.mood }}."));
        let kind = NodeKind::Agent(AgentNode {
            agent: Arc::new(configured_agent),
            prompt: Some(template("So?")),
            output: "output".to_owned(),
        });
        let mut draft = Draft::new(&["ask"]).does("ask", kind).exit("ask");
        draft.context.insert("mood".to_owned(), json!("kind"));
        let echo = Echo::default();
        run(
            &draft.actor(),
            &state(json!({ "messages": earlier })),
            &echo,
            &NoLog,
        )
        .expect("a run");
        let asked = echo.asked.lock().expect("not poisoned");
        assert_eq!(asked[0].messages, expected, "{memory:?}");
        assert_eq!(asked[0].system.as_deref(), Some("Be kind."));
    }
}

#[test]
fn tools_are_called_one_after_the_other() {
    let kind = NodeKind::Tool(cleveragents_actors::graph::ToolNode {
        calls: vec![
            call("local/first", &[("x", "number + 1")]),
            call("local/second", &[("list", "[number, 'a']")]),
        ],
        output: "found".to_owned(),
    });
    let actor = Draft::new(&["call"])
        .does("call", kind)
        .exit("call")
        .actor();
    let (outcome, steps) = run_new(&actor, json!({"number": 4}));
    assert_eq!(
        outcome.state.get("found"),
        Some(&json!([
            {"tool": "local/first", "arguments": {"x": 5}},
            {"tool": "local/second", "arguments": {"list": [4, "a"]}},
        ]))
    );
    assert_eq!(outcome.usage.tool_calls, 2);
    assert_eq!(steps[0].usage.tool_calls, 2);
}

#[test]
fn a_retry_continues_with_the_call_that_failed() {
    let kind = NodeKind::Tool(cleveragents_actors::graph::ToolNode {
        calls: vec![call("local/first", &[]), call("local/second", &[])],
        output: "found".to_owned(),
    });
    let actor = Draft::new(&["call"])
        .does("call", kind)
        .retries("call", 2)
        .exit("call")
        .actor();
    let echo = Echo::failing(
        "call#0!1",
        vec![
            failure(FailureKind::Failed, "once"),
            failure(FailureKind::Timeout, "twice"),
        ],
    );
    run(&actor, &state(json!({})), &echo, &NoLog).expect("a run");
    let calls = echo.calls.lock().expect("not poisoned").clone();
    assert_eq!(
        calls,
        [("call#0".to_owned(), 0, 0), ("call#0".to_owned(), 1, 2)]
    );
}

#[test]
fn a_conditional_takes_the_first_true_condition() {
    let draft = || {
        Draft::new(&["check", "low", "high", "other"])
            .does("low", function(&[("went", "'low'")]))
            .does("high", function(&[("went", "'high'")]))
            .does("other", function(&[("went", "'other'")]))
            .exit("low")
            .exit("high")
            .exit("other")
    };
    let checks = [("x < 10", "low"), ("x > 20", "high"), ("x < 5", "other")];
    let actor = draft().conditional("check", &checks, Some("other")).actor();
    for (x, went) in [(3, "low"), (30, "high"), (15, "other")] {
        let (outcome, steps) = run_new(&actor, json!({ "x": x }));
        assert_eq!(outcome.state.get("went"), Some(&json!(went)));
        assert_eq!(steps[0].next.as_deref(), Some(went));
    }
    let by_edge = draft()
        .conditional("check", &checks, None)
        .edge_if("check", "x == 15", "other")
        .actor();
    let (outcome, _) = run_new(&by_edge, json!({"x": 15}));
    assert_eq!(outcome.state.get("went"), Some(&json!("other")));
    let error = run_failing(&by_edge, json!({"x": 16}), &Echo::default());
    assert!(matches!(error, RunError::NoMatchingEdge { path } if path == "check#0"));
}

#[test]
fn an_exit_ends_the_run_unless_its_condition_continues() {
    let actor = Draft::new(&["again", "bump"])
        .conditional("again", &[("n < 3", "bump")], None)
        .exit("again")
        .does("bump", function(&[("n", "n + 1")]))
        .edge("bump", "again")
        .edge("again", "bump")
        .actor();
    let (outcome, steps) = run_new(&actor, json!({"n": 0}));
    assert_eq!(outcome.state.get("n"), Some(&json!(3)));
    assert_eq!(
        paths(&steps),
        [
            "again#0", "bump#0", "again#1", "bump#1", "again#2", "bump#2", "again#3"
        ]
    );
}

#[test]
fn a_router_matches_the_text_and_passes_it_on() {
    let draft = Draft::new(&["route", "a", "b", "c", "d", "e"]);
    let rule = |text_match, target: &str, strip| RouterRule {
        text_match,
        target: draft.at(target),
        strip,
    };
    let rules = vec![
        rule(TextMatch::Prefix("GOTO a:".to_owned()), "a", true),
        rule(TextMatch::Suffix("!!".to_owned()), "b", false),
        rule(TextMatch::Contains("middle".to_owned()), "c", true),
        rule(TextMatch::Equals("exactly".to_owned()), "d", true),
        rule(
            TextMatch::Check(expression("message | length > 20 and input")),
            "a",
            true,
        ),
    ];
    let mut draft = draft.router("route", rules, Some("e"));
    for id in ["a", "b", "c", "d", "e"] {
        draft = draft
            .does(id, function(&[("went", &format!("'{id}'"))]))
            .exit(id);
    }
    let actor = draft.actor();
    for (text, went, routed) in [
        ("GOTO a: do it", "a", "do it"),
        ("stop!!", "b", "stop!!"),
        ("in the middle of it", "c", "in the middle of it"),
        ("exactly", "d", "exactly"),
        ("not exactly this long", "a", "not exactly this long"),
        ("goto a: no", "e", "goto a: no"),
    ] {
        for input in [
            json!({ "input": text }),
            json!({"input": "x", "messages": [{"role": "assistant", "content": text}]}),
        ] {
            let (outcome, _) = run_new(&actor, input);
            assert_eq!(outcome.state.get("went"), Some(&json!(went)), "{text}");
            assert_eq!(outcome.state.get("routed_message"), Some(&json!(routed)));
        }
    }
}

#[test]
fn a_function_computes_everything_from_the_state_before_it() {
    let actor = Draft::new(&["swap"])
        .does("swap", function(&[("a", "b"), ("b", "a"), ("n", "1")]))
        .key("n", Reducer::Sum, json!(41))
        .exit("swap")
        .actor();
    let (outcome, _) = run_new(&actor, json!({"a": 1, "b": [2]}));
    assert_eq!(outcome.state, state(json!({"a": [2], "b": 1, "n": 42})));
}

#[test]
fn a_subgraph_returns_the_keys_it_changed() {
    let inner = Draft::new(&["ask", "count"])
        .does("ask", agent("{{ input }}", "output"))
        .edge("ask", "count")
        .does(
            "count",
            function(&[("n", "2"), ("seen", "n"), ("log", "'inner'")]),
        )
        .exit("count")
        .key("n", Reducer::Sum, json!(100))
        .key("log", Reducer::Append, Value::Null)
        .actor();
    let actor = Draft::new(&["part"])
        .does("part", subgraph(inner))
        .exit("part")
        .key("n", Reducer::Sum, json!(1))
        .actor();
    let (outcome, steps) = run_new(
        &actor,
        json!({"input": "q", "messages": ["before"], "untouched": true}),
    );
    assert_eq!(paths(&steps), ["part#0/ask#0", "part#0/count#0", "part#0"]);
    assert_eq!(
        outcome.state,
        state(json!({
            "input": "q",
            "messages": [
                "before",
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": "[q]"},
            ],
            "untouched": true,
            // Both actors use `sum`, so the combined inner updates are added. The inner initial value is not used,
            // because the key already had a value.
            "n": 3,
            "seen": 1,
            "output": "[q]",
            // The outer actor replaces this key with the final inner list.
            "log": ["inner"],
        }))
    );
    assert_eq!(outcome.steps, 3);
    assert_eq!(steps[2].inside.steps, 2);
    assert_eq!(steps[2].inside.usage, model_call());
    assert_eq!(outcome.usage, model_call());
}

#[test]
fn a_subgraph_with_input_and_output_is_isolated_from_the_outer_state() {
    let kind = |input, output| {
        NodeKind::Subgraph(SubgraphNode {
            actor: Arc::new(
                Draft::new(&["set"])
                    .does(
                        "set",
                        function(&[("answer", "question ~ '!'"), ("more", "1")]),
                    )
                    .exit("set")
                    .actor(),
            ),
            input,
            output,
        })
    };
    let actor = Draft::new(&["part"])
        .does(
            "part",
            kind(
                Some(pairs(&[("question", "input")])),
                Some(vec![
                    ("reply".to_owned(), Argument::Value(expression("answer"))),
                    ("fixed".to_owned(), Argument::Plain(json!(1))),
                ]),
            ),
        )
        .exit("part")
        .actor();
    let (outcome, _) = run_new(&actor, json!({"input": "q"}));
    assert_eq!(
        outcome.state,
        state(json!({"input": "q", "reply": "q!", "fixed": 1}))
    );
    assert_eq!(outcome.output, json!(1), "the last output of the subgraph");

    let blind = Draft::new(&["part"])
        .does("part", kind(Some(Vec::new()), None))
        .exit("part")
        .actor();
    let error = run_failing(&blind, json!({"question": "hidden"}), &Echo::default());
    assert!(
        matches!(&error, RunError::Expression { path, why }
        if path == "part#0/set#0" && why.to_string().contains("question")),
        "{error}"
    );
}

#[test]
fn results_of_a_map_are_in_the_order_of_the_items() {
    let inner = Draft::new(&["say"])
        .does("say", function(&[("output", "item * 10")]))
        .exit("say")
        .actor();
    for (each, expected) in [
        (agent("{{ item }}", "x"), json!(["[1]", "[2]", "[3]"])),
        (function(&[("y", "item + base")]), json!([101, 102, 103])),
        (
            function(&[("y", "item"), ("z", "0")]),
            json!([{"y": 1, "z": 0}, {"y": 2, "z": 0}, {"y": 3, "z": 0}]),
        ),
        (
            tool("local/t", &[("i", "item")], "x"),
            json!([
                {"tool": "local/t", "arguments": {"i": 1}},
                {"tool": "local/t", "arguments": {"i": 2}},
                {"tool": "local/t", "arguments": {"i": 3}},
            ]),
        ),
        (subgraph(inner), json!([10, 20, 30])),
    ] {
        let actor = Draft::new(&["all"])
            .does("all", map("numbers", each, "answers", 2))
            .exit("all")
            .actor();
        let (outcome, mut steps) = run_new(&actor, json!({"numbers": [1, 2, 3], "base": 100}));
        assert_eq!(outcome.state.get("answers"), Some(&expected));
        assert_eq!(outcome.output, expected);
        assert!(
            outcome.state.get("messages").is_none(),
            "items add no messages"
        );
        assert_eq!(steps.pop().expect("a step").path, "all#0");
        let mut items: Vec<&str> = paths(&steps);
        items.retain(|path| path.ends_with(']'));
        items.sort_unstable();
        assert_eq!(items, ["all#0[0]", "all#0[1]", "all#0[2]"]);
    }
}

#[test]
fn a_map_accepts_an_empty_list_and_refuses_other_types() {
    let actor = Draft::new(&["all"])
        .does(
            "all",
            map("numbers", function(&[("y", "item")]), "answers", 4),
        )
        .exit("all")
        .actor();
    let (outcome, _) = run_new(&actor, json!({"numbers": []}));
    assert_eq!(outcome.output, json!([]));
    let error = run_failing(&actor, json!({"numbers": "abc"}), &Echo::default());
    assert!(error.to_string().contains("a text"), "{error}");
}

#[test]
fn a_map_can_keep_failures_in_its_results() {
    let mut kind = map("[1, 2, 3]", agent("{{ item }}", "x"), "answers", 3);
    if let NodeKind::Map(map) = &mut kind {
        map.keeps_failures = true;
    }
    let actor = Draft::new(&["all"]).does("all", kind).exit("all").actor();
    let echo = Echo::failing("all#0[1]", vec![failure(FailureKind::Failed, "no luck")]);
    let log = crate::fixtures::Memory::default();
    let outcome = run(&actor, &state(json!({})), &echo, &log).expect("a run");
    assert_eq!(outcome.output, json!(["[1]", {"error": "no luck"}, "[3]"]));
    let steps = log.into_steps();
    let failed: Vec<_> = steps.iter().filter(|step| step.error.is_some()).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].path, "all#0[1]");
}

#[test]
fn branches_start_with_the_same_state_and_are_merged_in_order() {
    let actor = Draft::new(&["fan", "a", "a2", "b", "join"])
        .parallel("fan", &["a", "b"], "join")
        .does("a", function(&[("seen", "'a'"), ("x", "'a'"), ("n", "1")]))
        .edge("a", "a2")
        .does("a2", function(&[("seen", "'a2 sees ' ~ x"), ("n", "n")]))
        .edge("a2", "join")
        .does(
            "b",
            function(&[("seen", "'b'"), ("x", "'b after ' ~ x"), ("n", "10")]),
        )
        .edge("b", "join")
        .exit("join")
        .key("seen", Reducer::Append, Value::Null)
        .key("n", Reducer::Sum, json!(0))
        .actor();
    let (outcome, steps) = run_new(&actor, json!({"x": "start"}));
    assert_eq!(
        outcome.state,
        state(json!({
            "x": "b after start",
            "seen": ["a", "a2 sees a", "b"],
            "n": 12,
        }))
    );
    let mut inside = paths(&steps[..3]);
    inside.sort_unstable();
    assert_eq!(inside, ["fan#0:0/a#0", "fan#0:0/a2#0", "fan#0:1/b#0"]);
    assert_eq!(paths(&steps[3..]), ["fan#0", "join#0"]);
    assert_eq!(outcome.steps, 5);
}

#[test]
fn branches_through_the_same_node_have_distinct_paths() {
    let actor = Draft::new(&["fan", "same", "join"])
        .parallel("fan", &["same", "same"], "join")
        .does("same", function(&[("n", "1")]))
        .edge("same", "join")
        .exit("join")
        .key("n", Reducer::Sum, json!(0))
        .actor();
    let (outcome, steps) = run_new(&actor, json!({}));
    assert_eq!(outcome.state.get("n"), Some(&json!(2)));
    let mut seen = paths(&steps);
    seen.sort_unstable();
    assert_eq!(
        seen,
        ["fan#0", "fan#0:0/same#0", "fan#0:1/same#0", "join#0"]
    );
}

#[test]
fn only_the_answer_shown_to_the_user_is_streamed() {
    let inner = || {
        Draft::new(&["first", "second"])
            .does("first", agent("1", "x"))
            .edge("first", "second")
            .does("second", agent("2", "x"))
            .exit("second")
            .actor()
    };
    let actor = Draft::new(&["draft", "fan", "side", "join", "all", "last"])
        .does("draft", subgraph(inner()))
        .edge("draft", "fan")
        .parallel("fan", &["side", "side"], "join")
        .does("side", agent("s", "x"))
        .exit("side")
        .edge("join", "all")
        .does("all", map("[1]", subgraph(inner()), "y", 1))
        .edge("all", "last")
        .does("last", subgraph(inner()))
        .exit("last")
        .actor();
    let echo = Echo::default();
    run(&actor, &state(json!({})), &echo, &NoLog).expect("a run");
    let asked = echo.asked.lock().expect("not poisoned");
    let streamed: Vec<&str> = asked
        .iter()
        .filter(|asked| asked.is_streamed)
        .map(|asked| asked.path.as_str())
        .collect();
    assert_eq!(streamed, ["last#0/second#0"]);
    assert_eq!(asked.len(), 8);
}
