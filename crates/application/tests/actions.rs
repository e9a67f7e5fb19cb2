//! The services for actions and invariants. Each test runs on both databases.

use cleveragents_application::{
    ActionFilter, ActionRules, ActionService, DefinitionError, EffectiveQuery, InvariantError,
    InvariantQuery, InvariantService, InvariantTarget, NewInvariant, NewProject, Outcome,
    ProjectService, Register,
};
use cleveragents_domain::{ActionState, Code, Diagnose as _, InvariantScope, PlanId, ProjectRules};
use cleveragents_store::plans::{self, NewPlan};
use cleveragents_testkit::{TestDatabase, at_once};

const LINT: &str = "name: lint\ndescription: Lint {what}\ndefinition_of_done: nothing is \
    reported\narguments: [{name: what, default: '${WHAT}'}]\ninvariants: ['always keep {what}', \
    keep the tests]\n";

fn set(name: &str) -> Option<String> {
    (name == "WHAT").then(|| "src".to_owned())
}

fn unset(_: &str) -> Option<String> {
    None
}

fn on_each_database(test: impl Fn(&ActionService, &InvariantService, &ProjectService)) {
    for database in TestDatabase::each() {
        let engine = || database.open();
        test(
            &ActionService::new(engine()),
            &InvariantService::new(engine()),
            &ProjectService::new(engine()),
        );
    }
}

fn create(
    actions: &ActionService,
    text: &str,
    register: Register,
) -> Result<Outcome, DefinitionError> {
    actions
        .add(text, "lint.yaml", register, &set)
        .map(|added| added.outcome)
}

fn add(
    invariants: &InvariantService,
    text: &str,
    target: InvariantTarget,
) -> Result<(), InvariantError> {
    let new = NewInvariant {
        text: text.to_owned(),
        targets: vec![target],
        non_overridable: false,
    };
    invariants.add(new).map(drop)
}

fn shop(projects: &ProjectService, invariants: &[&str]) {
    let new = NewProject {
        name: "shop".to_owned(),
        rules: ProjectRules {
            invariants: invariants.iter().map(|text| (*text).to_owned()).collect(),
            ..ProjectRules::default()
        },
        links: Vec::new(),
    };
    projects.create(new).expect("made");
}

#[test]
fn concurrent_registrations_of_one_name_have_one_winner() {
    on_each_database(|actions, _, _| {
        let made = at_once(8, |_| create(actions, LINT, Register::New));
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        for error in made.into_iter().filter_map(Result::err) {
            assert_eq!(error.code(), Code::ActionExists);
        }
        let replaced = create(actions, LINT, Register::Update).expect("replaced");
        assert_eq!(replaced, Outcome::Updated);
        assert_eq!(actions.find_stored("LINT", &set).expect("there").version, 2);
    });
}

#[test]
fn an_invalid_file_stores_nothing() {
    on_each_database(|actions, _, _| {
        for text in [
            "name: a\ndescription: ''\ndefinition_of_done: d\n",
            "name: a\n",
            "name: a\ndescription: d\ndefinition_of_done: d\nstrategy_actor: ''\n",
        ] {
            let error = actions.add(text, "a.yaml", Register::New, &set);
            let error = error.expect_err(text);
            assert!(matches!(error, DefinitionError::File(_)), "{error}");
            assert!(error.hint().is_some());
            assert!(error.to_string().starts_with("a.yaml:"), "{error}");
        }
        let all = actions.list(&ActionFilter::default(), &set).expect("read");
        assert!(all.is_empty());
    });
}

#[test]
fn an_archived_action_is_unavailable_until_it_is_registered_again() {
    on_each_database(|actions, _, _| {
        create(actions, LINT, Register::New).expect("made");
        let archived = at_once(8, |_| actions.archive("lint"));
        assert_eq!(archived.iter().filter(|done| done.is_ok()).count(), 1);
        let error = actions.available("lint", &set).expect_err("archived");
        assert_eq!(error.code(), Code::ActionArchived);
        let error = create(actions, LINT, Register::New).expect_err("the name is taken");
        assert_eq!(error.code(), Code::ActionExists);
        create(actions, LINT, Register::Update).expect("replaced");
        assert_eq!(
            actions.available("lint", &set).expect("in use").name,
            "local/lint"
        );
    });
}

