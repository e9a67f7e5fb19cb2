//! The application on the database of a test, and a runtime of agents that records its callers.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use cleveragents_application::{
    Application, OperationSettings, PlanSettings, ProcessEnvironment, RuntimeRequest, SandboxPolicy,
};
use cleveragents_store::Engine;

use crate::provider::Provider;

/// The runtime of agents, observed by tests.
#[derive(Default)]
pub(crate) struct TestRuntime {
    pub(crate) provider: Provider,
    /// The callers that ran agents.
    pub(crate) runtimes: Mutex<Vec<String>>,
    /// Whether agents are held before they start, until [`Self::release`].
    pub(crate) holds_runtimes: AtomicBool,
    is_released: Mutex<bool>,
    changed: Condvar,
}

impl TestRuntime {
    /// Releases held agents and held model requests.
    pub(crate) fn release(&self) {
        self.provider.release();
        *self.is_released.lock().expect("not poisoned") = true;
        self.changed.notify_all();
    }

    fn hold(&self) {
        let mut is_released = self.is_released.lock().expect("not poisoned");
        while !*is_released && self.holds_runtimes.load(Ordering::SeqCst) {
            is_released = self.changed.wait(is_released).expect("not poisoned");
        }
    }
}

/// The application on the database of a test.
pub(crate) fn application(
    engine: Arc<Engine>,
    double: &Arc<TestRuntime>,
    home: &Path,
) -> Application {
    let (observer, folder) = (Arc::clone(double), home.to_owned());
    let runtime = move |request: &RuntimeRequest<'_>| {
        let identity = request.caller.identity().to_owned();
        observer
            .runtimes
            .lock()
            .expect("not poisoned")
            .push(identity);
        observer.hold();
        observer.provider.runtime(request, &folder)
    };
    Application::new(
        engine,
        OperationSettings {
            max_message_bytes: 1 << 20,
            automation_profile: "manual".to_owned(),
            sandboxes: home.join("sandboxes"),
            process: ProcessEnvironment {
                runtime: Arc::new(runtime),
                ..ProcessEnvironment::default()
            },
            sandbox_policy: SandboxPolicy::default(),
            plans: PlanSettings {
                concurrency: 8,
                ..PlanSettings::default()
            },
        },
    )
}
