//! Servers that misbehave: the call fails with a clear error, memory use is bounded, no call bypasses the gate, and
//! other servers keep running.

use crate::support::{ServerFixture, eventually, is_alive};
use crate::tests;
use serde_json::json;

tests![
    a_huge_answer_fails_only_the_call,
    an_answer_with_too_many_values_fails_the_call,
    endless_progress_does_not_prolong_a_call,
    a_request_times_out_and_the_server_is_notified,
    a_cancelled_call_ends_at_once_and_the_server_is_notified,
    garbage_and_chatter_are_ignored,
    a_server_that_exits_at_once_is_reported_with_its_log,
    a_server_that_closes_its_output_is_stopped,
    a_server_that_never_starts_times_out,
    an_endless_line_closes_the_connection,
    ten_thousand_tools_are_deferred,
    repeated_pages_are_read_once,
    colliding_names_stay_distinct_and_outside_reserved_namespaces,
    instructions_in_descriptions_are_marked_and_truncated,
    tools_with_invalid_schemas_are_skipped,
    a_tool_that_changed_is_not_called,
    unrequested_answers_are_ignored,
    a_missing_program_is_reported,
];

/// Peak memory use of this process, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("read");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        >> 10
}

fn a_huge_answer_fails_only_the_call() {
    let fixture = ServerFixture::with("normal");
    fixture.add("modern");
    let gate = fixture.gate();
    // A long result within the limits arrives.
    assert!(
        gate.ok("normal/huge", &json!({"mib": 4}))
            .starts_with("xxx")
    );
    let before = peak_mib();
    let why = gate.fails("normal/huge", &json!({"mib": 200}));
    assert!(why.contains("larger than 16 MiB"), "{why}");
    assert!(
        peak_mib() < before.max(100) + 100,
        "{before} MiB became {} MiB",
        peak_mib()
    );
    // Other servers are not affected, and the server is restarted.
    assert_eq!(gate.ok("modern/echo", &json!({"text": "x"})), "x");
    assert_eq!(gate.ok("normal/echo", &json!({"text": "x"})), "x");
    fixture.servers.shutdown();
    fixture.assert_nothing_left();
}

fn an_answer_with_too_many_values_fails_the_call() {
    let fixture = ServerFixture::with("normal");
    let why = fixture.gate().fails("normal/values", &json!({}));
    assert!(why.contains("values"), "{why}");
}

fn with_timeout(seconds: f64) -> ServerFixture {
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("normal");
    definition.timeout_seconds = seconds;
    fixture.servers.add(definition, None).expect("added");
    fixture
}

fn endless_progress_does_not_prolong_a_call() {
    let fixture = with_timeout(0.5);
    let gate = fixture.gate();
    let why = gate.fails("normal/progress", &json!({}));
    assert!(why.contains("in time"), "{why}");
    let logs = gate.ledger.logs.lock().expect("not poisoned").concat();
    assert!(logs.len() <= 64 << 10, "{}", logs.len());
}

fn a_request_times_out_and_the_server_is_notified() {
    let fixture = with_timeout(0.3);
    let gate = fixture.gate();
    let why = gate.fails("normal/never", &json!({}));
    assert!(why.contains("in time"), "{why}");
    eventually("the server is notified", || {
        fixture.path("cancelled").exists()
    });
    assert_eq!(fixture.pids().len(), 1);
}

fn a_cancelled_call_ends_at_once_and_the_server_is_notified() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    std::thread::scope(|scope| {
        let pending_call = scope.spawn(|| gate.fails("normal/never", &json!({})));
        eventually("the server receives the call", || {
            fixture.path("called").exists()
        });
        gate.cancel.cancel();
        let why = pending_call.join().expect("no panic");
        assert!(why.contains("cancelled"), "{why}");
    });
    eventually("the server is notified", || {
        fixture.path("cancelled").exists()
    });
}

fn garbage_and_chatter_are_ignored() {
    for scenario in ["garbage", "chatter"] {
        let fixture = ServerFixture::with(scenario);
        let output = fixture
            .gate()
            .ok(&format!("{scenario}/echo"), &json!({"text": "x"}));
        assert_eq!(output, "x");
    }
}

fn a_server_that_exits_at_once_is_reported_with_its_log() {
    let fixture = ServerFixture::with("exit");
    let error = fixture.servers.connect("exit").expect_err("it exits");
    let cleveragents_mcp::McpError::Startup { why, log, .. } = error else {
        panic!("{error}");
    };
    assert!(why.contains("exit code 3"), "{why}");
    assert_eq!(log, "cannot start");
}

fn a_server_that_closes_its_output_is_stopped() {
    let fixture = ServerFixture::with("closed");
    fixture
        .servers
        .connect("closed")
        .expect_err("it sends nothing");
    fixture.assert_nothing_left();
}

