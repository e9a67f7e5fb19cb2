//! Ids: ULIDs, one type per entity, monotonic within a process.
//!
//! Ids sort by creation time. Two ids created by one process never compare in the wrong order, even within a
//! millisecond. Users may type any unambiguous prefix of at least [`MIN_PREFIX_LENGTH`] characters.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use ulid::{Generator, Ulid};

/// Minimum length of a prefix accepted as input.
pub const MIN_PREFIX_LENGTH: usize = 6;

/// Minimum length of a prefix shown in lists.
const MIN_SHOWN_LENGTH: usize = 8;

/// Length of a complete id.
const ID_LENGTH: usize = 26;

/// The text is neither an id nor a prefix of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not 26 characters of Crockford base 32.
    #[error(
        "`{0}` is not an id: an id is 26 letters and digits such as 01J9ZC5V7Q8W9E0R1T2Y3U4I5O"
    )]
    Malformed(String),
    /// A prefix with fewer characters than [`MIN_PREFIX_LENGTH`].
    #[error("`{0}` is too short: give at least {MIN_PREFIX_LENGTH} characters of the id")]
    TooShort(String),
}

static GENERATOR: Mutex<Generator> = Mutex::new(Generator::new());

fn next_ulid() -> Ulid {
    let mut generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        // The error means that the random part overflowed within one millisecond: wait for the next one.
        match generator.generate() {
            Ok(ulid) => return ulid,
            Err(_) => std::thread::yield_now(),
        }
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ulid);

        impl $name {
            /// Creates a new id, greater than every id this process created before.
            pub fn generate() -> Self {
                Self(next_ulid())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, formatter)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                if text.len() != ID_LENGTH {
                    return Err(IdError::Malformed(text.to_owned()));
                }
                let upper = text.to_ascii_uppercase();
                match Ulid::from_string(&upper) {
                    // A text that overflows 128 bits decodes to another id, so it is refused.
                    Ok(ulid) if ulid.to_string() == upper => Ok(Self(ulid)),
                    _ => Err(IdError::Malformed(text.to_owned())),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"})
            }
        }
    )+};
}

ids! {
    /// Id of a session.
    SessionId;
    /// Id of a message.
    MessageId;
    /// Id of a plan.
    PlanId;
    /// Id of a changeset.
    ChangesetId;
    /// Id of a tool call.
    ToolInvocationId;
    /// Id of a turn of a conversation.
    TurnId;
    /// Id of a run of an actor.
    RunId;
    /// Id of a sandbox.
    SandboxId;
    /// Id of one run of the program, which owns leases.
    ProcessId;
    /// Id of a resource.
    ResourceId;
    /// Id of a project.
    ProjectId;
    /// Id of a decision of a plan.
    DecisionId;
    /// Id of a work item.
    WorkItemId;
    /// Id of an attempt of a pool on a work item.
    AttemptId;
    /// Id of a write to a tracker.
    TrackerWriteId;
    /// Id of an attachment of a validation to a resource.
    AttachmentId;
    /// Id of an invariant.
    InvariantId;
    /// Id of an API token of a server.
    TokenId;
    /// Id of an entry of the audit log.
    AuditEntryId;
    /// Id of a task that another agent or program requested.
    TaskId;
    /// Id of one request to a server, in its response and in the log.
    RequestId;
}

/// Derives an id that has the timestamp of `from` and is always the same for the same key.
fn derived(from: Ulid, key: &str) -> Ulid {
    let hash = Sha256::new_with_prefix(from.to_bytes())
        .chain_update(key.as_bytes())
        .finalize();
    let random = hash
        .iter()
        .take(10)
        .fold(0_u128, |number, byte| (number << 8) | u128::from(*byte));
    Ulid::from_parts(from.timestamp_ms(), random)
}

impl ResourceId {
    /// Id of a resource that discovery found below this one.
    #[must_use]
    pub fn child(self, key: &str) -> Self {
        Self(derived(self.0, key))
    }
}

impl PlanId {
    /// Id of the run that executes a step of this plan.
    #[must_use]
    pub fn run(self, path: &str) -> RunId {
        RunId(derived(self.0, path))
    }
}

impl RunId {
    /// Id of the session that a step of this run uses.
    #[must_use]
    pub fn session(self, path: &str) -> SessionId {
        SessionId(derived(self.0, path))
    }
}

/// Checks that a text can be the beginning of an id and returns it in the stored spelling.
pub fn check_prefix(text: &str) -> Result<String, IdError> {
    let upper = text.to_ascii_uppercase();
    let legal =
        |byte: u8| byte.is_ascii_digit() || (byte.is_ascii_uppercase() && !b"ILOU".contains(&byte));
    if upper.is_empty() || upper.len() > ID_LENGTH || !upper.bytes().all(legal) {
        return Err(IdError::Malformed(text.to_owned()));
    }
    if upper.len() < MIN_PREFIX_LENGTH {
        return Err(IdError::TooShort(text.to_owned()));
    }
    Ok(upper)
}

/// Shortest prefix of an id, at least eight characters, that no other id starts with. `before` and `after` are the
/// neighbours of the id in the sorted list of all ids.
pub fn shortest_prefix<'i>(id: &'i str, before: Option<&str>, after: Option<&str>) -> &'i str {
    let shared = |other: &str| {
        id.bytes()
            .zip(other.bytes())
            .take_while(|(left, right)| left == right)
            .count()
    };
    let longest = before.map_or(0, shared).max(after.map_or(0, shared));
    let length = (longest + 1).max(MIN_SHOWN_LENGTH).min(id.len());
    id.get(..length).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::{SessionId, check_prefix, shortest_prefix};
    use proptest::prelude::*;

    #[test]
    fn ids_of_one_process_only_grow() {
        let ids: Vec<_> = (0..10_000).map(|_| SessionId::generate()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(
            ids.windows(2)
                .all(|pair| pair[0].to_string() < pair[1].to_string())
        );
    }

    #[test]
    fn a_prefix_has_at_least_six_legal_characters() {
        assert!(check_prefix("01J9Z").is_err());
        assert!(check_prefix("01J9ZU").is_err());
        assert_eq!(check_prefix("01j9zc").expect("legal"), "01J9ZC");
    }

    proptest! {
        #[test]
        fn an_id_round_trips_through_text_in_any_case(value: u128) {
            let id = SessionId(ulid::Ulid::from(value));
            prop_assert_eq!(id.to_string().parse::<SessionId>().expect("printed"), id);
            prop_assert_eq!(id.to_string().to_lowercase().parse::<SessionId>().expect("lower"), id);
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            let _outcome = text.parse::<SessionId>();
            let _prefix = check_prefix(&text);
        }

        #[test]
        fn shown_prefixes_are_unambiguous(values in proptest::collection::hash_set(any::<u128>(), 0..40)) {
            let ids: Vec<String> = values.iter().map(|value| {
                // Crowd the ids so that prefixes really collide.
                SessionId(ulid::Ulid::from(value & 0xFFFF)).to_string()
            }).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
            for (rank, id) in ids.iter().enumerate() {
                let before = rank.checked_sub(1).map(|rank| ids[rank].as_str());
                let prefix = shortest_prefix(id, before, ids.get(rank + 1).map(String::as_str));
                prop_assert!(id.starts_with(prefix) && prefix.len() >= 8);
                prop_assert_eq!(ids.iter().filter(|other| other.starts_with(prefix)).count(), 1);
            }
        }
    }
}
