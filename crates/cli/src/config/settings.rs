//! The configured values in the types that commands use.

use std::time::Duration;

use cleveragents_application::{
    CheckpointTrigger, DefaultActors, Mode, SandboxCleanup, SandboxPolicy,
};
use cleveragents_domain::MicroUsd;
use cleveragents_models::{Limits, ModelName};

use super::error::Error;
use super::key::{Key, keys, models, words};
use super::resolve::{ConfigLevel, Configuration};
use crate::output::Format;

/// The resolved configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    format: Option<Format>,
    uses_pager: bool,
    notify: String,
    notify_after: Duration,
    database_url: String,
    automation_profile: String,
    mode: Option<Mode>,
    max_message_bytes: usize,
    busy_timeout: Duration,
    connections: usize,
    events_days: u32,
    budget_per_session: Option<MicroUsd>,
    budget_per_day: Option<MicroUsd>,
    actor_defaults: Vec<(&'static Key, String)>,
    plan_concurrency: u64,
    max_child_depth: u64,
    sandbox_policy: SandboxPolicy,
    model_default: Option<ModelName>,
    model_fallback: Vec<ModelName>,
    model_retries: u32,
    model_limits: Limits,
}

/// The automation profile and its mode. A configured profile wins over a configured mode.
fn automation(configuration: &Configuration) -> Result<(String, Option<Mode>), Error> {
    let text = |key: &'static Key| {
        let resolved = configuration.resolve_key(key)?;
        let value = resolved
            .value
            .and_then(|value| value.as_text().map(str::to_owned));
        Ok::<_, Error>((value.unwrap_or_default(), resolved.level))
    };
    let (profile, level) = text(&keys::AUTOMATION_PROFILE)?;
    let (mode, _) = text(&keys::MODE)?;
    Ok(match mode.parse::<Mode>() {
        Ok(mode) if level == ConfigLevel::Default => (mode.profile().to_owned(), Some(mode)),
        _ => {
            let mode = Mode::of_profile(&profile);
            (profile, mode)
        }
    })
}

