//! Who calls a server, and what they may do there: roles on namespaces, narrowed by scopes.
//!
//! Nothing is permitted that no grant permits. The namespace `local` cannot be granted: what is in it never
//! leaves the machine, and only the person at the machine ([`Caller::local`]) sees it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Diagnose};
use crate::name::is_plain_segment;

/// The namespace of what never leaves the machine.
pub const LOCAL_NAMESPACE: &str = "local";

/// Stands for every namespace but [`LOCAL_NAMESPACE`].
pub const EVERY_NAMESPACE: &str = "*";

/// Why a role, a namespace or a scope cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Not written `NAMESPACE=ROLE`.
    #[error("`{0}` is not a grant")]
    Form(String),
    /// Not a role.
    #[error("`{0}` is not a role")]
    Role(String),
    /// Not a scope.
    #[error("`{0}` is not a scope")]
    Scope(String),
    /// Not a namespace.
    #[error("`{0}` is not a namespace")]
    Namespace(String),
    /// What never leaves the machine cannot be granted.
    #[error("`local` cannot be granted: what is in it never leaves the machine")]
    Local,
}

impl Diagnose for GrantError {
    fn code(&self) -> Code {
        Code::InvalidGrant
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Form(_) | Self::Namespace(_) | Self::Local => {
                "write NAMESPACE=ROLE, such as `acme=editor`; `*` is every namespace but `local`"
                    .to_owned()
            }
            Self::Role(_) => format!("the roles are {}", listed(Role::ALL)),
            Self::Scope(_) => format!("the scopes are {}", listed(Scope::ALL)),
        })
    }
}

fn listed<T: fmt::Display>(all: &[T]) -> String {
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
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// As it is written.
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
    /// What somebody is in a namespace. Each may do what those before it may.
    Role {
        /// Looks.
        Viewer = "viewer";
        /// Makes, changes and runs.
        Editor = "editor";
        /// Removes, and decides what runs unasked.
        Admin = "admin";
        /// Decides who may do what.
        Owner = "owner";
    }
}

words! { Scope;
    /// What a token may be used for.
    Scope {
        /// Conversations.
        Sessions = "sessions";
        /// Plans and what they work on.
        Plans = "plans";
        /// Actors, tools and the other definitions.
        Registry = "registry";
        /// The stream of events.
        Events = "events";
        /// Tasks of other agents.
        Tasks = "tasks";
        /// Tokens, the audit and the state of the server.
        Server = "server";
    }
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// To look.
    Read,
    /// To make, change or run something.
    Write,
    /// To remove something, or to decide what runs unasked.
    Manage,
    /// To decide who may do what.
    Own,
}

impl Permission {
    /// All of them, the least first.
    pub const ALL: &'static [Self] = &[Self::Read, Self::Write, Self::Manage, Self::Own];

    /// The least role that has it.
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
    /// Whether the role has a permission.
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
    /// A role on a namespace, or on every one with [`EVERY_NAMESPACE`].
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

    /// The role.
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

/// Whoever a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    identity: String,
    reach: Reach,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reach {
    Everything,
    Granted {
        grants: Vec<Grant>,
        scopes: BTreeSet<Scope>,
    },
}

impl Caller {
    /// The person at the machine, who may do everything there.
    pub fn local(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            reach: Reach::Everything,
        }
    }

    /// Somebody with a token.
    pub fn with_token(
        identity: impl Into<String>,
        grants: Vec<Grant>,
        scopes: BTreeSet<Scope>,
    ) -> Self {
        Self {
            identity: identity.into(),
            reach: Reach::Granted { grants, scopes },
        }
    }

    /// Who it is, for what is written down.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The roles of a token; none of the person at the machine, who needs none.
    pub fn grants(&self) -> &[Grant] {
        match &self.reach {
            Reach::Everything => &[],
            Reach::Granted { grants, .. } => grants,
        }
    }