fn a_server_that_never_starts_times_out() {
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("silent");
    definition.startup_timeout_seconds = 0.5;
    fixture.servers.add(definition, None).expect("added");
    fixture.add("normal");
    let offer = fixture.servers.offer();
    assert_eq!(offer.failed.len(), 1);
    assert!(offer.failed[0].1.to_string().contains("within 0.5 seconds"));
    assert!(
        offer
            .tools
            .iter()
            .any(|tool| tool.spec().name.to_string() == "normal/echo")
    );
    let silent = fixture.pids();
    eventually("only one process is alive", || {
        silent.iter().filter(|pid| is_alive(pid)).count() == 1
    });
}

fn an_endless_line_closes_the_connection() {
    let fixture = ServerFixture::with("line");
    let before = peak_mib();
    let error = fixture.servers.connect("line").expect_err("it never ends");
    assert!(error.to_string().contains("larger than 16 MiB"), "{error}");
    assert!(peak_mib() < before.max(100) + 100);
    fixture.assert_nothing_left();
}

fn ten_thousand_tools_are_deferred() {
    let fixture = ServerFixture::with("many");
    let offer = fixture.servers.offer();
    assert_eq!(offer.deferred.len(), 10_000);
    assert!(offer.left_out.is_empty());
}

fn repeated_pages_are_read_once() {
    let fixture = ServerFixture::with("pages");
    let listing = fixture.servers.connect("pages").expect("connected");
    assert!(listing.cut && listing.tools.len() <= 10_000);
}

fn colliding_names_stay_distinct_and_outside_reserved_namespaces() {
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("clash");
    "builtin".clone_into(&mut definition.name);
    fixture.servers.add(definition, None).expect("added");
    let offer = fixture.servers.offer();
    let names: Vec<String> = offer
        .tools
        .iter()
        .map(|tool| tool.spec().name.to_string())
        .filter(|name| !name.starts_with("mcp/"))
        .collect();
    let expected = [
        "mcp-builtin/builtin-file-read",
        "mcp-builtin/echo",
        "mcp-builtin/echo-2",
        "mcp-builtin/echo-3",
        "mcp-builtin/file-read",
        "mcp-builtin/tool",
    ];
    assert_eq!(names, expected);
    assert_eq!(offer.left_out.len(), 1, "{:?}", offer.left_out);
    let gate = fixture.gate();
    assert_eq!(gate.ok("mcp-builtin/echo-3", &json!({})), "called Echo");
    assert_eq!(
        gate.ok("mcp-builtin/file-read", &json!({})),
        "called file-read"
    );
}

fn instructions_in_descriptions_are_marked_and_truncated() {
    let fixture = ServerFixture::with("evil");
    let offer = fixture.servers.offer();
    for tool in offer
        .tools
        .iter()
        .filter(|tool| tool.spec().name.namespace() == "evil")
    {
        let description = &tool.spec().description;
        assert!(description.contains("not instructions"), "{description}");
        assert!(description.len() < 3 << 10);
        assert!(
            !description
                .chars()
                .any(|letter| letter.is_control() && letter != '\n')
        );
    }
}

fn tools_with_invalid_schemas_are_skipped() {
    let fixture = ServerFixture::with("schemas");
    let offer = fixture.servers.offer();
    let mut skipped: Vec<&str> = offer
        .left_out
        .iter()
        .map(|tool| tool.tool.as_str())
        .collect();
    skipped.sort_unstable();
    assert_eq!(skipped, ["half", "long", "remote", "wrong"]);
    assert_eq!(fixture.gate().ok("schemas/good", &json!({})), "called good");
}

fn a_tool_that_changed_is_not_called() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    assert_eq!(gate.ok("normal/echo", &json!({"text": "x"})), "x");
    gate.ok("normal/change", &json!({}));
    let why = gate.fails("normal/echo", &json!({"text": "x"}));
    assert!(why.contains("changed") && why.contains("not made"), "{why}");
    // A new listing contains the changed tool.
    let new_gate = fixture.gate();
    new_gate.refused("normal/echo", &json!({"text": "x"}));
    assert_eq!(
        new_gate.ok("normal/echo", &json!({"text": "y", "password": "z"})),
        "y"
    );
}

fn unrequested_answers_are_ignored() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    assert_eq!(gate.ok("normal/twice", &json!({})), "one");
    assert_eq!(gate.ok("normal/echo", &json!({"text": "x"})), "x");
}

fn a_missing_program_is_reported() {
    let fixture = ServerFixture::new();
    let definition = cleveragents_mcp::ServerDefinition::stdio("gone", "no-such-program", &[]);
    fixture.servers.add(definition, None).expect("added");
    let error = fixture
        .servers
        .connect("gone")
        .expect_err("the program does not exist");
    assert!(error.to_string().contains("no-such-program"), "{error}");
}