impl Settings {
    /// Resolves every key.
    pub(crate) fn new(configuration: &Configuration) -> Result<Self, Error> {
        let text = |key: &'static Key| {
            let value = configuration.resolve_key(key)?.value;
            Ok::<_, Error>(value.and_then(|value| value.as_text().map(str::to_owned)))
        };
        let number = |key: &'static Key| {
            let value = configuration.resolve_key(key)?.value;
            Ok::<_, Error>(
                value
                    .and_then(|value| value.as_integer())
                    .unwrap_or_default(),
            )
        };
        let cents = |key: &'static Key| {
            let value = configuration.resolve_key(key)?.value;
            let cents = value.and_then(|value| value.as_integer());
            Ok::<_, Error>(cents.map(|cents| MicroUsd(cents.saturating_mul(10_000))))
        };
        let (automation_profile, mode) = automation(configuration)?;
        Ok(Self {
            format: text(&keys::FORMAT)?.and_then(|name| name.parse().ok()),
            uses_pager: text(&keys::PAGER)?.as_deref() != Some("never"),
            notify: text(&keys::NOTIFY)?.unwrap_or_default(),
            notify_after: Duration::from_secs(number(&keys::NOTIFY_AFTER)?),
            database_url: text(&keys::DATABASE_URL)?.unwrap_or_default(),
            automation_profile,
            mode,
            max_message_bytes: usize::try_from(number(&keys::MAX_MESSAGE_BYTES)?)
                .unwrap_or(usize::MAX),
            busy_timeout: Duration::from_secs(number(&keys::BUSY_TIMEOUT_SECONDS)?),
            connections: usize::try_from(number(&keys::CONNECTIONS)?).unwrap_or(usize::MAX),
            events_days: u32::try_from(number(&keys::EVENTS_DAYS)?).unwrap_or(u32::MAX),
            budget_per_session: cents(&keys::BUDGET_SESSION_CENTS)?,
            budget_per_day: cents(&keys::BUDGET_DAY_CENTS)?,
            actor_defaults: keys::DEFAULT_ACTORS
                .into_iter()
                .filter_map(|key| Some(text(key).transpose()?.map(|name| (key, name))))
                .collect::<Result<_, _>>()?,
            plan_concurrency: number(&keys::PLAN_CONCURRENCY)?,
            max_child_depth: number(&keys::PLAN_MAX_CHILD_DEPTH)?,
            sandbox_policy: SandboxPolicy {
                cleanup: text(&keys::SANDBOX_CLEANUP)?
                    .and_then(|word| SandboxCleanup::named(&word))
                    .unwrap_or(SandboxCleanup::OnApply),
                checkpoints: text(&keys::CHECKPOINT_AUTO_CREATE_ON)?
                    .and_then(|list| {
                        let list = words(&list, CheckpointTrigger::WORDS)?;
                        list.into_iter().map(CheckpointTrigger::named).collect()
                    })
                    .unwrap_or_default(),
            },
            model_default: text(&keys::MODEL_DEFAULT)?.and_then(|name| name.parse().ok()),
            model_fallback: text(&keys::MODEL_FALLBACK)?
                .and_then(|list| models(&list))
                .unwrap_or_default(),
            model_retries: u32::try_from(number(&keys::MODEL_RETRIES)?).unwrap_or(u32::MAX),
            model_limits: Limits {
                connect: Duration::from_secs(number(&keys::MODEL_CONNECT_TIMEOUT_SECONDS)?),
                first_byte: Duration::from_secs(number(&keys::MODEL_FIRST_BYTE_TIMEOUT_SECONDS)?),
                idle: Duration::from_secs(number(&keys::MODEL_IDLE_TIMEOUT_SECONDS)?),
                total: Duration::from_secs(number(&keys::MODEL_TOTAL_TIMEOUT_SECONDS)?),
                ..Limits::default()
            },
        })
    }

    /// The output format; `None` if the program chooses it at run time.
    pub const fn format(&self) -> Option<Format> {
        self.format
    }

    /// True unless the pager is turned off.
    pub(crate) const fn uses_pager(&self) -> bool {
        self.uses_pager
    }

    /// The mode of new plans and conversations; `None` if the automation profile is not one of a mode.
    pub(crate) const fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Notification after a long turn or plan: `off`, `bell` or `desktop`.
    pub(crate) fn notify(&self) -> &str {
        &self.notify
    }

    /// Duration from which the end of a turn or plan is notified; zero for never.
    pub(crate) const fn notify_after(&self) -> Duration {
        self.notify_after
    }

    /// Maximum cost of one session; `None` for no limit.
    pub const fn budget_per_session(&self) -> Option<MicroUsd> {
        self.budget_per_session
    }

    /// Maximum cost of one day; `None` for no limit.
    pub const fn budget_per_day(&self) -> Option<MicroUsd> {
        self.budget_per_day
    }

    pub fn database_url(&self) -> &str {
        &self.database_url
    }

    /// The name of the automation profile.
    pub fn automation_profile(&self) -> &str {
        &self.automation_profile
    }

    /// Maximum size of a message, in bytes.
    pub const fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    /// Maximum wait for another writer of the database.
    pub const fn busy_timeout(&self) -> Duration {
        self.busy_timeout
    }

    /// Maximum number of connections to the database.
    pub const fn connections(&self) -> usize {
        self.connections
    }

    /// Retention of events, in days.
    pub const fn events_days(&self) -> u32 {
        self.events_days
    }

    pub fn actor_default(&self) -> Option<&str> {
        let mut defaults = self.actor_defaults.iter();
        let general = defaults.find(|(key, _)| key.name == keys::ACTOR_GENERAL.name)?;
        Some(&general.1)
    }

    /// The default actor that a key sets, such as the key of a role.
    pub fn actor_of(&self, key: &'static Key) -> Option<String> {
        let mut defaults = self.actor_defaults.iter();
        Some(
            defaults
                .find(|(known, _)| known.name == key.name)?
                .1
                .clone(),
        )
    }

    /// The actors of plans, by role.
    pub fn plan_actors(&self) -> DefaultActors {
        DefaultActors {
            strategy: self.actor_of(&keys::ACTOR_STRATEGY),
            execution: self.actor_of(&keys::ACTOR_EXECUTION),
            estimation: self.actor_of(&keys::ACTOR_ESTIMATION),
            invariant: self.actor_of(&keys::ACTOR_INVARIANT),
            review: self.actor_of(&keys::ACTOR_REVIEW),
        }
    }

    /// Maximum number of plans that run at the same time.
    pub const fn plan_concurrency(&self) -> u64 {
        self.plan_concurrency
    }

    /// Maximum number of plans above a child plan.
    pub const fn max_child_depth(&self) -> u64 {
        self.max_child_depth
    }

    /// Checkpoints and cleanup of plans' sandboxes.
    pub const fn sandbox_policy(&self) -> &SandboxPolicy {
        &self.sandbox_policy
    }

    /// The configured default actors, general and of roles, each with its key.
    pub fn configured_actors(&self) -> impl Iterator<Item = (&'static Key, &str)> {
        let defaults = self.actor_defaults.iter();
        defaults.map(|(key, actor)| (*key, actor.as_str()))
    }

    pub const fn model_default(&self) -> Option<&ModelName> {
        self.model_default.as_ref()
    }

    /// Fallback models, in order.
    pub fn model_fallback(&self) -> &[ModelName] {
        &self.model_fallback
    }

    /// Maximum number of retries of a model call.
    pub const fn model_retries(&self) -> u32 {
        self.model_retries
    }

    /// Timeouts of a model call.
    pub const fn model_limits(&self) -> Limits {
        self.model_limits
    }
}
