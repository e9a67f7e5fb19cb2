//! The central authorizer: decides whether a caller may run a request. Denials are recorded in the audit log.

use std::sync::Arc;

use cleveragents_domain::identity::{Access, Caller, EVERY_NAMESPACE, Permission, Scope};
use cleveragents_domain::{Code, Name};
use cleveragents_store::Engine;

use super::{OperationError, Requirement};
use crate::server::AuditService;

/// An object that a request names: its namespace, and the permission the caller needs there.
#[derive(Debug)]
pub struct AccessTarget {
    /// The namespace of the object.
    pub namespace: String,
    /// The area of the server that the object belongs to.
    pub scope: Scope,
    /// The permission that the caller needs in the namespace.
    pub permission: Permission,
    /// The error for callers who may not read the object. It equals the error for an object that does not exist.
    pub absent: Option<OperationError>,
}

impl AccessTarget {
    /// Whether the object is a built-in definition, which every caller may read. Stored objects (those with `absent`)
    /// are not built in, whatever the name of their namespace.
    pub fn is_built_in(&self) -> bool {
        self.absent.is_none()
            && self.permission == Permission::Read
            && is_built_in_namespace(&self.namespace)
    }
}

/// Maximum number of characters of a namespace in a denial. Requests name any text as a namespace.
const MAX_NAMESPACE_CHARACTERS: usize = 128;

/// Records in the audit log that a caller lacks a permission in a namespace.
pub fn record_denial(
    audit: &AuditService,
    caller: &Caller,
    operation: &'static str,
    permission: Permission,
    namespace: &str,
) -> Result<(), OperationError> {
    let namespace = shown_namespace(namespace);
    Ok(audit.access_denied(caller.identity(), operation, permission, &namespace)?)
}

/// The error for a caller who lacks a permission in a namespace.
pub fn forbidden(permission: Permission, namespace: &str) -> OperationError {
    let (role, namespace) = (permission.least_role(), shown_namespace(namespace));
    let message = format!("this needs the role {role} on `{namespace}`");
    OperationError::new(Code::Forbidden, message)
        .with_hint("ask an owner of the namespace for a token with that role")
}

/// A namespace as logs and messages show it: shortened, without control characters.
fn shown_namespace(namespace: &str) -> String {
    let characters = namespace.chars().take(MAX_NAMESPACE_CHARACTERS);
    characters
        .map(|letter| {
            if letter.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                letter
            }
        })
        .collect()
}

/// Checks that the caller may access everything that a request names. The first refusal is recorded and returned.
pub fn authorize(
    caller: &Caller,
    engine: &Arc<Engine>,
    operation: &'static str,
    requirement: Requirement,
    targets: Vec<AccessTarget>,
) -> Result<(), OperationError> {
    if caller.is_local() {
        return Ok(());
    }
    let Requirement {
        scope,
        permission,
        is_global,
    } = requirement;
    let denied = |permission: Permission, namespace: &str| {
        let audit = AuditService::new(Arc::clone(engine));
        record_denial(&audit, caller, operation, permission, namespace)?;
        Err(forbidden(permission, namespace))
    };
    if is_global && !caller.may_everywhere(scope, permission) {
        return denied(permission, EVERY_NAMESPACE);
    }
    let names_an_object = targets.iter().any(|target| {
        target.scope == scope && target.permission == permission && !target.is_built_in()
    });
    // A caller who has the permission in no namespace does not have it on unnamed objects either.
    if !names_an_object && caller.reach(scope, permission).is_empty() {
        return denied(permission, EVERY_NAMESPACE);
    }
    for target in targets {
        if holds_model_files(&target.namespace) {
            let message = format!("models of `{}` are files of the server", target.namespace);
            return Err(OperationError::new(Code::LocalOnly, message));
        }
        if target.is_built_in() {
            continue;
        }
        let access = caller.access(target.scope, target.permission, &target.namespace);
        match (access, target.absent) {
            (Access::Granted, _) => {}
            (Access::Hidden, Some(absent)) => return Err(absent),
            (Access::Hidden | Access::Forbidden, _) => {
                return denied(target.permission, &target.namespace);
            }
        }
    }
    Ok(())
}

/// Whether the models of a provider are files, which only a local caller may name.
pub(crate) fn holds_model_files(provider: &str) -> bool {
    matches!(
        provider.trim().to_lowercase().as_str(),
        "scripted" | "replay"
    )
}

/// Whether a namespace is reserved for the program or contains models.
fn is_built_in_namespace(namespace: &str) -> bool {
    let name = format!("{namespace}/x").parse::<Name>();
    namespace == "builtin" || name.is_ok_and(|name| name.require_free_namespace().is_err())
}
