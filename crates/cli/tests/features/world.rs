//! State shared by the steps of one scenario.

use std::fmt;
use std::sync::Arc;

use cleveragents_application::{HeldLease, OpenChangeset, PlanExecutionContext};
use cleveragents_domain::{
    ChangesetId, ContentHash, FileMode, FileState, LeaseSubject, LeaseToken, NewChange, Operation,
};
use cleveragents_store::Engine;
use cleveragents_testkit::model_server::ModelServer;
use cleveragents_testkit::{Agents, Answer, TestDatabase};

/// State of one scenario.
#[derive(Default, cucumber::World)]
pub(crate) struct World {
    /// Home and program.
    pub(crate) agents: Option<Agents>,
    /// Output of the last command, in JSON.
    pub(crate) answer: Option<Answer>,
    /// Output of concurrent programs.
    pub(crate) answers: Vec<Answer>,
    /// A model provider on loopback.
    pub(crate) provider: Option<ModelServer>,
    /// The current session.
    pub(crate) session: Option<String>,
    /// Bytes to compare later.
    pub(crate) bytes: Vec<u8>,
    /// Acknowledged messages: number and content.
    pub(crate) acknowledged: Vec<(u64, String)>,
    /// The run of a plan, for steps without a command.
    pub(crate) run: Option<Run>,
    pub(crate) opening: Option<crate::engine::Opening>,
    /// The database of steps without a command. It must outlive its users, so it is the last field.
    pub(crate) database: Option<TestDatabase>,
}

/// A run of a plan.
pub(crate) struct Run {
    pub(crate) engine: Arc<Engine>,
    pub(crate) context: PlanExecutionContext,
    /// Changesets opened by steps.
    pub(crate) open: Vec<OpenChangeset>,
    /// Ids of all changesets that steps opened, including closed changesets.
    pub(crate) ids: Vec<ChangesetId>,
    /// Result of the last change that was recorded without a handle.
    pub(crate) recorded: Option<Result<ChangesetId, String>>,
    pub(crate) leases: Vec<HeldLease>,
    /// Token of a previous owner.
    pub(crate) old_token: Option<LeaseToken>,
    /// Results of a race for the lease: the requesting owner, and the owner that a refusal names.
    pub(crate) reported: Vec<(String, Option<String>)>,
}

impl fmt::Debug for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("World")
            .field("answer", &self.answer)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl World {
    pub(crate) fn new_home(&mut self) {
        self.agents = Some(Agents::new(env!("CARGO_BIN_EXE_agents")));
    }

    pub(crate) fn agents(&self) -> &Agents {
        self.agents.as_ref().expect("the scenario has a home")
    }

    pub(crate) fn session(&self) -> &str {
        self.session.as_deref().expect("the scenario has a session")
    }

    pub(crate) fn answer(&self) -> &Answer {
        self.answer.as_ref().expect("a command was run")
    }

    pub(crate) fn run(&mut self) -> &mut Run {
        self.run.as_mut().expect("the scenario has a plan")
    }

    pub(crate) fn database(&self) -> &TestDatabase {
        self.database.as_ref().expect("the scenario has a database")
    }
}

impl Run {
    pub(crate) fn subject(&self) -> LeaseSubject {
        LeaseSubject::new("plan", self.context.plan())
    }
}

/// A change that creates a file.
pub(crate) fn change(path: &str) -> NewChange {
    let after = FileState {
        hash: ContentHash::of_bytes(path.as_bytes()),
        size: path.len() as u64,
        mode: FileMode::REGULAR,
    };
    NewChange::new("code", path, Operation::Create { after }).expect("a change")
}
