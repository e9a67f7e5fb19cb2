//! Signing in to servers over HTTP.

/// Where tokens are kept.
pub trait TokenStore: Send + Sync {}