    /// What it may use.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> + '_ {
        Scope::ALL
            .iter()
            .copied()
            .filter(|scope| match &self.reach {
                Reach::Everything => true,
                Reach::Granted { scopes, .. } => scopes.contains(scope),
            })
    }

    /// Whether it is the person at the machine.
    pub const fn is_local(&self) -> bool {
        matches!(self.reach, Reach::Everything)
    }

    /// Whether something in a namespace may be done.
    pub fn may(&self, scope: Scope, permission: Permission, namespace: &str) -> bool {
        match &self.reach {
            Reach::Everything => true,
            Reach::Granted { grants, scopes } => {
                scopes.contains(&scope)
                    && grants
                        .iter()
                        .any(|grant| grant.covers(namespace) && grant.role.permits(permission))
            }
        }
    }

    /// Whether something may be done in every namespace there will ever be, which is what belongs to none needs.
    pub fn may_everywhere(&self, scope: Scope, permission: Permission) -> bool {
        match &self.reach {
            Reach::Everything => true,
            Reach::Granted { grants, scopes } => {
                scopes.contains(&scope)
                    && grants.iter().any(|grant| {
                        grant.namespace == EVERY_NAMESPACE && grant.role.permits(permission)
                    })
            }
        }
    }

    /// The namespaces in which something may be done.
    pub fn reach(&self, scope: Scope, permission: Permission) -> Namespaces {
        match &self.reach {
            Reach::Everything => Namespaces::All,
            Reach::Granted { .. } if self.may_everywhere(scope, permission) => {
                Namespaces::AllButLocal
            }
            Reach::Granted { grants, scopes } => Namespaces::Only(
                grants
                    .iter()
                    .filter(|grant| scopes.contains(&scope) && grant.role.permits(permission))
                    .map(|grant| grant.namespace.clone())
                    .collect(),
            ),
        }
    }

    /// The namespace of what is made without naming one: the only one that can be written to, `None` when there are
    /// several or none.
    pub fn home(&self, scope: Scope) -> Option<String> {
        match self.reach(scope, Permission::Write) {
            Namespaces::All => Some(LOCAL_NAMESPACE.to_owned()),
            Namespaces::Only(names) if names.len() == 1 => names.into_iter().next(),
            Namespaces::AllButLocal | Namespaces::Only(_) => None,
        }
    }
}

/// A set of namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Namespaces {
    /// Every one.
    #[default]
    All,
    /// Every one but `local`.
    AllButLocal,
    /// These.
    Only(BTreeSet<String>),
}

impl Namespaces {
    /// Whether a namespace is among them.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::AllButLocal => namespace != LOCAL_NAMESPACE,
            Self::Only(names) => names.contains(namespace),
        }
    }

    /// Whether none is among them.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(names) if names.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, Grant, GrantError, Namespaces, Permission, Role, Scope};
    use proptest::prelude::*;

    fn caller(grants: &[&str], scopes: &[Scope]) -> Caller {
        let grants = grants
            .iter()
            .map(|grant| grant.parse().expect("a grant"))
            .collect();
        Caller::with_token("ci", grants, scopes.iter().copied().collect())
    }

    #[test]
    fn each_role_may_do_what_those_before_it_may() {
        for (role, permitted) in Role::ALL.iter().zip(1..) {
            let count = Permission::ALL.iter().filter(|one| role.permits(**one));
            assert_eq!(count.count(), permitted, "{role}");
        }
    }

    #[test]
    fn nothing_is_permitted_that_no_grant_permits() {
        let nobody = caller(&[], Scope::ALL);
        let editor = caller(&["acme=editor"], &[Scope::Sessions]);
        for permission in Permission::ALL.iter().copied() {
            assert!(!nobody.may(Scope::Sessions, permission, "acme"));
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
    fn wrong_grants_say_what_is_wrong() {
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
        /// What a caller may reach and what it may do there are the same question.
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
