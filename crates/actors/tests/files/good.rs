//! Tests of valid actor files, and of the actors that they compile to.

use cleveragents_actors::graph::{Argument, Role, TextMatch};
use cleveragents_actors::{ActorKind, NodeKind, Reducer};
use serde_json::json;

use crate::support::{ActorFiles, actor, actor_in, agent, exits, id, next, node, try_actor};

#[test]
fn a_flat_model_file_is_compiled() {
    let actor = actor(
        "name: reviewer\ntype: llm\ndescription: Looks at code\nversion: 1.2\nprovider: OpenAI\nmodel: gpt-5\n\
         system_prompt: You are {{ context.team }}.\ntools: ['builtin/file-*']\nskills: [local/file-ops]\n\
         options: {temperature: 0.3, max_tokens: 100, seed: 7}\nmemory: {max_messages: 5}\n\
         context_view: reviewer\nrole_hint: review\nunsafe: true\nglobal_context: {team: core}\n\
         response_format: {type: object, properties: {score: {type: integer}}}\n",
    );
    assert_eq!(
        (actor.name.as_str(), actor.kind),
        ("local/reviewer", ActorKind::Llm)
    );
    assert_eq!(actor.version.as_deref(), Some("1.2"));
    assert_eq!(actor.role, Some(Role::Review));
    assert!(actor.is_unsafe);
    assert_eq!(actor.context.get("team"), Some(&json!("core")));
    assert_eq!(actor.warnings, Vec::<String>::new());
    let agent = agent(&actor.graph, "reviewer");
    assert_eq!(agent.model.as_deref(), Some("openai/gpt-5"));
    assert_eq!(
        (agent.temperature, agent.max_output_tokens),
        (Some(0.3), Some(100))
    );
    assert_eq!(
        agent.options,
        *json!({"seed": 7}).as_object().expect("a map")
    );
    assert_eq!(agent.tools, ["builtin/file-*"]);
    assert_eq!(agent.skills, ["local/file-ops"]);
    assert_eq!(agent.memory.max_messages, Some(5));
    assert_eq!(agent.context_view.as_deref(), Some("apply"));
    let format = agent.response_format.as_ref().expect("a response format");
    assert_eq!((format.name.as_str(), format.strict), ("reviewer", true));
    assert_eq!(exits(&actor.graph), ["reviewer"]);
}

#[test]
fn a_flat_tool_file_is_compiled() {
    let actor = actor(
        "name: local/look\ntype: tool\ntools:\n- builtin/file-read\n- {tool: builtin/git-diff, arguments: {all: true}}\n\
         arguments: {path: '{{ input }}', lines: ['{{ first }}', 2]}\n",
    );
    let NodeKind::Tool(tool) = &node(&actor.graph, "look").kind else {
        panic!("no tool");
    };
    assert_eq!(tool.calls.len(), 2);
    assert_eq!(
        tool.calls[1].arguments,
        Argument::Plain(json!({"all": true}))
    );
    let Argument::Map(arguments) = &tool.calls[0].arguments else {
        panic!("no map");
    };
    assert!(matches!(&arguments[0].1, Argument::Value(value) if value.text() == "input"));
    assert!(matches!(&arguments[1].1, Argument::List(items) if items.len() == 2));
}

#[test]
fn a_file_with_several_actors_and_routes_is_compiled() {
    let actor = actor(
        "name: local/triage\ncleveragents: {version: '3.0', default_actor: flow}\nactors:\n  desk:\n    type: llm\n    \
         config: {actor: openai/gpt-4o, temperature: 0.3, system_prompt: Be kind.}\n    skills: [local/file-ops]\n  \
         clerk: {type: llm, config: {provider: openai, model: gpt-4o}}\nroutes:\n  flow:\n    entry_point: ask\n    \
         nodes:\n      ask: {type: agent, config: {agent: desk}}\n      again: {type: llm, agent: clerk, prompt: 'Again: {{ output }}'}\n    \
         edges:\n    - {source: ask, target: again, condition: {context_value: mood, equals: bad}}\n    \
         - {source: ask, target: end}\n    - {source: again, target: ask, condition: {type: context_value, key: mood, value: null}}\n    \
         - {from: again, to: end, when: done}\n",
    );
    assert_eq!(actor.kind, ActorKind::Graph);
    let desk = agent(&actor.graph, "ask");
    assert_eq!(
        (desk.name.as_str(), desk.model.as_deref()),
        ("desk", Some("openai/gpt-4o"))
    );
    assert_eq!(desk.skills, ["local/file-ops"]);
    assert_eq!(next(&actor.graph, "ask"), ["again", "end"]);
    assert_eq!(next(&actor.graph, "again"), ["ask", "end"]);
    assert_eq!(exits(&actor.graph), ["end"]);
    let condition = |source: &str| {
        node(&actor.graph, source).edges[0]
            .condition
            .as_ref()
            .expect("a condition")
            .text()
    };
    assert_eq!(condition("ask"), "mood is defined and mood == \"bad\"");
    assert_eq!(condition("again"), "mood is defined and mood == none");
}

