//! Single inheritance of resource types, computed by one pure function.
//!
//! [`inherit`] follows `inherits` from a type to its farthest ancestor and merges the declarations, farthest first.
//! Arguments and child types accumulate, and a nearer declaration replaces a farther one of the same name. Handler,
//! strategy, capabilities, discovery and equivalence come from the nearest type that declares them.

use crate::resource_type::{ResourceKind, ResourceType, TypeName};

/// Maximum number of types in a chain, the type itself included.
pub const MAX_CHAIN: usize = 5;

/// The inheritance of a type cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InheritanceError {
    /// The type, or one it inherits from, does not exist.
    #[error("the resource type `{0}` does not exist")]
    Unknown(TypeName),
    /// The chain contains a cycle.
    #[error("`{0}` inherits from itself")]
    Circle(TypeName),
    /// The chain has more than [`MAX_CHAIN`] types.
    #[error("`{0}` inherits through more than {MAX_CHAIN} types")]
    TooLong(TypeName),
    /// A physical type cannot inherit from a virtual one, nor the reverse.
    #[error("`{child}` is {} and cannot inherit from `{parent}`", .kind.as_str())]
    OtherKind {
        /// Inheriting type.
        child: TypeName,
        /// Type that the child inherits from.
        parent: TypeName,
        /// Kind of the child.
        kind: ResourceKind,
    },
}

/// A type together with the declarations that it inherits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InheritedType {
    /// The type merged with everything it inherits.
    pub whole: ResourceType,
    /// The type itself, then its ancestors, nearest first.
    pub chain: Vec<TypeName>,
}

impl InheritedType {
    /// Whether this is the named type, or inherits from it.
    pub fn is_a(&self, name: &TypeName) -> bool {
        self.chain.contains(name)
    }
}

/// Resolves the inheritance of a type. `find` returns the declaration of a name.
pub fn inherit<'t>(
    name: &TypeName,
    find: impl Fn(&TypeName) -> Option<&'t ResourceType>,
) -> Result<InheritedType, InheritanceError> {
    let mut declarations: Vec<&ResourceType> = Vec::new();
    let mut next = Some(name);
    while let Some(current) = next {
        if declarations
            .iter()
            .any(|declared| declared.name == *current)
        {
            return Err(InheritanceError::Circle(current.clone()));
        }
        if declarations.len() == MAX_CHAIN {
            return Err(InheritanceError::TooLong(name.clone()));
        }
        let declaration =
            find(current).ok_or_else(|| InheritanceError::Unknown(current.clone()))?;
        if let Some(child) = declarations.last()
            && child.kind != declaration.kind
        {
            return Err(InheritanceError::OtherKind {
                child: child.name.clone(),
                parent: declaration.name.clone(),
                kind: child.kind,
            });
        }
        declarations.push(declaration);
        next = declaration.inherits.as_ref();
    }
    let chain = declarations
        .iter()
        .map(|declaration| declaration.name.clone())
        .collect();
    let whole = declarations
        .into_iter()
        .rev()
        .cloned()
        .reduce(merge)
        .ok_or_else(|| InheritanceError::Unknown(name.clone()))?;
    Ok(InheritedType { whole, chain })
}

/// Merges the declarations of a nearer type into an ancestor.
fn merge(ancestor: ResourceType, own: ResourceType) -> ResourceType {
    ResourceType {
        arguments: merge_lists(ancestor.arguments, own.arguments, |argument| {
            argument.name.clone()
        }),
        child_types: merge_lists(ancestor.child_types, own.child_types, |child| {
            child.name.clone()
        }),
        parent_types: merge_lists(ancestor.parent_types, own.parent_types, Clone::clone),
        auto_discovery: own.auto_discovery.or(ancestor.auto_discovery),
        equivalence: if own.equivalence.is_empty() {
            ancestor.equivalence
        } else {
            own.equivalence
        },
        handler: own.handler.or(ancestor.handler),
        sandbox_strategy: own.sandbox_strategy.or(ancestor.sandbox_strategy),
        capabilities: own.capabilities.or(ancestor.capabilities),
        description: if own.description.is_empty() {
            ancestor.description
        } else {
            own.description
        },
        name: own.name,
        kind: own.kind,
        user_addable: own.user_addable,
        inherits: own.inherits,
    }
}

