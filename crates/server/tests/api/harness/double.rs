//! [`Double`]: what stands for the front end that starts a server.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use cleveragents_application::{
    Application, OperationError, OperationSettings, ProcessEnvironment, Requirement, SandboxPolicy,
    Touched, authorize,
};
use cleveragents_domain::identity::{Caller, Permission, Scope};
use cleveragents_domain::{Code, PlanId};
use cleveragents_process::Cancel;
use cleveragents_server::{Call, Done, Failure, Operation, Program, Tell, Told};
use cleveragents_store::{Engine, plans};
use serde_json::{Value, json};

/// Answers by rule, and remembers what it was asked.
pub(crate) struct Double {
    operations: Vec<Operation>,
    /// What was run: the name and the parameters.
    pub(crate) ran: Mutex<Vec<(String, Value)>>,
    /// Which plans were driven, and by whom.
    pub(crate) driven: Mutex<Vec<(PlanId, String)>>,
    /// What was asked.
    pub(crate) asked: Mutex<Vec<String>>,
    /// Whoever is told `hold` stays until this is opened, or until it is stopped.
    held: (Mutex<bool>, Condvar),
    engine: Arc<Engine>,
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
        let operations = vec![
            operation("plan/apply", Scope::Plans, Write),
            operation("plan/use", Scope::Plans, Write),
            operation("actor/remove", Scope::Registry, Manage),
            operation("server/state", Scope::Server, Read),
        ];
        Self {
            operations,
            ran: Mutex::default(),
            driven: Mutex::default(),
            asked: Mutex::default(),
            held: (Mutex::new(true), Condvar::new()),
            engine,
        }
    }

    /// Lets go whoever is held.
    pub(crate) fn let_go(&self) {
        *self.held.0.lock().expect("not poisoned") = false;
        self.held.1.notify_all();
    }

    fn hold(&self, cancel: &Cancel) {
        let mut held = self.held.0.lock().expect("not poisoned");
        while *held && !cancel.is_cancelled() {
            let waited = self.held.1.wait_timeout(held, Duration::from_millis(5));
            held = waited.expect("not poisoned").0;
        }
    }
}

impl Program for Double {
    fn operations(&self) -> &[Operation] {
        &self.operations
    }

    fn authorize(
        &self,
        caller: &Caller,
        operation: &Operation,
        parameters: &Value,
    ) -> Result<(), Failure> {
        let requirement = Requirement {
            scope: operation.scope,
            permission: operation.permission,
            is_global: operation.name == "server/state",
        };
        let touch = |namespace: &str, absent| Touched {
            namespace: namespace.to_owned(),
            scope: operation.scope,
            permission: operation.permission,
            absent,
        };
        let touched = match operation.name.as_str() {
            "server/state" => Vec::new(),
            _ if parameters.get("reference").is_some() => {
                let id: PlanId = parameters["reference"]
                    .as_str()
                    .and_then(|id| id.parse().ok())
                    .ok_or_else(|| Failure::new(Code::InvalidId, "`reference` is no id"))?;
                let missing = "there is no such plan";
                let namespace = self.engine.read(|reader| plans::namespace(reader, id))?;
                let namespace =
                    namespace.ok_or_else(|| Failure::new(Code::PlanNotFound, missing))?;
                let absent = OperationError::new(Code::PlanNotFound, missing);
                vec![touch(&namespace, Some(absent))]
            }
            _ => {
                let name = parameters.get("name").and_then(Value::as_str);
                let name = name.ok_or_else(|| Failure::new(Code::Usage, "`name` is missing"))?;
                let (namespace, _) = name
                    .split_once('/')
                    .ok_or_else(|| Failure::new(Code::InvalidName, "`name` has no namespace"))?;
                vec![touch(namespace, None)]
            }
        };
        let name: &'static str = operation.name.clone().leak();
        let allowed = authorize(caller, &self.engine, name, requirement, touched);
        allowed.map_err(|error| Failure::of(&error))
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
        self.asked
            .lock()
            .expect("not poisoned")
            .push(prompt.clone());
        match prompt.as_str() {
            "hold" => self.hold(tell.cancel),
            "ask" => {
                return Ok(Told::Waiting {
                    question: "which?".to_owned(),
                });
            }
            "fail" => return Err(Failure::new(Code::ModelOverloaded, "the model is tired")),
            _ => {}
        }
        for word in prompt.split_inclusive(' ') {
            tell.listener.text(word);
        }
        Ok(Told::Answered { text: prompt })
    }

    fn drive(&self, caller: &Caller, plan: PlanId, cancel: &Cancel) -> Result<Value, Failure> {
        let who = caller.identity().to_owned();
        self.driven.lock().expect("not poisoned").push((plan, who));
        self.hold(cancel);
        Ok(json!({"plan_id": plan}))
    }

    fn version(&self) -> &'static str {
        "0.0.0-test"
    }
}

/// The operations of a test's database.
pub(crate) fn application(engine: Arc<Engine>) -> Application {
    Application::new(
        engine,
        OperationSettings {
            max_message_bytes: 1 << 20,
            automation_profile: "manual".to_owned(),
            sandboxes: std::env::temp_dir(),
            process: ProcessEnvironment::default(),
            sandbox_policy: SandboxPolicy::default(),
        },
    )
}