#[test]
fn remote_agents_are_compiled() {
    let standalone = actor(
        "name: acme/remote\nurl: https://agents.example/\ntoken_env: A2A_TOKEN\ntimeout: 2.5\n",
    );
    assert_eq!(standalone.kind, ActorKind::A2a);
    let agent = agent(&standalone.graph, "remote");
    let remote = agent.remote.as_ref().expect("an agent");
    assert_eq!(remote.url, "https://agents.example/");
    assert_eq!(remote.token_variable.as_deref(), Some("A2A_TOKEN"));
    assert_eq!(remote.timeout, Some(std::time::Duration::from_millis(2500)));
    assert_eq!((agent.name.as_str(), &agent.model), ("acme/remote", &None));

    // An agent that is defined inside a file runs as a subgraph with its own name.
    let file = actor(
        "name: acme/both\ntype: graph\nactors:\n  there: {type: a2a, url: 'https://agents.example'}\nnodes:\n  \
         ask: {agent: there, prompt: 'Say {{ input }}'}\n",
    );
    let NodeKind::Subgraph(inner) = &node(&file.graph, "ask").kind else {
        panic!("no subgraph");
    };
    let inside = self::agent(&inner.actor.graph, "there");
    assert_eq!(inside.name, "acme/both:there");
    assert!(inside.remote.is_some());
}

#[test]
fn legacy_files_are_compiled() {
    let actor = actor(
        "name: local/old\nprovider_type: openai\nmodel_id: gpt-4\noptions: {top_p: 0.5}\nunsafe: false\n\
         capabilities: {supports_tools: true}\nsource: somewhere\n",
    );
    assert_eq!(actor.kind, ActorKind::Llm);
    assert_eq!(
        agent(&actor.graph, "old").model.as_deref(),
        Some("openai/gpt-4")
    );
    assert_eq!(actor.warnings.len(), 2, "{:?}", actor.warnings);
    let graph = self::actor(
        "name: local/old\nmodel: openai/gpt-4\ngraph_descriptor:\n  children:\n  - {id: a, prompt: x}\n  entrypoint: a\n  exitpoints: [a]\n",
    );
    assert_eq!(
        agent(&graph.graph, "a").model.as_deref(),
        Some("openai/gpt-4")
    );
}

#[test]
fn edges_from_branches_to_their_join_can_be_omitted() {
    let actor = actor(
        "name: local/r\ntype: graph\nmodel: openai/x\nstate: {reviews: append, score: {reducer: sum, initial: 0}}\nnodes:\n  \
         all: {parallel: [a, b], join: judge}\n  a: {prompt: A, output: reviews}\n  \
         b: {prompt: B, output: reviews, next: b2}\n  b2: {prompt: C, output: reviews}\n  judge: {prompt: '{{ reviews }}'}\n",
    );
    assert_eq!(next(&actor.graph, "a"), ["judge"]);
    assert_eq!(next(&actor.graph, "b"), ["b2"]);
    assert_eq!(next(&actor.graph, "b2"), ["judge"]);
    assert_eq!(exits(&actor.graph), ["judge"]);
    assert_eq!(actor.graph.keys["reviews"].reducer, Reducer::Append);
    assert_eq!(actor.graph.keys["score"].initial, Some(json!(0)));
    assert_eq!(actor.warnings, Vec::<String>::new());
    let NodeKind::Parallel(parallel) = &node(&actor.graph, "all").kind else {
        panic!("not parallel");
    };
    assert_eq!(id(&actor.graph, parallel.join), "judge");
    assert_eq!(parallel.concurrency, 2);
}

#[test]
fn branches_that_overwrite_each_other_cause_a_warning() {
    let actor = actor(
        "name: local/r\ntype: graph\nnodes:\n  all: {parallel: [a, b], join: c}\n  a: {prompt: A}\n  b: {prompt: B}\n  c: {prompt: C}\n",
    );
    assert_eq!(actor.warnings.len(), 1);
    assert!(
        actor.warnings[0].contains("write `output`"),
        "{:?}",
        actor.warnings
    );
}

