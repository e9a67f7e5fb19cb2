//! Pause, resume, drain and stop.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{Code, PoolState, hint, suggest};
use cleveragents_store::pools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::service;
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};

/// A pool and its state after a command.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PoolStateChange {
    pub name: String,
    pub state: PoolState,
    /// Whether the command changed the state.
    pub is_changed: bool,
    pub reason: Option<String>,
}

fn change(
    context: &OperationContext,
    name: &str,
    from: &'static [PoolState],
    to: PoolState,
    reason: Option<String>,
) -> Result<PoolStateChange, OperationError> {
    let name = service(context)
        .find_stored(name, context.variables())?
        .name;
    let changed = {
        let name = name.clone();
        context.engine().write(move |unit| {
            let is_changed = pools::set_state(unit, &name, from, to, reason.as_deref())?;
            Ok::<_, cleveragents_store::Error>((is_changed, pools::get(unit, &name)?))
        })?
    };
    let (is_changed, status) = changed;
    let state = status
        .as_ref()
        .map_or(PoolState::Stopped, |status| status.state);
    if !is_changed && state != to {
        return Err(OperationError::new(
            Code::PoolNotActive,
            format!("the pool `{name}` is {state} and cannot become {to}; nothing was changed"),
        )
        .with_hint(hint!("start it again with {}", suggest::pool_resume(&name))));
    }
    Ok(PoolStateChange {
        name,
        state,
        is_changed,
        reason: status.and_then(|status| status.reason),
    })
}

macro_rules! state_request {
    ($(#[$about:meta])* $request:ident($operation:literal, $summary:literal), $from:expr => $to:ident) => {
        $(#[$about])*
        #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $request {
            pub name: String,
            /// Shown with the state of the pool.
            #[serde(default)]
            pub reason: Option<String>,
        }

        impl Operation for $request {
            const NAME: &'static str = $operation;
            const SUMMARY: &'static str = $summary;
            const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
            type Response = PoolStateChange;

            fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
                resolver.name(&mut self.name, NamedKind::Definition)
            }

            fn run(self, context: &OperationContext) -> Result<PoolStateChange, OperationError> {
                change(context, &self.name, $from, PoolState::$to, self.reason)
            }
        }
    };
}

state_request! {
    /// Stops new attempts; running attempts finish.
    PausePool("pool/pause", "Pause a pool; running attempts finish"),
    &[PoolState::Active, PoolState::Draining] => Paused
}

state_request! {
    /// Starts a pool again.
    ResumePool("pool/resume", "Start a paused or stopped pool again"),
    &[PoolState::Paused, PoolState::Draining, PoolState::Stopped] => Active
}

state_request! {
    /// Starts no new item, finishes the started ones, then pauses.
    DrainPool("pool/drain", "Finish the started items of a pool, then pause it"),
    &[PoolState::Active] => Draining
}

state_request! {
    /// Stops new attempts and cancels the running ones.
    StopPool("pool/stop", "Stop a pool and cancel its attempts"),
    &[PoolState::Active, PoolState::Draining, PoolState::Paused] => Stopped
}
