//! Runs operations on a test database, and creates callers.

use std::sync::Arc;

use cleveragents_application::{
    AgentRuntime, Application, EffectiveSafety, OperationError, OperationSettings, PlanSettings,
    ProcessEnvironment, RuntimeOptions, RuntimeRequest, SandboxPolicy, find_operation,
};
use cleveragents_domain::identity::{Caller, Scope};
use cleveragents_models::{Catalogue, CatalogueOptions};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

/// The application on a test database, with a home folder.
pub(crate) struct TestOperations {
    pub(crate) application: Application,
    pub(crate) engine: Arc<Engine>,
    /// The home folder, which contains the scripts of scripted models.
    pub(crate) folder: tempfile::TempDir,
    _database: TestDatabase,
}

pub(crate) fn test_operations() -> TestOperations {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().to_owned();
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let runtime = {
        let home = home.clone();
        move |request: &RuntimeRequest<'_>| {
            let options = CatalogueOptions::new(Arc::new(|_: &str| None), &home);
            AgentRuntime::new(RuntimeOptions {
                engine: Arc::clone(&request.engine),
                catalogue: Catalogue::new(options)?,
                default_model: None,
                home: home.clone(),
                sandboxes: home.join("sandboxes"),
                working_folder: home.clone(),
                variables: Arc::new(|_: &str| None),
                max_message_bytes: 1 << 20,
                budget_per_session: None,
                budget_per_day: None,
                safety: EffectiveSafety::combine(Vec::new(), Vec::new()),
                warn: Arc::new(|_| {}),
            })
        }
    };
    let settings = OperationSettings {
        max_message_bytes: 1 << 20,
        automation_profile: "supervised".to_owned(),
        sandboxes: home.join("sandboxes"),
        process: ProcessEnvironment {
            runtime: Arc::new(runtime),
            home: home.clone(),
            working_folder: home,
            ..ProcessEnvironment::default()
        },
        sandbox_policy: SandboxPolicy::default(),
        plans: PlanSettings::default(),
    };
    TestOperations {
        application: Application::new(Arc::clone(&engine), settings),
        engine,
        folder,
        _database: database,
    }
}

impl TestOperations {
    pub(crate) fn run(
        &self,
        caller: &Caller,
        name: &str,
        parameters: &Value,
    ) -> Result<Value, OperationError> {
        let context = self.application.for_caller(caller.clone());
        let prepared = find_operation(name)?.prepare(context, parameters.clone())?;
        prepared(&Cancel::new())
    }
}

pub(crate) fn caller(grants: &[&str]) -> Caller {
    let grants = grants.iter().map(|grant| grant.parse().expect("a grant"));
    Caller::with_token("ci", grants.collect(), Scope::ALL.iter().copied().collect())
}

/// The smallest valid parameters of an operation: a value for each required one.
pub(crate) fn smallest_parameters(operation: &str, schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let value = |name: &str| {
        let property = &schema["properties"][name];
        let element = |property: &Value| match property["type"].as_str() {
            Some("integer") => json!(1),
            _ => property["enum"]
                .get(0)
                .or_else(|| property["oneOf"].get(0)?.get("const"))
                .cloned()
                .unwrap_or_else(|| json!("acme/thing")),
        };
        match name {
            "text" if operation.starts_with("registry/") || operation == "pool/add" => {
                json!("name: acme/thing\n")
            }
            _ if property["type"] == "array" => json!([element(&property["items"])]),
            _ => element(property),
        }
    };
    let pairs = required.map(|name| {
        let name = name.as_str().expect("a name");
        (name.to_owned(), value(name))
    });
    let mut all = Value::Object(pairs.collect());
    // Some operations need more parameters than their schema requires.
    match operation {
        "session/tell" => all["prompt"] = json!("Hello"),
        "actor/run" => {
            all["name"] = json!("acme/thing");
            all["prompt"] = json!("Hello");
        }
        "plan/use" => all["projects"] = json!(["acme/thing"]),
        "registry/invariant/add" => all["project"] = json!(["acme/thing"]),
        _ => {}
    }
    all
}
