//! Who may call a server, and the account of who did what.

mod audit;
mod error;
mod token;

pub use audit::{AuditCheck, AuditService};
pub use error::{AuditError, TokenError};
pub use token::{MadeToken, NewToken, Secret, TokenService};
