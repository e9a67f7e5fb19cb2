//! Tests of drawings, including the escaping of file content.

use cleveragents_actors::draw;

use crate::support::actor;

const REVIEW: &str = "
name: local/review
type: graph
model: openai/x
state: {reviews: append}
nodes:
  begin: {set: {round: 0}, next: all}
  all: {parallel: [security, style], join: judge}
  security: {prompt: A, output: reviews}
  style: {prompt: B, output: reviews, on_error: judge}
  judge: {prompt: C, next: choose}
  choose: {if: output == 'again', then: all, else: done}
  done: {set: {output: ok}}
";

#[test]
fn a_text_drawing_shows_branches_joins_loops_and_conditions() {
    let expected = "\
local/review (graph, 7 nodes)
begin (function round)
all (parallel joins at judge)
╠═ security (agent openai/x)
║  └─ → judge
╠═ style (agent openai/x)
║  ├─ → judge
║  └─ on error: → judge
╚═ then: judge (agent openai/x)
   └─ choose (conditional)
      ├─ [output == 'again'] → all
      └─ else: done (function output) ■
";
    let drawn = draw::text(&actor(REVIEW));
    assert_eq!(drawn, expected);
}

#[test]
fn mermaid_has_a_line_for_each_edge() {
    let drawn = draw::mermaid(&draw::diagram(&actor(REVIEW)));
    for line in [
        "flowchart TD",
        "    start([start]) --> n0",
        "    n1 ==> n2",
        "    n3 -.->|\"on error\"| n4",
        "    n5 -->|\"output == 'again'\"| n1",
        "    n6 --> finish([end])",
    ] {
        assert!(drawn.lines().any(|drawn| drawn == line), "{line}\n{drawn}");
    }
}

#[test]
fn content_of_files_is_escaped_in_drawings() {
    let actor = actor(
        "name: local/x\ntype: graph\nnodes:\n  a:\n    if: \"x == '\\\"]; <script>&\\e[2J\\n'\"\n    then: b\n    else: b\n  \
         b: {prompt: x, model: 'openai/<b>\"]'}\n",
    );
    let svg = draw::svg(&draw::diagram(&actor));
    assert!(!svg.contains("<script") && !svg.contains("<b>"), "{svg}");
    assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    let mermaid = draw::mermaid(&draw::diagram(&actor));
    assert!(
        !mermaid.contains("<script") && !mermaid.contains("\"]; "),
        "{mermaid}"
    );
    for drawn in [draw::text(&actor), mermaid, svg] {
        assert!(!drawn.contains('\u{1b}'), "{drawn:?}");
    }
}

#[test]
fn a_long_chain_is_drawn_without_a_deep_stack() {
    use std::fmt::Write as _;
    let mut text = String::from("name: local/long\ntype: graph\nnodes:\n");
    for number in 0..5_000 {
        writeln!(
            text,
            "  n{number}: {{set: {{a: 1}}, next: n{}}}",
            number + 1
        )
        .expect("a string");
    }
    text.push_str("  n5000: {set: {a: 1}}\n");
    let actor = actor(&text);
    assert_eq!(draw::text(&actor).lines().count(), 5_002);
    assert!(draw::svg(&draw::diagram(&actor)).ends_with("</svg>\n"));
}