#[test]
fn lists_are_filtered_and_include_invalid_actions() {
    on_each_database(|actions, _, _| {
        create(actions, LINT, Register::New).expect("made");
        create(actions, &LINT.replace("lint", "team/fix"), Register::New).expect("made");
        actions.archive("team/fix").expect("archived");
        let names = |filter: ActionFilter| -> Vec<String> {
            let found = actions.list(&filter, &set).expect("read");
            let names = found.into_iter().map(|found| found.registered.stored.name);
            names.collect()
        };
        assert_eq!(names(ActionFilter::default()), ["local/lint", "team/fix"]);
        let state = Some(ActionState::Archived);
        assert_eq!(
            names(ActionFilter {
                state,
                ..ActionFilter::default()
            }),
            ["team/fix"]
        );
        assert_eq!(
            names(ActionFilter {
                namespace: Some("Local".to_owned()),
                ..ActionFilter::default()
            }),
            ["local/lint"]
        );
        let broken = actions
            .list(&ActionFilter::default(), &unset)
            .expect("still listed");
        assert!(
            broken
                .iter()
                .all(|found| found.registered.definition.is_err())
        );
        let error = actions.get("lnit", &set).expect_err("no such action");
        assert!(
            error
                .hint()
                .is_some_and(|hint| hint.neutral().contains("local/lint"))
        );
    });
}

#[test]
fn an_invariant_is_added_to_all_existing_targets_or_to_none() {
    on_each_database(|actions, invariants, projects| {
        create(actions, LINT, Register::New).expect("made");
        shop(projects, &[]);
        for (target, code) in [
            (
                InvariantTarget::Project("none".to_owned()),
                Code::ProjectNotFound,
            ),
            (
                InvariantTarget::Action("lnit".to_owned()),
                Code::ActionNotFound,
            ),
            (
                InvariantTarget::Plan("01JX3QABCD".to_owned()),
                Code::PlanNotFound,
            ),
            (InvariantTarget::Plan("x".to_owned()), Code::PlanNotFound),
        ] {
            let error = add(invariants, "keep it", target).expect_err("not there");
            assert_eq!(error.code(), code);
        }
        let new = |targets: Vec<InvariantTarget>, non_overridable| NewInvariant {
            text: "keep it".to_owned(),
            targets,
            non_overridable,
        };
        let project = InvariantTarget::Project("shop".to_owned());
        let missing = InvariantTarget::Action("none".to_owned());
        assert!(
            invariants
                .add(new(vec![project.clone(), missing], false))
                .is_err()
        );
        let both = vec![InvariantTarget::Global, project.clone()];
        let error = invariants.add(new(both, true)).expect_err("not global");
        assert_eq!(error.code(), Code::InvalidInvariant);
        let error = invariants.add(new(Vec::new(), false)).expect_err("nowhere");
        assert_eq!(error.code(), Code::InvalidInvariant);
        let query = InvariantQuery::default();
        assert!(invariants.list(&query).expect("read").is_empty());
        let repeated_target = vec![
            project.clone(),
            InvariantTarget::Project("local/shop".to_owned()),
        ];
        assert_eq!(
            invariants
                .add(new(repeated_target, false))
                .expect("set")
                .len(),
            1
        );
        let error = add(invariants, " keep it ", project).expect_err("it holds");
        assert_eq!(error.code(), Code::InvariantExists);
    });
}