#[test]
fn every_kind_of_node_is_compiled() {
    let actor = actor(EVERY);
    let graph = &actor.graph;
    let NodeKind::Router(router) = &node(graph, "route").kind else {
        panic!("no router");
    };
    assert_eq!(
        router.rules[0].text_match,
        TextMatch::Prefix("/fix".to_owned())
    );
    assert_eq!(
        router.rules[1].text_match,
        TextMatch::Contains("help".to_owned())
    );
    assert_eq!(
        router.rules[2].text_match,
        TextMatch::Equals("quit".to_owned())
    );
    assert!(
        matches!(&router.rules[3].text_match, TextMatch::Check(check) if check.text().contains("urgent"))
    );
    assert_eq!(router.rules[4].text_match, TextMatch::Always);
    assert!(router.rules[0].strip && !router.rules[1].strip);
    let NodeKind::Conditional(choice) = &node(graph, "choose").kind else {
        panic!("not conditional");
    };
    assert_eq!(choice.conditions.len(), 2);
    assert_eq!(choice.otherwise.map(|index| id(graph, index)), Some("calm"));
    let NodeKind::Map(map) = &node(graph, "all").kind else {
        panic!("no map");
    };
    assert_eq!(
        (map.item.as_str(), map.concurrency, map.output.as_str()),
        ("part", 8, "parts")
    );
    assert!(map.keeps_failures && matches!(&*map.each, NodeKind::Tool(_)));
    let NodeKind::Function(function) = &node(graph, "loud").kind else {
        panic!("no function");
    };
    assert!(matches!(&function.set[0].1, Argument::Value(value) if value.text() == "output|upper"));
    let NodeKind::Subgraph(sub) = &node(graph, "deep").kind else {
        panic!("no subgraph");
    };
    assert_eq!(sub.actor.name, "local/every:inner");
    assert_eq!(sub.output.as_ref().expect("an output")[0].0, "found");
    let loud = node(graph, "loud");
    assert_eq!(
        (loud.retries, loud.timeout.map(|time| time.as_secs())),
        (2, Some(3))
    );
    assert_eq!(loud.on_error.map(|index| id(graph, index)), Some("calm"));
    assert_eq!(graph.limits.max_steps, 50);
    assert_eq!(graph.limits.max_cost.map(|cost| cost.0), Some(500_000));
}

const EVERY: &str = "
name: local/every
type: graph
model: openai/gpt-5
limits: {max_steps: 50, max_cost: 0.5, timeout_seconds: 60}
nodes:
- id: route
  type: message_router
  config:
    rules:
    - {type: prefix, value: /fix, target: choose}
    - {contains: help, to: choose, strip: false}
    - {condition: {equals: quit}, target: calm}
    - {condition: {field: urgent, value: true}, target: loud}
    - {target: all}
- id: choose
  type: conditional
  conditions:
  - {check: 'score > 3 and ''x'' in tags', route_to: loud}
  - {check: {context_value: mood, equals: calm}, route_to: calm}
  otherwise: calm
- {id: loud, function: uppercase, input: output, next: deep, retries: 2, timeout_seconds: 3, on_error: calm}
- id: all
  over: parts
  as: part
  each: {tool: builtin/file-read, arguments: {path: '{{ part }}'}}
  concurrency: 8
  output: parts
  keep_failures: true
  next: calm
- {id: deep, type: subgraph, actor_path: inner, input: {input: '{{ output }}'}, output: {found: output}, next: calm}
- {id: calm, set: {done: true, text: 'was {{ input }}'}}
actors:
  inner:
    type: graph
    nodes: {only: {set: {output: '{{ input }}'}}}
";

