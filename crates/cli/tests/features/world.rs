//! What the steps of one scenario share.

use std::fmt;
use std::sync::Arc;

use cleveragents_application::{HeldLease, OpenChangeset, PlanExecutionContext};
use cleveragents_domain::{
    ChangesetId, ContentHash, FileMode, FileState, LeaseSubject, LeaseToken, NewChange, Operation,
};
use cleveragents_store::Engine;
use cleveragents_testkit::model_server::ModelServer;
use cleveragents_testkit::{Agents, Answer, TestDatabase};

/// One scenario.
#[derive(Default, cucumber::World)]
pub(crate) struct World {
    /// The home and the program.
    pub(crate) agents: Option<Agents>,
    /// What the last command answered, in a format for programs.
    pub(crate) answer: Option<Answer>,
    /// What programs answered that ran at the same time.
    pub(crate) answers: Vec<Answer>,
    /// A provider of models on loopback.
    pub(crate) provider: Option<ModelServer>,
    /// The session that is spoken of.
    pub(crate) session: Option<String>,
    /// Bytes to be found again.
    pub(crate) bytes: Vec<u8>,
    /// What was acknowledged: number and content.
    pub(crate) acknowledged: Vec<(u64, String)>,
    /// The database, for steps without a command. It must outlive everything that uses it, so it
    /// comes last.
    pub(crate) run: Option<Run>,
    pub(crate) opening: Option<crate::engine::Opening>,
    pub(crate) database: Option<TestDatabase>,
}

/// The run of a plan.
pub(crate) struct Run {
    pub(crate) engine: Arc<Engine>,
    pub(crate) context: PlanExecutionContext,
    /// The changesets opened by steps.
    pub(crate) open: Vec<OpenChangeset>,
    /// Their ids, also after they were closed.
    pub(crate) ids: Vec<ChangesetId>,
    /// How the last recording ended.
    pub(crate) recorded: Option<Result<ChangesetId, String>>,
    /// The leases held.
    pub(crate) leases: Vec<HeldLease>,
    /// The token of an owner before.
    pub(crate) old_token: Option<LeaseToken>,
    /// How a race for the lease ended: the owner that asked, and the owner it was told of.
    pub(crate) told: Vec<(String, Option<String>)>,
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

/// A change that makes a file.
pub(crate) fn change(path: &str) -> NewChange {
    let after = FileState {
        hash: ContentHash::of(path.as_bytes()),
        size: path.len() as u64,
        mode: FileMode::REGULAR,
    };
    NewChange::new("code", path, Operation::Create { after }).expect("a change")
}
