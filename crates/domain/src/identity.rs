//! Callers of a server and their permissions: roles on namespaces, narrowed by scopes.
//!
//! A request that no grant permits is denied. The namespace `local` cannot be granted: its contents never leave the
//! machine, and only the local user ([`Caller::local`]) sees them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Diagnose};
use crate::name::is_plain_segment;
use crate::{Hint, hint};

/// The namespace whose contents never leave the machine.
pub const LOCAL_NAMESPACE: &str = "local";

/// Stands for every namespace except [`LOCAL_NAMESPACE`].
pub const EVERY_NAMESPACE: &str = "*";

/// A role, a namespace or a scope cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Not in the form `NAMESPACE=ROLE`.
    #[error("`{0}` is not a grant")]
    Form(String),
    /// The role does not exist.
    #[error("`{0}` is not a role")]
    Role(String),
    /// The scope does not exist.
    #[error("`{0}` is not a scope")]
    Scope(String),
    /// The namespace is invalid.
    #[error("`{0}` is not a namespace")]
    Namespace(String),
    /// The namespace `local` cannot be granted.
    #[error("`local` cannot be granted: its contents never leave the machine")]
    Local,
}

impl Diagnose for GrantError {
    fn code(&self) -> Code {
        Code::InvalidGrant
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Form(_) | Self::Namespace(_) | Self::Local => {
                "write NAMESPACE=ROLE, such as `acme=editor`; `*` is every namespace but `local`"
                    .into()
            }
            Self::Role(_) => hint!("the roles are {}", comma_separated(Role::ALL)),
            Self::Scope(_) => hint!("the scopes are {}", comma_separated(Scope::ALL)),
        })
    }
}

fn comma_separated<T: fmt::Display>(all: &[T]) -> String {
    all.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

macro_rules! words {
    ($error:ident; $(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $variant:ident = $text:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$item])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            /// All values, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Written form.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = GrantError;

            fn from_str(text: &str) -> Result<Self, GrantError> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|known| known.as_str() == text)
                    .ok_or_else(|| GrantError::$error(text.to_owned()))
            }
        }
    };
}

words! { Role;
    /// Role in a namespace. Each role includes those before it.
    Role {
        /// Reads.
        Viewer = "viewer";
        /// Creates, changes and runs.
        Editor = "editor";
        /// Deletes, and decides what runs without approval.
        Admin = "admin";
        /// Manages permissions.
        Owner = "owner";
    }
}

words! { Scope;
    /// Area that a token may be used for.
    Scope {
        /// Conversations.
        Sessions = "sessions";
        /// Plans and the resources they work on.
        Plans = "plans";
        /// Actors, tools and other definitions.
        Registry = "registry";
        /// The stream of events.
        Events = "events";
        /// Tasks of other agents.
        Tasks = "tasks";
        /// Tokens, the audit log and the state of the server.
        Server = "server";
    }
}

/// Permission that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    Read,
    /// Create, change or run something.
    Write,
    /// Delete something, or decide what runs without approval.
    Manage,
    /// Manage permissions.
    Own,
}

impl Permission {
    /// All permissions, weakest first.
    pub const ALL: &'static [Self] = &[Self::Read, Self::Write, Self::Manage, Self::Own];

    /// The weakest role that has the permission.
    pub const fn least_role(self) -> Role {
        match self {
            Self::Read => Role::Viewer,
            Self::Write => Role::Editor,
            Self::Manage => Role::Admin,
            Self::Own => Role::Owner,
        }
    }
}

impl Role {
    /// Whether the role includes a permission.
    pub fn permits(self, permission: Permission) -> bool {
        self >= permission.least_role()
    }
}

/// A role on a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Grant {
    namespace: String,
    role: Role,
}

impl Grant {
    /// Creates a grant on a namespace, or on all with [`EVERY_NAMESPACE`].
    pub fn new(namespace: &str, role: Role) -> Result<Self, GrantError> {
        let namespace = namespace.trim().to_lowercase();
        if namespace == LOCAL_NAMESPACE {
            return Err(GrantError::Local);
        }
        if namespace != EVERY_NAMESPACE && !is_plain_segment(&namespace) {
            return Err(GrantError::Namespace(namespace));
        }
        Ok(Self { namespace, role })
    }

    /// The namespace, or [`EVERY_NAMESPACE`].
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Granted role.
    pub const fn role(&self) -> Role {
        self.role
    }

    fn covers(&self, namespace: &str) -> bool {
        namespace != LOCAL_NAMESPACE
            && (self.namespace == EVERY_NAMESPACE || self.namespace == namespace)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.namespace, self.role)
    }
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let (namespace, role) = text
            .split_once('=')
            .ok_or_else(|| GrantError::Form(text.to_owned()))?;
        Self::new(namespace, role.trim().parse()?)
    }
}