#[test]
fn prompts_and_templates_keep_unknown_placeholders_for_the_run() {
    let actor = actor(
        "name: local/t\ntype: graph\nmodel: openai/x\nprompts:\n  look: {template: 'Look for {{ what }} in {{ input }}.', parameters: {what: bugs}}\n\
         templates:\n  reviewer: {parameters: [topic, warmth], temperature: '{{ warmth }}', system_prompt: 'You know {{ topic }}.', type: llm}\n\
         instances:\n  safe: {template: reviewer, with: {topic: security, warmth: 0.5}}\nnodes:\n  \
         a: {prompt: {prompt: look, with: {what: holes}}, agent: safe, next: b}\n  b: {prompt: {prompt: look}, template: reviewer, with: {topic: style, warmth: 1}, next: c, temperature: 0}\n  c: {prompt: x}\n",
    );
    let a = agent(&actor.graph, "a");
    assert_eq!(
        a.system_prompt.as_ref().expect("one").text(),
        "You know security."
    );
    assert_eq!(a.temperature, Some(0.5));
    assert_eq!(a.model.as_deref(), Some("openai/x"));
    let NodeKind::Agent(node) = &node(&actor.graph, "b").kind else {
        panic!("no agent");
    };
    assert_eq!(
        node.prompt.as_ref().expect("one").text(),
        "Look for bugs in {{ input }}."
    );
    assert_eq!(
        node.agent.temperature,
        Some(0.0),
        "the fields next to the use take precedence"
    );
    assert_eq!(
        node.agent.system_prompt.as_ref().expect("one").text(),
        "You know style."
    );
}

#[test]
fn variables_are_replaced() {
    let actor = actor(
        "name: local/v\ntype: llm\nmodel: ${PROVIDER}/gpt\ntemperature: ${WARMTH}\nmax_tokens: ${NO:7}\n",
    );
    let agent = agent(&actor.graph, "v");
    assert_eq!(agent.model.as_deref(), Some("openai/gpt"));
    assert_eq!(
        (agent.temperature, agent.max_output_tokens),
        (Some(0.5), Some(7))
    );
}

#[test]
fn other_actors_are_resolved_and_can_be_overridden() {
    let other_actors = ActorFiles(&[
        (
            "local/clerk",
            "name: local/clerk\ntype: llm\nmodel: openai/a\ntemperature: 1\n",
        ),
        (
            "local/deep",
            "name: local/deep\ntype: graph\nnodes: {x: {actor_ref: local/deeper}}\n",
        ),
        (
            "local/deeper",
            "name: local/deeper\ntype: graph\nnodes: {y: {agent: clerk}}\n",
        ),
    ]);
    let actor = actor_in(
        "name: local/z\ntype: graph\nnodes:\n  a: {agent: local/clerk, temperature: 0, next: b}\n  b: {agent: local/deep, prompt: 'x {{ input }}', output: seen}\n",
        &other_actors,
    )
    .expect("in order");
    assert_eq!(agent(&actor.graph, "a").temperature, Some(0.0));
    assert_eq!(agent(&actor.graph, "a").name, "clerk");
    let NodeKind::Subgraph(sub) = &node(&actor.graph, "b").kind else {
        panic!("an agent node that names a graph must compile to a subgraph");
    };
    assert_eq!(sub.input.as_ref().expect("a prompt")[0].0, "input");
    assert_eq!(sub.output.as_ref().expect("an output")[0].0, "seen");
}

#[test]
fn actors_that_contain_each_other_over_several_files_are_refused() {
    let other_actors = ActorFiles(&[
        (
            "local/b",
            "name: local/b\ntype: graph\nnodes: {x: {actor_ref: local/c}}\n",
        ),
        (
            "local/c",
            "name: local/c\ntype: graph\nnodes: {x: {actor_ref: Local/A}}\n",
        ),
    ]);
    let text = "name: local/a\ntype: graph\nnodes: {x: {actor_ref: local/b}}\n";
    let error = actor_in(text, &other_actors).expect_err("a cycle");
    assert!(
        error
            .message
            .contains("local/a → local/b → local/c → local/a"),
        "{error}"
    );
    assert_eq!((error.line, error.column), (3, 24));
}

#[test]
fn an_unusual_role_causes_a_warning() {
    let actor = actor(
        "name: local/e\ntype: llm\nmodel: openai/x\nrole_hint: estimation\ncontext_view: execute\n",
    );
    assert_eq!(actor.warnings.len(), 2, "{:?}", actor.warnings);
}

#[test]
fn a_file_with_ten_thousand_nodes_is_compiled() {
    use std::fmt::Write as _;
    let mut text = String::from("name: local/big\ntype: graph\nnodes:\n");
    for number in 0..10_000 {
        writeln!(
            text,
            "- {{id: n{number}, set: {{a: 'x {{{{ b }}}}'}}, next: [{{to: n{}, when: b > 1}}, n{}]}}",
            (number * 7) % 10_000,
            (number + 1) % 10_001,
        )
        .expect("a string");
    }
    text.push_str("- {id: n10000, set: {a: 1}}\n");
    let actor = try_actor(&text).expect("in order");
    assert_eq!(actor.graph.nodes.len(), 10_001);
    assert_eq!(actor.graph.limits.max_steps, 500_050);
}
