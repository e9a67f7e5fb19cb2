//! Metrics.

use cleveragents_domain::{PlanStage, StageTransition};
use cleveragents_store::plans::{self, TransitionDetails};
use cleveragents_testkit::TestDatabase;

use crate::harness::{Server, wait_until};

/// The value of a line of the metrics.
fn value(text: &str, line: &str) -> Option<f64> {
    let measured = text.lines().find_map(|known| known.strip_prefix(line));
    measured.and_then(|rest| rest.trim().parse().ok())
}

#[test]
fn metrics_are_counted_from_the_database() {
    for database in TestDatabase::each() {
        let server = Server::on(database, |_| {});
        let plan = server.plan("acme/shop");
        server.plan("acme/shop");
        // Writes with another engine, as another process would.
        let other = server.database.open();
        other
            .write(move |unit| {
                let advanced = plans::advance(
                    unit,
                    plan,
                    StageTransition::StartStrategize,
                    &TransitionDetails::default(),
                )?;
                assert_eq!(
                    advanced.expect("a plan").stage,
                    PlanStage::StrategizeProcessing
                );
                plans::advance(
                    unit,
                    plan,
                    StageTransition::CompleteStrategize,
                    &TransitionDetails::default(),
                )
            })
            .expect("the plan advances");
        server.database.execute_sql(
            "UPDATE plans SET cost_micro_usd = 1500000; \
             INSERT INTO tool_invocations (invocation_id, tool, arguments, outcome, started_at, finished_at) VALUES \
             ('a', 'say \"hi\"', '{}', 'succeeded', 0, 5000), ('b', 'say \"hi\"', '{}', 'failed', 0, 2000000), \
             ('c', 'other', '{}', 'refused', 0, 1);",
        );
        let viewer = server.caller(&["*=viewer"]);
        let mut text = String::new();
        wait_until("the metrics are counted again", || {
            text = viewer.get("/metrics").expect(200).text();
            value(&text, "cleveragents_plan_cost_usd_total") == Some(3.0)
        });
        let expect = |line: &str, expected: f64| {
            assert_eq!(value(&text, line), Some(expected), "{line}\n{text}");
        };
        expect(
            "cleveragents_plan_duration_seconds_count{phase=\"strategize\"}",
            1.0,
        );
        let tool = "cleveragents_tool_invocation_duration_ms";
        expect(
            &format!("{tool}_bucket{{tool=\"say \\\"hi\\\"\",le=\"1.0\"}}"),
            0.0,
        );
        expect(
            &format!("{tool}_bucket{{tool=\"say \\\"hi\\\"\",le=\"10.0\"}}"),
            1.0,
        );
        expect(
            &format!("{tool}_bucket{{tool=\"say \\\"hi\\\"\",le=\"+Inf\"}}"),
            2.0,
        );
        expect(&format!("{tool}_sum{{tool=\"say \\\"hi\\\"\"}}"), 2_005.0);
        expect(
            "cleveragents_tool_errors_total{tool=\"say \\\"hi\\\"\"}",
            1.0,
        );
        assert!(
            !text.contains("tool=\"other\""),
            "refused calls have no duration"
        );
        assert!(text.ends_with("# EOF\n"));
        // Metrics belong to no namespace: roles in one namespace are not enough.
        server
            .caller(&["acme=owner"])
            .get("/metrics")
            .problem(403, "CA-1202");
    }
}
