//! Projects: atomic creation, aliases and targets. Each test runs on both databases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_application::{
    ActorService, ActorWorld, LinkRequest, NewProject, NewResource, ProjectError, ProjectService,
    ReferableNames, Register, ResourceFilter, ResourceService,
};
use cleveragents_domain::{Code, Diagnose as _, Project, ProjectRules};
use cleveragents_testkit::{TestDatabase, at_once, plans};

/// Runs a test with both services on each kind of database, with the resources `a` and `b`.
fn on_each_database(test: impl Fn(&TestDatabase, &ProjectService, &ResourceService)) {
    for database in TestDatabase::each() {
        let folder = tempfile::tempdir().expect("a folder");
        let resources = ResourceService::new(database.open());
        for name in ["a", "b"] {
            add(&resources, name, &folder.path().join(name));
        }
        test(&database, &ProjectService::new(database.open()), &resources);
    }
}

fn add(resources: &ResourceService, name: &str, path: &Path) {
    std::fs::create_dir_all(path).expect("a folder");
    let new = NewResource {
        type_name: "fs-directory".to_owned(),
        name: name.to_owned(),
        values: BTreeMap::from([("path".to_owned(), path.display().to_string())]),
        base: PathBuf::from("/"),
        ..NewResource::default()
    };
    resources.add(&new, Register::New).expect("registered");
}

fn link(resource: &str, alias: Option<&str>) -> LinkRequest {
    LinkRequest {
        resource: resource.to_owned(),
        alias: alias.map(str::to_owned),
        read_only: false,
    }
}

fn shop(links: Vec<LinkRequest>) -> NewProject {
    NewProject {
        name: "shop".to_owned(),
        rules: ProjectRules {
            description: Some("It's a \"shop\"; DROP TABLE projects".to_owned()),
            tags: vec!["web".to_owned()],
            invariants: vec!["'; DELETE FROM projects; --".to_owned()],
            invariant_actor: Some("local/keeper".parse().expect("a name")),
            automation_profile: Some("supervised".to_owned()),
        },
        links,
    }
}

fn code<T: std::fmt::Debug>(outcome: Result<T, ProjectError>) -> Code {
    outcome.expect_err("it is refused").code()
}

fn aliases(project: &Project) -> Vec<&str> {
    project
        .links
        .iter()
        .map(|link| link.alias.as_str())
        .collect()
}

/// Report 3628: an SQL update was built by string concatenation.
#[test]
fn defect_3628_texts_with_quotes_are_unchanged() {
    on_each_database(|database, projects, _| {
        let new = shop(vec![]);
        let made = projects.create(new.clone()).expect("made");
        assert_eq!(made.rules, new.rules);
        let read = ProjectService::new(database.open())
            .resolve("local/shop")
            .expect("found");
        assert_eq!(read, made);
        assert_eq!(projects.list().expect("listed"), [made]);
    });
}

/// Report 7776: the project and its links were stored in separate transactions.
#[test]
fn defect_7776_a_project_is_made_whole_or_not_at_all() {
    on_each_database(|database, projects, _| {
        let rows = || {
            let count = |table: &str| database.count(&format!("SELECT COUNT(*) FROM {table}"));
            (count("projects"), count("project_links"))
        };
        let events = "SELECT COUNT(*) FROM events WHERE kind LIKE 'project.%'";
        let wrong = [
            vec![link("a", None), link("nobody", None)],
            vec![link("a", None), link("local/a", Some("other"))],
            vec![link("a", Some("x")), link("b", Some("x"))],
            vec![link("a", Some("not an alias"))],
        ];
        for links in wrong {
            projects
                .create(shop(links.clone()))
                .expect_err("it is refused");
            assert_eq!(rows(), (0, 0), "{links:?}");
            assert_eq!(database.count(events), 0, "no event is recorded");
        }
        projects
            .create(shop(vec![link("a", None), link("b", Some("x"))]))
            .expect("made");
        assert_eq!(rows(), (1, 2));
    });
}

#[test]
fn invalid_parts_are_refused() {
    on_each_database(|_, projects, _| {
        let with = |change: &dyn Fn(&mut NewProject)| {
            let mut new = shop(vec![]);
            change(&mut new);
            code(projects.create(new))
        };
        for name in ["", "a b", "system/x", "a/b/c"] {
            assert_eq!(
                with(&|new| name.clone_into(&mut new.name)),
                Code::InvalidName,
                "{name}"
            );
        }
        assert_eq!(
            with(&|new| new.rules.tags.push("web".to_owned())),
            Code::InvalidProject
        );
        assert_eq!(
            with(&|new| new.rules.invariants.push(" ".to_owned())),
            Code::InvalidProject
        );
        assert_eq!(
            with(&|new| new.rules.automation_profile = Some("a b".to_owned())),
            Code::InvalidProject
        );
        projects.create(shop(vec![])).expect("made");
        assert_eq!(with(&|_| ()), Code::ProjectExists);
        assert_eq!(code(projects.resolve("nobody")), Code::ProjectNotFound);
    });
}

