use super::{
    Argument, ArgumentType, AutoDiscovery, Capabilities, ResourceKind, ResourceType, TypeName,
    TypeRuleError,
};
use crate::SandboxStrategy;
use proptest::prelude::*;

fn type_with_name(text: &str) -> ResourceType {
    ResourceType::new(text.parse().expect("a name"))
}

fn argument(name: &str, kind: ArgumentType) -> Argument {
    Argument {
        name: name.to_owned(),
        kind,
        required: false,
        description: String::new(),
        default: None,
        validation_pattern: None,
    }
}

#[test]
fn bare_names_stay_bare_and_others_keep_their_namespace() {
    let bare: TypeName = "Git-Checkout".parse().expect("a name");
    assert_eq!((bare.as_str(), bare.is_bare()), ("git-checkout", true));
    assert_eq!(bare.in_local().as_str(), "local/git-checkout");
    let qualified: TypeName = "team/database".parse().expect("a name");
    assert_eq!(
        (qualified.as_str(), qualified.last_segment()),
        ("team/database", "database")
    );
    for invalid in ["", "a/b/c", "a b", "../x"] {
        assert!(invalid.parse::<TypeName>().is_err(), "{invalid:?}");
    }
    assert!(
        "system/x"
            .parse::<TypeName>()
            .expect("parses")
            .require_free_namespace()
            .is_err()
    );
}

#[test]
fn argument_names_must_be_valid_flags() {
    for (name, expected) in [
        (
            "two_words",
            TypeRuleError::ArgumentName("two_words".to_owned()),
        ),
        ("-x", TypeRuleError::ArgumentName("-x".to_owned())),
        ("", TypeRuleError::ArgumentName(String::new())),
        ("help", TypeRuleError::ReservedArgument("help".to_owned())),
        (
            "read-only",
            TypeRuleError::ReservedArgument("read-only".to_owned()),
        ),
    ] {
        let mut kind = type_with_name("local/x");
        kind.arguments = vec![argument(name, ArgumentType::String)];
        assert_eq!(kind.check(), Err(expected));
    }
    let mut duplicate = type_with_name("local/x");
    duplicate.arguments = vec![
        argument("a", ArgumentType::String),
        argument("a", ArgumentType::Url),
    ];
    assert_eq!(
        duplicate.check(),
        Err(TypeRuleError::DuplicateArgument("a".to_owned()))
    );
}

#[test]
fn a_required_argument_has_no_default_and_only_texts_have_a_pattern() {
    let mut kind = type_with_name("local/x");
    kind.arguments = vec![Argument {
        required: true,
        default: Some("1".to_owned()),
        ..argument("a", ArgumentType::Integer)
    }];
    assert_eq!(
        kind.check(),
        Err(TypeRuleError::RequiredWithDefault("a".to_owned()))
    );
    kind.arguments = vec![Argument {
        validation_pattern: Some("x".to_owned()),
        ..argument("a", ArgumentType::Integer)
    }];
    assert_eq!(
        kind.check(),
        Err(TypeRuleError::PatternForType("a".to_owned()))
    );
}

#[test]
fn equivalence_is_for_virtual_types_and_required_there() {
    let mut physical = type_with_name("local/x");
    physical.equivalence = vec!["content_hash".to_owned()];
    assert_eq!(
        physical.check(),
        Err(TypeRuleError::Equivalence(ResourceKind::Physical))
    );
    let mut virtual_type = ResourceType {
        kind: ResourceKind::Virtual,
        user_addable: false,
        ..type_with_name("local/y")
    };
    assert_eq!(
        virtual_type.check_whole(),
        Err(TypeRuleError::Equivalence(ResourceKind::Virtual))
    );
    virtual_type.equivalence = vec!["content_hash".to_owned()];
    assert_eq!(virtual_type.check_whole(), Ok(()));
    virtual_type.user_addable = true;
    assert_eq!(
        virtual_type.check_whole(),
        Err(TypeRuleError::VirtualHas("user_addable"))
    );
    virtual_type.user_addable = false;
    virtual_type.sandbox_strategy = Some(SandboxStrategy::Overlay);
    assert!(virtual_type.check_whole().is_err());
}

#[test]
fn a_capability_needs_the_declaration_it_depends_on() {
    let mut kind = type_with_name("local/x");
    kind.capabilities = Some(Capabilities {
        sandbox: true,
        ..Capabilities::default()
    });
    assert!(kind.check_whole().is_err());
    kind.sandbox_strategy = Some(SandboxStrategy::None);
    assert!(kind.check_whole().is_err());
    kind.sandbox_strategy = Some(SandboxStrategy::CopyOnWrite);
    assert_eq!(kind.check_whole(), Ok(()));
    kind.capabilities = Some(Capabilities {
        checkpoint: true,
        ..Capabilities::default()
    });
    assert!(kind.check_whole().is_err());
}

#[test]
fn discovery_stays_below_the_parent() {
    let discovery = |path: &str, depth| AutoDiscovery {
        enabled: true,
        scan_depth: depth,
        include_patterns: Vec::new(),
        exclude_patterns: Vec::new(),
        parent_types: Vec::new(),
        scan_paths: vec![path.to_owned()],
        activation: super::Activation::Lazy,
    };
    let mut kind = type_with_name("local/x");
    for path in [
        "",
        "/etc/passwd",
        "..",
        "a/../../b",
        "a//b",
        "./a",
        "a\\b",
        "a\0b",
    ] {
        kind.auto_discovery = Some(discovery(path, 0));
        assert_eq!(kind.check(), Err(TypeRuleError::ScanPath(path.to_owned())));
    }
    kind.auto_discovery = Some(discovery("a/b.json", 5));
    assert_eq!(kind.check(), Ok(()));
    kind.auto_discovery = Some(discovery("a", 6));
    assert_eq!(kind.check(), Err(TypeRuleError::ScanDepth(6)));
}

proptest! {
    #[test]
    fn a_type_name_round_trips_through_text(text in "([a-z0-9][a-z0-9_-]{0,8}/)?[a-z0-9][a-z0-9_-]{0,8}") {
        let name: TypeName = text.parse().expect("well formed");
        prop_assert_eq!(name.to_string().parse::<TypeName>().expect("printed"), name);
    }

    #[test]
    fn parsing_never_panics(text in "\\PC{0,40}") {
        let _outcome = text.parse::<TypeName>();
    }

    #[test]
    fn a_type_round_trips_through_json(name in "[a-z]{1,8}/[a-z]{1,8}", description in "\\PC{0,40}", required: bool) {
        let mut kind = type_with_name(&name);
        kind.description = description;
        kind.arguments = vec![Argument { required, ..argument("path", ArgumentType::Path) }];
        let json = serde_json::to_string(&kind).expect("json");
        prop_assert_eq!(serde_json::from_str::<ResourceType>(&json).expect("read"), kind);
    }
}
