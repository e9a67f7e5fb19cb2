use crate::SandboxStrategy;
use crate::inheritance::inherit;
use crate::resource_type::{ResourceKind, ResourceType, TypeName};
use std::collections::HashSet;

#[test]
fn every_built_in_type_passes_the_checks() {
    let mut names = HashSet::new();
    for declared in ResourceType::built_in() {
        let name = &declared.name;
        assert!(names.insert(name), "{name} is declared twice");
        assert!(name.is_bare() && !declared.description.is_empty(), "{name}");
        let inherited = inherit(name, ResourceType::find_built_in).expect("inherits");
        assert_eq!(inherited.whole.check_whole(), Ok(()), "{name}");
        let related = declared
            .parent_types
            .iter()
            .chain(declared.child_types.iter().map(|child| &child.name));
        for other in related {
            assert!(
                ResourceType::find_built_in(other).is_some(),
                "{name}: {other}"
            );
        }
    }
}

#[test]
fn types_that_users_register_have_their_strategies() {
    for (name, strategy) in [
        ("git-checkout", Some(SandboxStrategy::GitWorktree)),
        ("fs-mount", Some(SandboxStrategy::CopyOnWrite)),
        ("fs-directory", Some(SandboxStrategy::CopyOnWrite)),
        ("fs-file", Some(SandboxStrategy::CopyOnWrite)),
        ("sqlite", Some(SandboxStrategy::TransactionRollback)),
        ("postgres", Some(SandboxStrategy::TransactionRollback)),
        ("container-instance", Some(SandboxStrategy::Snapshot)),
        ("devcontainer-instance", Some(SandboxStrategy::Snapshot)),
        ("git", None),
    ] {
        let name: TypeName = name.parse().expect("a name");
        let inherited = inherit(&name, ResourceType::find_built_in).expect("a built-in type");
        assert_eq!(inherited.whole.sandbox_strategy, strategy, "{name}");
    }
}

/// Report 5874: a type declared no checkpoints while its handler made them.
#[test]
fn defect_5874_types_declare_exactly_the_implemented_capabilities() {
    let capabilities = |name: &str| {
        let name = name.parse().expect("a name");
        let inherited = inherit(&name, ResourceType::find_built_in).expect("a built-in type");
        inherited.whole.capabilities.expect("declared")
    };
    for name in [
        "git-checkout",
        "fs-directory",
        "fs-file",
        "sqlite",
        "postgres",
    ] {
        let capabilities = capabilities(name);
        assert!(
            capabilities.read
                && capabilities.write
                && capabilities.sandbox
                && capabilities.checkpoint,
            "{name}"
        );
    }
    for name in [
        "container-instance",
        "devcontainer-instance",
        "mysql",
        "git",
    ] {
        assert_eq!(capabilities(name), crate::Capabilities::default(), "{name}");
    }
}

#[test]
fn nine_types_are_virtual() {
    let identities = ResourceType::built_in()
        .iter()
        .filter(|declared| declared.kind == ResourceKind::Virtual);
    assert_eq!(identities.count(), 9);
}