#[test]
fn aliases_are_unique_in_a_project() {
    on_each_database(|database, projects, resources| {
        let folder = tempfile::tempdir().expect("a folder");
        add(resources, "team/a", &folder.path().join("a"));
        let project = projects
            .create(shop(vec![link("a", None), link("team/a", None)]))
            .expect("made");
        assert_eq!(
            aliases(&project),
            ["a", "a-2"],
            "a taken default gets a number"
        );
        assert_eq!(
            code(projects.link_resource("shop", link("b", Some("a")))),
            Code::AliasTaken
        );
        assert_eq!(
            code(projects.link_resource("shop", link("a", Some("c")))),
            Code::ResourceAlreadyLinked
        );
        assert_eq!(
            code(projects.link_resource("shop", link("nobody", None))),
            Code::ResourceNotFound
        );
        assert_eq!(
            code(projects.link_resource("nobody", link("a", None))),
            Code::ProjectNotFound
        );
        let project = projects
            .link_resource("shop", link("b", Some("Db")))
            .expect("linked");
        assert_eq!(aliases(&project), ["a", "a-2", "db"]);
        // The database itself refuses a duplicate alias.
        add(resources, "c", &folder.path().join("c"));
        let insert = |alias: &str| {
            format!(
                "INSERT INTO project_links (project_id, resource_id, alias, read_only, created_at) \
                 SELECT '{}', resource_id, '{alias}', 0, 0 FROM resources WHERE name = 'local/c'",
                project.id
            )
        };
        let duplicate = database.try_execute_sql(&insert("db"));
        duplicate.expect_err("an alias is unique");
        database.execute_sql(&insert("c"));
        let (project, _) = projects.view("shop").expect("it is there");
        assert_eq!(aliases(&project), ["a", "a-2", "c", "db"]);
    });
}

#[test]
fn targets_are_read_only_if_the_resource_or_the_link_is_read_only() {
    on_each_database(|_, projects, resources| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fixed");
        std::fs::create_dir(&path).expect("a folder");
        let fixed = NewResource {
            type_name: "fs-directory".to_owned(),
            name: "fixed".to_owned(),
            values: BTreeMap::from([("path".to_owned(), path.display().to_string())]),
            read_only: true,
            ..NewResource::default()
        };
        resources.add(&fixed, Register::New).expect("registered");
        let reading = LinkRequest {
            read_only: true,
            ..link("a", None)
        };
        projects
            .create(shop(vec![
                reading,
                link("b", Some("data")),
                link("fixed", None),
            ]))
            .expect("made");
        let targets = projects.targets("shop").expect("targets");
        let seen: Vec<_> = targets
            .iter()
            .map(|target| {
                (
                    target.alias.as_str(),
                    target.resource.name.as_str(),
                    target.read_only,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("a", "local/a", true),
                ("data", "local/b", false),
                ("fixed", "local/fixed", true)
            ]
        );
        let filter = ResourceFilter {
            project: Some("shop".to_owned()),
            type_name: None,
        };
        assert_eq!(resources.list(&filter).expect("listed").len(), 3);
        let unknown = ResourceFilter {
            project: Some("nobody".to_owned()),
            type_name: None,
        };
        assert_eq!(code(resources.list(&unknown)), Code::ProjectNotFound);
    });
}

/// Reports 3609, 1801 and 6314: a project with linked resources could not be deleted.
#[test]
fn defect_3609_a_project_with_linked_resources_can_be_deleted_and_the_resources_remain() {
    on_each_database(|database, projects, resources| {
        projects
            .create(shop(vec![link("a", None), link("b", None)]))
            .expect("made");
        let deleted = projects.delete("shop").expect("deleted");
        assert_eq!(deleted.links.len(), 2);
        assert_eq!(database.count("SELECT COUNT(*) FROM project_links"), 0);
        assert_eq!(
            resources
                .list(&ResourceFilter::default())
                .expect("listed")
                .len(),
            2
        );
        assert_eq!(code(projects.delete("shop")), Code::ProjectNotFound);
    });
}

