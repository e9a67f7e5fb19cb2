//! Rows of tool calls. Each call is finished once, by the process that started it.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_application::{StoreLedger, ToolService};
use cleveragents_domain::{InvocationOutcome, ToolInvocationId};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::{
    CapturedChanges, FinishedCall, Ledger as _, PortError, Scope, StartedCall,
};
use cleveragents_tools::{Capability, SpooledOutput, ToolName};
use serde_json::json;

fn begin(ledger: &StoreLedger) -> ToolInvocationId {
    let id = ToolInvocationId::generate();
    let tool: ToolName = "local/own".parse().expect("a name");
    let started = StartedCall {
        id,
        call_id: "c",
        scope: &Scope::default(),
        tool: &tool,
        arguments: &json!({}),
        capability: &Capability::reads(),
        is_trial: false,
        checkpoint: None,
    };
    ledger.begin(&started).expect("stored");
    id
}

fn finish(ledger: &StoreLedger, id: ToolInvocationId, log: &str) -> Result<(), PortError> {
    ledger.finish(&mut FinishedCall {
        id,
        outcome: InvocationOutcome::Succeeded,
        output: &mut SpooledOutput::new(1 << 10),
        media_type: None,
        log,
        error: None,
        captured: &CapturedChanges::default(),
        elapsed: Duration::ZERO,
    })
}

#[test]
fn a_call_ended_by_another_process_cannot_be_ended_again() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let ledger = StoreLedger::new(Arc::clone(&engine), None);
        let id = begin(&ledger);
        finish(&ledger, id, "first\0 log\n").expect("ended");
        let again = finish(&ledger, id, "second log\n").expect_err("it is finished");
        assert!(
            again.to_string().contains("finished by another process"),
            "{again}"
        );
        let tools = ToolService::new(engine);
        let call = tools
            .call(&id.to_string()[..20])
            .expect("by a part of its id");
        let log = tools
            .excerpt(call.log, 0, 99)
            .expect("read")
            .expect("a log");
        assert_eq!(log.bytes, "first\u{fffd} log\n".as_bytes());
        assert_eq!(tools.excerpt(call.output, 0, 99).expect("read"), None);
    }
}
