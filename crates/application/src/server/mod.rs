//! Services that only a server needs: callers and their tokens, the audit log, idempotency keys, usage metrics.

mod audit;
mod error;
mod request_key;
mod token;
mod usage;

pub use audit::{AuditCheck, AuditService};
pub use error::{AuditError, TokenError};
pub use request_key::RequestKeyService;
pub(crate) use request_key::prune as prune_request_keys;
pub use token::{CreatedToken, NewToken, Secret, TokenService};
pub use usage::UsageService;