#[test]
fn defect_3609_a_project_of_an_unfinished_plan_cannot_be_deleted_and_its_resources_cannot_be_unlinked()
 {
    on_each_database(|database, projects, resources| {
        projects
            .create(shop(vec![link("a", None), link("b", None)]))
            .expect("made");
        let engine = database.open();
        let plan = plans::store(&engine, &plans::new_plan("p"));
        for refused in [
            projects.delete("shop").map(drop),
            projects.unlink_resource("shop", "a").map(drop),
        ] {
            let error = refused.expect_err("the plan needs it");
            assert_eq!(error.code(), Code::ProjectInUse);
            assert_eq!(error.details()["plans"], serde_json::json!([plan]));
            assert!(error.to_string().contains(&plan.to_string()), "{error}");
        }
        assert!(resources.remove("a").is_err(), "the project links it");
        assert_eq!(projects.view("shop").expect("it is there").1.len(), 2);
        plans::write(&engine, move |unit| {
            cleveragents_store::plans::advance(
                unit,
                plan,
                cleveragents_domain::StageTransition::Cancel,
                &cleveragents_store::plans::TransitionDetails::default(),
            )
        });
        projects.unlink_resource("shop", "a").expect("unlinked");
        projects.delete("shop").expect("deleted");
    });
}

#[test]
fn an_actor_of_an_unfinished_plan_cannot_be_removed() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let actors = ActorService::new(std::sync::Arc::clone(&engine));
        let world = ActorWorld {
            referable_names: &ReferableNames::default(),
            is_model: &|name| name.starts_with("openai/"),
            variables: &|_| None,
        };
        let text = "name: local/writer\ntype: llm\nmodel: openai/a\n";
        actors
            .add(text, "writer.yaml", Register::New, world)
            .expect("registered");
        let mut new = plans::new_plan("p");
        new.inputs.actors.execution = "local/writer".to_owned();
        let plan = plans::store(&engine, &new);
        let error = actors
            .remove("writer", world)
            .expect_err("the plan needs it");
        assert_eq!(error.code(), Code::ActorInUse);
        assert_eq!(error.details()["plans"], serde_json::json!([plan]));
        plans::write(&engine, move |unit| {
            cleveragents_store::plans::advance(
                unit,
                plan,
                cleveragents_domain::StageTransition::Cancel,
                &cleveragents_store::plans::TransitionDetails::default(),
            )
        });
        actors.remove("writer", world).expect("removed");
    }
}

#[test]
fn a_resource_is_unlinked_by_name_or_alias() {
    on_each_database(|_, projects, resources| {
        projects
            .create(shop(vec![link("a", None), link("b", Some("data"))]))
            .expect("made");
        let (project, resource) = projects.unlink_resource("shop", "data").expect("unlinked");
        assert_eq!(
            (aliases(&project), resource.name.as_str()),
            (vec!["a"], "local/b")
        );
        assert_eq!(
            code(projects.unlink_resource("shop", "b")),
            Code::ResourceNotLinked
        );
        let (project, _) = projects
            .unlink_resource("shop", "local/a")
            .expect("unlinked");
        assert_eq!(project.links.len(), 0);
        resources.remove("a").expect("nothing links it any more");
    });
}

#[test]
fn concurrent_creations_of_one_project_have_one_winner() {
    on_each_database(|database, _, _| {
        let services: Vec<_> = (0..6)
            .map(|_| ProjectService::new(database.open()))
            .collect();
        let outcomes = at_once(services.len(), |index| {
            services[index].create(shop(vec![link("a", None)]))
        });
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        for refused in outcomes.into_iter().filter_map(Result::err) {
            assert_eq!(
                refused.code(),
                Code::ProjectExists,
                "{}: {refused}",
                database.kind
            );
        }
    });
}

/// One transaction removes a resource while another links it to a project: the first wins, and no reference dangles.
#[test]
fn removing_and_linking_at_the_same_time_leaves_no_dangling_link() {
    on_each_database(|database, projects, resources| {
        projects.create(shop(vec![])).expect("made");
        let folder = tempfile::tempdir().expect("a folder");
        for round in 0..6 {
            let name = format!("r{round}");
            add(resources, &name, &folder.path().join(&name));
            let outcomes = at_once(2, |index| match index {
                0 => resources
                    .remove(&name)
                    .map(drop)
                    .map_err(|error| error.code()),
                _ => projects
                    .link_resource("shop", link(&name, None))
                    .map(drop)
                    .map_err(|error| error.code()),
            });
            match outcomes.as_slice() {
                [Ok(()), Err(code)] => assert_eq!(*code, Code::ResourceNotFound),
                [Err(code), Ok(())] => assert_eq!(*code, Code::ResourceInUse),
                other => panic!("{}: {other:?}", database.kind),
            }
        }
        projects.targets("shop").expect("no dangling link");
    });
}
