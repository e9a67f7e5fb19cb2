//! Plans that callers have the server drive. What was taken on is stored before the caller is told so: a server that
//! is started again, or a worker, goes on with what a dead one left.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use cleveragents_application::{PlanError, Queued, Served};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, PlanId, ProcessId};

use crate::a2a;
use crate::app::App;
use crate::fair_queue::Place;
use crate::problem::Problem;
use crate::program::Failure;

/// How long is waited before something is tried again that could not be done.
const PAUSE: Duration = Duration::from_millis(250);

/// A place to run that is waited for.
type Placed = Pin<Box<dyn Future<Output = Result<Place, Problem>> + Send>>;

/// Takes a plan on that a caller may have driven. Returns when it is stored that it was, and does not wait for more.
pub(crate) async fn take_on(
    app: &Arc<App>,
    caller: &Arc<Caller>,
    plan: PlanId,
) -> Result<(), Problem> {
    let mut placed = place(app, caller);
    // Who is refused is told so; who has to wait is not kept waiting here.
    if let Poll::Ready(place) = futures_util::poll!(placed.as_mut()) {
        placed = Box::pin(std::future::ready(Ok(place?)));
    }
    let how = taken_by(app, caller.identity());
    let (queue, stored) = (app.services_of(caller).plan_queue(), how.clone());
    crate::blocking(move || queue.leave(plan, &stored))
        .await
        .map_err(|error| Problem::of(&error))?;
    let drive = Drive {
        app: Arc::clone(app),
        caller: Arc::clone(caller),
        plan,
        how,
    };
    crate::beside(drive.run(placed));
    Ok(())
}

fn place(app: &Arc<App>, caller: &Arc<Caller>) -> Placed {
    let (app, caller) = (Arc::clone(app), Arc::clone(caller));
    Box::pin(async move { app.place(&caller).await })
}

/// That this server drives a plan for somebody.
fn taken_by(app: &App, identity: &str) -> Queued {
    Queued {
        served: Some(Served {
            server: app.tasks.runner().to_owned(),
            identity: identity.to_owned(),
            request: ProcessId::generate().to_string(),
        }),
        ..Queued::default()
    }
}

/// Takes over what dead servers drove, or were to.
pub(crate) async fn take_over(app: &Arc<App>) -> Result<(), Failure> {
    let inner = Arc::clone(app);
    let taken = crate::blocking(move || taken_over(&inner)).await?;
    for (plan, caller, how) in taken {
        let placed = place(app, &caller);
        let app = Arc::clone(app);
        let drive = Drive {
            app,
            caller,
            plan,
            how,
        };
        tokio::spawn(drive.run(placed));
    }
    Ok(())
}

fn taken_over(app: &App) -> Result<Vec<(PlanId, Arc<Caller>, Queued)>, Failure> {
    let failed = |error: PlanError| Failure::of(&error);
    let queue = app.services.plan_queue();
    let mut taken = Vec::new();
    for (plan, was) in queue.all().map_err(failed)? {
        let Some(served) = &was.served else { continue };
        if queue.is_served(&was).map_err(failed)? {
            continue;
        }
        let caller = a2a::caller(app, &served.identity)?;
        let now = caller
            .as_ref()
            .map(|caller| taken_by(app, caller.identity()));
        // Who may not ask any more has nothing driven; the plan stays as it is.
        let is_ours = queue.pass_on(plan.id, &was, now.as_ref()).map_err(failed)?;
        if let (true, Some(caller), Some(now)) = (is_ours, caller, now) {
            tracing::info!(plan = %plan.id, from = served.server, "plan of a dead server taken over");
            taken.push((plan.id, caller, now));
        }
    }
    Ok(taken)
}

/// A plan that this server drives.
struct Drive {
    app: Arc<App>,
    caller: Arc<Caller>,
    plan: PlanId,
    how: Queued,
}

impl Drive {
    /// Drives it when it gets a place, and again as long as somebody else is at it. How it ended is in the plan itself.
    async fn run(self, mut placed: Placed) {
        loop {
            let outcome = match placed.await {
                Ok(place) => self.once(place).await,
                Err(problem) => Err(problem),
            };
            if !outcome.is_err_and(|problem| is_for_later(&self.app, &problem)) {
                break;
            }
            if self.pause().await || !self.is_wanted().await {
                return;
            }
            placed = place(&self.app, &self.caller);
        }
        // It is left to nobody now. Without the database that cannot be said.
        while self.leave_to_nobody().await.is_err() {
            if self.pause().await {
                return;
            }
        }
    }

    async fn once(&self, place: Place) -> Result<(), Problem> {
        let (program, caller, plan) = (
            Arc::clone(&self.app.program),
            Arc::clone(&self.caller),
            self.plan,
        );
        self.app
            .run_in(place, move |cancel| {
                Ok(program.drive(&caller, plan, cancel).map(drop)?)
            })
            .await
    }

    /// Waits a little; says whether the server ends, and leaves it to the next one.
    async fn pause(&self) -> bool {
        tokio::select! {
            () = self.app.ending.near() => true,
            () = tokio::time::sleep(PAUSE) => false,
        }
    }

    /// Whether the plan is still this server's to drive, as far as is known.
    async fn is_wanted(&self) -> bool {
        let queue = self.app.services.plan_queue();
        let (plan, how) = (self.plan, self.how.clone());
        let found = crate::blocking(move || queue.is_queued_as(plan, &how)).await;
        found.unwrap_or(true)
    }

    async fn leave_to_nobody(&self) -> Result<(), PlanError> {
        let queue = self.app.services_of(&self.caller).plan_queue();
        let (plan, how) = (self.plan, self.how.clone());
        crate::blocking(move || queue.pass_on(plan, &how, None).map(drop)).await
    }
}

/// Whether a plan that could not be driven has to be driven later: somebody is at it, there is no room, or the server
/// ends.
fn is_for_later(app: &App, problem: &Problem) -> bool {
    let is = |code: Code| problem.code == code.as_str();
    let was_cut_off = is(Code::PlanCancelled) && app.ending.is_near();
    was_cut_off || is(Code::PlanBusy) || is(Code::ServerBusy) || is(Code::ServerEnding)
}