/// Identity and permissions of the sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    identity: String,
    access: CallerAccess,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CallerAccess {
    Everything,
    Granted {
        grants: Vec<Grant>,
        scopes: BTreeSet<Scope>,
    },
}

impl Caller {
    /// The local user, who may do everything on the machine.
    pub fn local(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            access: CallerAccess::Everything,
        }
    }

    pub fn with_token(
        identity: impl Into<String>,
        grants: Vec<Grant>,
        scopes: BTreeSet<Scope>,
    ) -> Self {
        Self {
            identity: identity.into(),
            access: CallerAccess::Granted { grants, scopes },
        }
    }

    /// Name recorded in events and the audit log.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Grants of a token; empty for the local user, who needs none.
    pub fn grants(&self) -> &[Grant] {
        match &self.access {
            CallerAccess::Everything => &[],
            CallerAccess::Granted { grants, .. } => grants,
        }
    }

    /// Scopes that the caller may use.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> + '_ {
        Scope::ALL
            .iter()
            .copied()
            .filter(|scope| match &self.access {
                CallerAccess::Everything => true,
                CallerAccess::Granted { scopes, .. } => scopes.contains(scope),
            })
    }

    /// Whether the caller is the local user.
    pub const fn is_local(&self) -> bool {
        matches!(self.access, CallerAccess::Everything)
    }

    /// Whether an operation in a namespace is permitted.
    pub fn may(&self, scope: Scope, permission: Permission, namespace: &str) -> bool {
        match &self.access {
            CallerAccess::Everything => true,
            CallerAccess::Granted { grants, scopes } => {
                scopes.contains(&scope)
                    && grants
                        .iter()
                        .any(|grant| grant.covers(namespace) && grant.role.permits(permission))
            }
        }
    }

    /// The access of the caller to an object of a namespace. A caller that may not read an object must not learn that it exists.
    pub fn access(&self, scope: Scope, permission: Permission, namespace: &str) -> Access {
        if self.may(scope, permission, namespace) {
            Access::Granted
        } else if self.may(scope, Permission::Read, namespace) {
            Access::Forbidden
        } else {
            Access::Hidden
        }
    }

    /// Whether an operation is permitted in every present and future namespace. Operations on entities without a
    /// namespace require this.
    pub fn may_everywhere(&self, scope: Scope, permission: Permission) -> bool {
        match &self.access {
            CallerAccess::Everything => true,
            CallerAccess::Granted { grants, scopes } => {
                scopes.contains(&scope)
                    && grants.iter().any(|grant| {
                        grant.namespace == EVERY_NAMESPACE && grant.role.permits(permission)
                    })
            }
        }
    }

    /// Namespaces in which an operation is permitted.
    pub fn reach(&self, scope: Scope, permission: Permission) -> Namespaces {
        match &self.access {
            CallerAccess::Everything => Namespaces::All,
            CallerAccess::Granted { .. } if self.may_everywhere(scope, permission) => {
                Namespaces::AllButLocal
            }
            CallerAccess::Granted { grants, scopes } => Namespaces::Only(
                grants
                    .iter()
                    .filter(|grant| scopes.contains(&scope) && grant.role.permits(permission))
                    .map(|grant| grant.namespace.clone())
                    .collect(),
            ),
        }
    }

    /// Default namespace for new entities: the only one that the caller can write to; `None` when there are several or
    /// none.
    pub fn home(&self, scope: Scope) -> Option<String> {
        match self.reach(scope, Permission::Write) {
            Namespaces::All => Some(LOCAL_NAMESPACE.to_owned()),
            Namespaces::Only(names) if names.len() == 1 => names.into_iter().next(),
            Namespaces::AllButLocal | Namespaces::Only(_) => None,
        }
    }
}

/// The access of a caller to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Granted,
    /// The caller may read the object, but not do what the request asks for.
    Forbidden,
    /// The caller may not read the object: the answer is the one for an object that does not exist.
    Hidden,
}

/// A set of namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Namespaces {
    /// All namespaces.
    #[default]
    All,
    /// All except `local`.
    AllButLocal,
    /// Only these.
    Only(BTreeSet<String>),
}