#[test]
fn effective_invariants_come_from_all_sources() {
    on_each_database(|actions, invariants, projects| {
        create(actions, LINT, Register::New).expect("made");
        shop(projects, &["Never keep src", "shop only"]);
        add(invariants, "Keep the tests.", InvariantTarget::Global).expect("set");
        add(
            invariants,
            "shop by table",
            InvariantTarget::Project("shop".to_owned()),
        )
        .expect("set");
        add(
            invariants,
            "lint by table",
            InvariantTarget::Action("lint".to_owned()),
        )
        .expect("set");
        let action = actions.available("lint", &set).expect("there");
        let values = action.resolve(&[]).expect("the default");
        let query = EffectiveQuery {
            plan: None,
            action: Some(ActionRules {
                name: action.name.clone(),
                invariants: action
                    .invariants
                    .iter()
                    .map(|text| action.render(text, &values))
                    .collect(),
            }),
            projects: vec!["shop".to_owned()],
        };
        let found = invariants.effective(&query).expect("reconciled");
        let texts: Vec<(&str, InvariantScope)> = found
            .effective
            .iter()
            .map(|invariant| (invariant.text.as_str(), invariant.source))
            .collect();
        assert_eq!(
            texts,
            [
                ("always keep src", InvariantScope::Action),
                ("keep the tests", InvariantScope::Action),
                ("lint by table", InvariantScope::Action),
                ("shop by table", InvariantScope::Project),
                ("shop only", InvariantScope::Project),
            ]
        );
        assert_eq!(found.conflicts.len(), 1);
        assert_eq!(found.conflicts[0].overridden.text, "Never keep src");
        let bare = invariants
            .effective(&EffectiveQuery::default())
            .expect("global");
        assert_eq!(bare.effective.len(), 1, "only the global one");
    });
}

#[test]
fn deleting_a_project_deletes_its_invariants() {
    on_each_database(|_, invariants, projects| {
        shop(projects, &[]);
        let project = || InvariantTarget::Project("shop".to_owned());
        add(invariants, "keep it", project()).expect("set");
        add(invariants, "everywhere", InvariantTarget::Global).expect("set");
        projects.delete("shop").expect("deleted");
        shop(projects, &[]);
        let all = invariants.list(&InvariantQuery::default()).expect("read");
        assert_eq!(all.len(), 1, "the new project has none");
        add(invariants, "keep it", project()).expect("set again");
    });
}

#[test]
fn defect_11066_invariants_added_listed_and_removed_at_once_are_neither_lost_nor_doubled() {
    on_each_database(|_, invariants, _| {
        at_once(8, |thread| {
            for number in 0..6 {
                let text = format!("rule {thread} {number}");
                add(invariants, &text, InvariantTarget::Global).expect("set");
                let found = invariants
                    .list(&InvariantQuery {
                        targets: Vec::new(),
                        pattern: Some(format!("^{text}$")),
                    })
                    .expect("listed");
                assert_eq!(found.len(), 1, "{text}");
                if number % 2 == 0 {
                    let id = found[0].id.to_string();
                    invariants.remove(&id).expect("removed");
                    let error = invariants.remove(&id).expect_err("removed once");
                    assert_eq!(error.code(), Code::InvariantNotFound);
                }
            }
        });
        let remaining = invariants.list(&InvariantQuery::default()).expect("read");
        assert_eq!(remaining.len(), 8 * 3);
    });
}

#[test]
fn a_plan_keeps_the_invariants_of_its_action_with_its_own_values() {
    for database in TestDatabase::each() {
        let actions = ActionService::new(database.open());
        let invariants = InvariantService::new(database.open());
        create(&actions, LINT, Register::New).expect("made");
        let action = actions.available("lint", &set).expect("there");
        let given = [("what".to_owned(), "docs".to_owned())];
        let values = action.resolve(&given).expect("it fits");
        let mut new = NewPlan::empty(PlanId::generate());
        new.action.clone_from(&action.name);
        new.inputs.action = Some(action);
        new.inputs.arguments = values.values;
        new.inputs.arguments_order = values.order;
        let id = new.id.to_string();
        database
            .open()
            .write(move |unit| plans::insert(unit, &new))
            .expect("stored");
        let changed = LINT.replace("keep the tests", "another rule");
        create(&actions, &changed, Register::Update).expect("replaced");
        let plan = || InvariantTarget::Plan(id.clone());
        add(&invariants, "of the plan", plan()).expect("set");
        let query = invariants.query(&[plan()], &unset).expect("a query");
        let found = invariants.effective(&query).expect("reconciled");
        let texts: Vec<&str> = found
            .effective
            .iter()
            .map(|invariant| invariant.text.as_str())
            .collect();
        assert_eq!(texts, ["of the plan", "always keep docs", "keep the tests"]);
        let registered = actions.get("lint", &set).expect("there");
        assert_eq!(registered.plans, 1);
    }
}