/// Concatenates both lists; a nearer entry replaces a farther one with the same key.
fn merge_lists<T, K: PartialEq>(farther: Vec<T>, nearer: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut all = farther;
    for entry in nearer {
        match all.iter_mut().find(|known| key(known) == key(&entry)) {
            Some(known) => *known = entry,
            None => all.push(entry),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{InheritanceError, MAX_CHAIN, inherit};
    use crate::SandboxStrategy;
    use crate::resource_type::{
        Argument, ArgumentType, Capabilities, ChildType, ResourceKind, ResourceType, TypeName,
    };
    use proptest::prelude::*;

    fn name(text: &str) -> TypeName {
        text.parse().expect("a name")
    }

    /// Types `local/t0`, `local/t1`…, each inheriting from the one before.
    fn chain(length: usize) -> Vec<ResourceType> {
        (0..length)
            .map(|level| ResourceType {
                inherits: level
                    .checked_sub(1)
                    .map(|parent| name(&format!("local/t{parent}"))),
                ..ResourceType::new(name(&format!("local/t{level}")))
            })
            .collect()
    }

    fn find<'t>(types: &'t [ResourceType]) -> impl Fn(&TypeName) -> Option<&'t ResourceType> {
        |type_name| types.iter().find(|declared| declared.name == *type_name)
    }

    #[test]
    fn five_levels_are_allowed_and_six_are_not() {
        let types = chain(MAX_CHAIN + 1);
        let fifth = inherit(&name("local/t4"), find(&types)).expect("allowed");
        assert_eq!(fifth.chain.len(), MAX_CHAIN);
        assert_eq!(
            inherit(&name("local/t5"), find(&types)),
            Err(InheritanceError::TooLong(name("local/t5")))
        );
    }

    #[test]
    fn a_cycle_is_refused() {
        let mut types = chain(2);
        types[0].inherits = Some(name("local/t1"));
        assert_eq!(
            inherit(&name("local/t1"), find(&types)),
            Err(InheritanceError::Circle(name("local/t1")))
        );
    }

    #[test]
    fn a_missing_ancestor_and_another_kind_are_named() {
        let mut types = chain(2);
        types[1].inherits = Some(name("local/gone"));
        assert_eq!(
            inherit(&name("local/t1"), find(&types)),
            Err(InheritanceError::Unknown(name("local/gone")))
        );
        let mut types = chain(2);
        types[0].kind = ResourceKind::Virtual;
        assert!(matches!(
            inherit(&name("local/t1"), find(&types)),
            Err(InheritanceError::OtherKind { .. })
        ));
    }

    fn argument(text: &str, description: &str) -> Argument {
        Argument {
            name: text.to_owned(),
            kind: ArgumentType::String,
            required: false,
            description: description.to_owned(),
            default: None,
            validation_pattern: None,
        }
    }

    /// Report 9136: inherited fields and handlers were missing.
    #[test]
    fn defect_9136_a_subtype_has_the_declarations_of_its_ancestors() {
        let mut types = chain(3);
        types[0].arguments = vec![argument("path", "far"), argument("mode", "far")];
        types[0].child_types = vec![ChildType {
            name: name("fs-file"),
            auto_discover: false,
        }];
        types[0].handler = Some("far".to_owned());
        types[0].sandbox_strategy = Some(SandboxStrategy::Overlay);
        types[0].capabilities = Some(Capabilities {
            read: true,
            ..Capabilities::default()
        });
        types[2].arguments = vec![argument("mode", "near"), argument("size", "near")];
        let inherited = inherit(&name("local/t2"), find(&types)).expect("inherits");
        let arguments: Vec<_> = inherited
            .whole
            .arguments
            .iter()
            .map(|argument| (argument.name.as_str(), argument.description.as_str()))
            .collect();
        assert_eq!(
            arguments,
            [("path", "far"), ("mode", "near"), ("size", "near")]
        );
        assert_eq!(inherited.whole.child_types.len(), 1);
        assert_eq!(inherited.whole.handler.as_deref(), Some("far"));
        assert_eq!(
            inherited.whole.sandbox_strategy,
            Some(SandboxStrategy::Overlay)
        );
        assert!(inherited.whole.capabilities.expect("inherited").read);
        assert_eq!(inherited.whole.name, name("local/t2"));
        assert!(inherited.is_a(&name("local/t0")) && !inherited.is_a(&name("fs-file")));
    }

    proptest! {
        /// No argument is lost or duplicated, however the levels declare them.
        #[test]
        fn arguments_accumulate(levels in proptest::collection::vec(
            proptest::collection::btree_set("[a-f]", 0..5), 1..=MAX_CHAIN)) {
            let mut types = chain(levels.len());
            for (declared, names) in types.iter_mut().zip(&levels) {
                declared.arguments = names.iter().map(|text| argument(text, "")).collect();
            }
            let last = name(&format!("local/t{}", levels.len() - 1));
            let inherited = inherit(&last, find(&types)).expect("inherits");
            let mut names: Vec<_> = inherited.whole.arguments.iter().map(|argument| argument.name.clone()).collect();
            names.sort_unstable();
            let expected: std::collections::BTreeSet<_> = levels.into_iter().flatten().collect();
            prop_assert_eq!(names, expected.into_iter().collect::<Vec<_>>());
        }

        /// The declaration of the nearest type wins.
        #[test]
        fn the_nearest_declaration_wins(declared in proptest::collection::vec(any::<bool>(), 1..=MAX_CHAIN)) {
            let mut types = chain(declared.len());
            for (level, (kind, has)) in types.iter_mut().zip(&declared).enumerate() {
                kind.handler = has.then(|| format!("handler {level}"));
            }
            let last = name(&format!("local/t{}", declared.len() - 1));
            let inherited = inherit(&last, find(&types)).expect("inherits");
            let nearest = declared.iter().rposition(|has| *has).map(|level| format!("handler {level}"));
            prop_assert_eq!(inherited.whole.handler, nearest);
        }
    }
}
