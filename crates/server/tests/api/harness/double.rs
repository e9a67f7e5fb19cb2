//! [`Double`]: what stands for the front end that starts a server.

use std::sync::{Arc, Mutex};

use cleveragents_domain::identity::{Caller, Permission, Scope};
use cleveragents_domain::{Code, PlanId};
use cleveragents_process::Cancel;
use cleveragents_server::{Call, Done, Failure, Operation, Program, Tell, Told, Touches};
use cleveragents_store::Engine;
use serde_json::{Value, json};

/// Answers by rule, and remembers what it was asked.
pub(crate) struct Double {
    operations: Vec<Operation>,
    /// What was run: the name and the parameters.
    pub(crate) ran: Mutex<Vec<(String, Value)>>,
    _engine: Arc<Engine>,
}

fn operation(name: &str, scope: Scope, permission: Permission) -> Operation {
    Operation {
        name: name.to_owned(),
        summary: format!("Does {name}"),
        scope,
        permission,
        parameters: json!({"type": "object"}),
    }
}

impl Double {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        use Permission::{Manage, Read, Write};
        Self {
            operations: vec![
                operation("plan/list", Scope::Plans, Read),
                operation("plan/use", Scope::Plans, Write),
                operation("actor/remove", Scope::Registry, Manage),
                operation("server/state", Scope::Server, Read),
            ],
            ran: Mutex::default(),
            _engine: engine,
        }
    }
}

impl Program for Double {
    fn operations(&self) -> &[Operation] {
        &self.operations
    }

    fn touches(&self, operation: &Operation, parameters: &Value) -> Result<Touches, Failure> {
        Ok(match operation.name.as_str() {
            "plan/list" => Touches::Visible,
            "server/state" => Touches::Everywhere,
            _ => {
                let name = parameters.get("name").and_then(Value::as_str);
                let name = name.ok_or_else(|| Failure::new(Code::Usage, "`name` is missing"))?;
                let (namespace, _) = name
                    .split_once('/')
                    .ok_or_else(|| Failure::new(Code::InvalidName, "`name` has no namespace"))?;
                Touches::Namespaces(vec![namespace.to_owned()])
            }
        })
    }

    fn run(&self, call: &Call<'_>) -> Result<Done, Failure> {
        self.ran
            .lock()
            .expect("not poisoned")
            .push((call.operation.name.clone(), call.parameters.clone()));
        Ok(Done {
            data: json!({"ran": call.operation.name, "by": call.caller.identity()}),
            report: Value::Null,
            exit_code: 0,
        })
    }

    fn tell(&self, tell: &Tell<'_>) -> Result<Told, Failure> {
        let prompt = tell.prompt.clone().unwrap_or_default();
        for word in prompt.split_inclusive(' ') {
            tell.listener.text(word);
        }
        Ok(Told::Answered { text: prompt })
    }

    fn drive(&self, _caller: &Caller, plan: PlanId, _cancel: &Cancel) -> Result<Value, Failure> {
        Ok(json!({"plan_id": plan}))
    }

    fn version(&self) -> &'static str {
        "0.0.0-test"
    }
}