impl Namespaces {
    /// Whether the set contains a namespace.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::AllButLocal => namespace != LOCAL_NAMESPACE,
            Self::Only(names) => names.contains(namespace),
        }
    }

    /// Whether the set contains no namespace.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(names) if names.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Caller, Grant, GrantError, Namespaces, Permission, Role, Scope};
    use proptest::prelude::*;

    fn caller(grants: &[&str], scopes: &[Scope]) -> Caller {
        let grants = grants
            .iter()
            .map(|grant| grant.parse().expect("a grant"))
            .collect();
        Caller::with_token("ci", grants, scopes.iter().copied().collect())
    }

    #[test]
    fn each_role_includes_the_permissions_of_lower_roles() {
        for (role, permitted) in Role::ALL.iter().zip(1..) {
            let count = Permission::ALL
                .iter()
                .filter(|permission| role.permits(**permission));
            assert_eq!(count.count(), permitted, "{role}");
        }
    }

    #[test]
    fn operations_without_a_grant_are_denied() {
        let ungranted = caller(&[], Scope::ALL);
        let editor = caller(&["acme=editor"], &[Scope::Sessions]);
        for permission in Permission::ALL.iter().copied() {
            assert!(!ungranted.may(Scope::Sessions, permission, "acme"));
            assert!(!editor.may(Scope::Sessions, permission, "other"));
            assert!(
                !editor.may(Scope::Plans, permission, "acme"),
                "another scope"
            );
        }
        assert!(editor.may(Scope::Sessions, Permission::Write, "acme"));
        assert!(!editor.may(Scope::Sessions, Permission::Manage, "acme"));
        assert_eq!(editor.home(Scope::Sessions).as_deref(), Some("acme"));
        assert_eq!(editor.home(Scope::Plans), None);
    }

    #[test]
    fn an_object_that_the_caller_may_not_read_is_hidden() {
        let viewer = caller(&["acme=viewer"], &[Scope::Plans]);
        let access = |scope, permission, namespace| viewer.access(scope, permission, namespace);
        assert_eq!(
            access(Scope::Plans, Permission::Read, "acme"),
            Access::Granted
        );
        assert_eq!(
            access(Scope::Plans, Permission::Write, "acme"),
            Access::Forbidden
        );
        assert_eq!(
            access(Scope::Plans, Permission::Write, "other"),
            Access::Hidden
        );
        assert_eq!(
            access(Scope::Sessions, Permission::Read, "acme"),
            Access::Hidden
        );
        let local = Caller::local("ada");
        assert_eq!(
            local.access(Scope::Plans, Permission::Own, "local"),
            Access::Granted
        );
    }

    #[test]
    fn local_cannot_be_granted() {
        assert_eq!("local=viewer".parse::<Grant>(), Err(GrantError::Local));
        assert_eq!("LOCAL =viewer".parse::<Grant>(), Err(GrantError::Local));
        let owner = caller(&["*=owner"], Scope::ALL);
        assert!(!owner.may(Scope::Sessions, Permission::Read, "local"));
        assert!(owner.may(Scope::Sessions, Permission::Own, "acme"));
        assert_eq!(
            owner.reach(Scope::Sessions, Permission::Read),
            Namespaces::AllButLocal
        );
        assert!(Caller::local("ada").may(Scope::Server, Permission::Own, "local"));
    }

    #[test]
    fn invalid_grants_report_the_reason() {
        assert!(matches!("acme".parse::<Grant>(), Err(GrantError::Form(_))));
        assert!(matches!(
            "acme=king".parse::<Grant>(),
            Err(GrantError::Role(_))
        ));
        assert!(matches!(
            "a/b=viewer".parse::<Grant>(),
            Err(GrantError::Namespace(_))
        ));
        assert!(matches!("all".parse::<Scope>(), Err(GrantError::Scope(_))));
    }

    proptest! {
        /// [`Caller::reach`] and [`Caller::may`] always agree.
        #[test]
        fn reach_and_permission_agree(
            grants in prop::collection::vec((0..3_usize, 0..4_usize), 0..4),
            scopes in prop::collection::btree_set(0..Scope::ALL.len(), 0..4),
            namespace in 0..4_usize,
            scope in 0..Scope::ALL.len(),
            permission in 0..4_usize,
        ) {
            let names = ["acme", "other", "*"];
            let grants = grants
                .into_iter()
                .map(|(name, role)| Grant::new(names[name], Role::ALL[role]).expect("a grant"))
                .collect();
            let scopes = scopes.into_iter().map(|index| Scope::ALL[index]).collect();
            let caller = Caller::with_token("ci", grants, scopes);
            let namespace = ["acme", "other", "third", "local"][namespace];
            let (scope, permission) = (Scope::ALL[scope], Permission::ALL[permission]);
            prop_assert_eq!(
                caller.may(scope, permission, namespace),
                caller.reach(scope, permission).contains(namespace)
            );
        }
    }
}
