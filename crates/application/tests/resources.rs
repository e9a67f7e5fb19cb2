//! Resources: types and inheritance, registration with discovery, the tree, and concurrent changes.
//! Each test runs on both databases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cleveragents_application::{
    LinkRequest, NewProject, NewResource, Outcome, Presence, ProjectService, Register,
    RegisteredResource, ResourceError, ResourceFilter, ResourceService,
};
use cleveragents_domain::{Code, Diagnose as _, MAX_CHAIN, ResourceId, SandboxStrategy};
use cleveragents_testkit::{TestDatabase, at_once, proof_size};

/// Runs a test with a service on each kind of database and a folder for files.
fn on_each_database(test: impl Fn(&TestDatabase, &ResourceService, &Path)) {
    for database in TestDatabase::each() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = std::fs::canonicalize(folder.path()).expect("it is there");
        test(&database, &ResourceService::new(database.open()), &path);
    }
}

fn git(folder: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(arguments)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// A repository with one commit.
fn repository(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(&path).expect("a folder");
    git(&path, &["init", "-q", "-b", "main"]);
    std::fs::write(path.join("README.md"), "hello\n").expect("a file");
    git(&path, &["add", "."]);
    git(&path, &["commit", "-q", "-m", "first"]);
    path
}

fn folder(base: &Path, name: &str) -> PathBuf {
    let path = base.join(name);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

fn new(type_name: &str, name: &str, path: &Path) -> NewResource {
    NewResource {
        type_name: type_name.to_owned(),
        name: name.to_owned(),
        values: BTreeMap::from([("path".to_owned(), path.display().to_string())]),
        base: PathBuf::from("/"),
        ..NewResource::default()
    }
}

fn add(service: &ResourceService, type_name: &str, name: &str, path: &Path) -> RegisteredResource {
    service
        .add(&new(type_name, name, path), Register::New)
        .expect("registered")
}

fn add_type(service: &ResourceService, yaml: &str) -> Result<(), ResourceError> {
    service.add_type(yaml, &|_| None, Register::New).map(drop)
}

fn code<T: std::fmt::Debug>(outcome: Result<T, ResourceError>) -> Code {
    outcome.expect_err("it is refused").code()
}

fn names(found: &[cleveragents_domain::Resource]) -> Vec<&str> {
    found
        .iter()
        .map(|resource| resource.name.as_str())
        .collect()
}

#[test]
fn registering_a_checkout_discovers_its_object_database_and_working_tree() {
    on_each_database(|_, service, base| {
        let path = repository(base, "api");
        let made = add(service, "git-checkout", "api", &path);
        assert_eq!(made.outcome, Outcome::Created);
        assert_eq!(
            names(&made.discovered),
            ["local/api/git", "local/api/worktree"]
        );
        assert_eq!(made.resource.location.as_deref(), path.to_str());
        let git = &made.discovered[0];
        assert_eq!(git.location.as_deref(), path.join(".git").to_str());
        assert!(git.auto_discovered && !made.resource.auto_discovered);
        assert_eq!(service.resolve("local/api/git").expect("found").id, git.id);

        // A bare repository has no working tree.
        let bare = folder(base, "bare.git");
        git_init_bare(&bare);
        let made = add(service, "git-checkout", "bare", &bare);
        assert_eq!(names(&made.discovered), ["local/bare/git"]);
    });
}

fn git_init_bare(path: &Path) {
    git(path, &["init", "-q", "--bare"]);
}

#[test]
fn registering_again_updates_the_discovered_resources() {
    on_each_database(|_, service, base| {
        let path = repository(base, "api");
        let first = add(service, "git-checkout", "api", &path);
        let again = service
            .add(&new("git-checkout", "api", &path), Register::Update)
            .expect("updated");
        assert_eq!(again.outcome, Outcome::Unchanged);
        assert_eq!(again.resource, first.resource);
        assert_eq!(again.discovered, first.discovered);

        let container = path.join(".devcontainer");
        std::fs::create_dir(&container).expect("a folder");
        std::fs::write(
            container.join("devcontainer.json"),
            "{ // why not\n \"name\": \"dev\", }",
        )
        .expect("a file");
        let more = service
            .add(&new("git-checkout", "api", &path), Register::Update)
            .expect("updated");
        assert_eq!(more.discovered.len(), 3);
        let found = service.resolve("local/api/devcontainer").expect("found");
        assert_eq!(found.type_name.as_str(), "devcontainer-instance");
        assert_eq!(found.properties["state"], "discovered");
        assert_eq!(found.properties["name"], "dev");

        // Malformed files are reported and never fatal, and missing resources are removed.
        std::fs::write(container.join("devcontainer.json"), "{ nonsense").expect("a file");
        let less = service
            .add(&new("git-checkout", "api", &path), Register::Update)
            .expect("updated");
        assert_eq!(less.warnings.len(), 1);
        assert!(
            less.warnings[0].contains("devcontainer.json"),
            "{:?}",
            less.warnings
        );
        assert_eq!(names(&less.removed), ["local/api/devcontainer"]);
        assert_eq!(less.discovered, first.discovered);
        assert_eq!(less.outcome, Outcome::Unchanged);
    });
}

#[test]
fn a_missing_child_in_use_is_kept_with_a_warning() {
    on_each_database(|database, service, base| {
        let path = folder(base, "site");
        std::fs::write(path.join(".devcontainer.json"), "{}").expect("a file");
        add(service, "fs-directory", "site", &path);
        let projects = ProjectService::new(database.open());
        projects
            .create(NewProject {
                name: "shop".to_owned(),
                links: vec![link("local/site/devcontainer", None)],
                ..NewProject::default()
            })
            .expect("made");
        std::fs::remove_file(path.join(".devcontainer.json")).expect("removed");
        let again = service
            .add(&new("fs-directory", "site", &path), Register::Update)
            .expect("updated");
        assert_eq!(again.warnings.len(), 1, "{:?}", again.warnings);
        assert!(service.resolve("local/site/devcontainer").is_ok());
    });
}

fn link(resource: &str, alias: Option<&str>) -> LinkRequest {
    LinkRequest {
        resource: resource.to_owned(),
        alias: alias.map(str::to_owned),
        read_only: false,
    }
}

#[test]
fn requirements_of_a_type_are_checked() {
    on_each_database(|_, service, base| {
        let path = repository(base, "api");
        let inside = folder(&path, "src");
        let plain = folder(base, "plain");
        let file = plain.join("notes.txt");
        std::fs::write(&file, "text").expect("a file");
        let refused = |type_name: &str, path: &Path| {
            code(service.add(&new(type_name, "x", path), Register::New))
        };
        for (type_name, path, expected) in [
            ("git-checkout", &plain, Code::UnsuitableLocation),
            ("git-checkout", &inside, Code::UnsuitableLocation),
            ("git-checkout", &path.join(".git"), Code::UnsuitableLocation),
            ("git-checkout", &file, Code::UnsuitableLocation),
            (
                "git-checkout",
                &base.join("nowhere"),
                Code::LocationNotFound,
            ),
            ("fs-directory", &file, Code::UnsuitableLocation),
            ("fs-file", &plain, Code::UnsuitableLocation),
            ("sqlite", &file, Code::UnsuitableLocation),
            ("git", &path, Code::ResourceNotAddable),
            ("file", &file, Code::ResourceNotAddable),
            ("no-such-type", &file, Code::ResourceTypeNotFound),
        ] {
            assert_eq!(
                refused(type_name, path),
                expected,
                "{type_name} {}",
                path.display()
            );
        }
        let mut branch = new("git-checkout", "x", &path);
        branch.values.insert("branch".to_owned(), "nope".to_owned());
        assert_eq!(
            code(service.add(&branch, Register::New)),
            Code::InvalidResourceArgument
        );
        branch.values.insert("branch".to_owned(), "main".to_owned());
        service
            .add(&branch, Register::New)
            .expect("it has this branch");
        let without = NewResource {
            values: BTreeMap::new(),
            ..new("fs-file", "y", &file)
        };
        assert_eq!(
            code(service.add(&without, Register::New)),
            Code::InvalidResourceArgument
        );
        for name in ["", "a b", "system/x", "openai/x", "../x"] {
            assert_eq!(
                code(service.add(&new("fs-file", name, &file), Register::New)),
                Code::InvalidName,
                "{name}"
            );
        }
        // Paths are stored absolute and canonical.
        let relative = NewResource {
            values: BTreeMap::from([("path".to_owned(), "plain/../plain/./notes.txt".to_owned())]),
            base: base.to_owned(),
            ..new("fs-file", "notes", &file)
        };
        let made = service.add(&relative, Register::New).expect("registered");
        assert_eq!(made.resource.location.as_deref(), file.to_str());
    });
}

#[test]
fn a_name_is_unique_and_an_update_keeps_the_type() {
    on_each_database(|_, service, base| {
        let (one, two) = (folder(base, "one"), folder(base, "two"));
        let first = add(service, "fs-directory", "files", &one);
        assert_eq!(
            code(service.add(&new("fs-directory", "files", &two), Register::New)),
            Code::ResourceExists
        );
        assert_eq!(
            code(service.add(&new("fs-mount", "files", &two), Register::Update)),
            Code::ResourceExists
        );
        let moved = NewResource {
            read_only: true,
            ..new("fs-directory", "files", &two)
        };
        let moved = service.add(&moved, Register::Update).expect("updated");
        assert_eq!(moved.outcome, Outcome::Updated);
        assert_eq!(moved.resource.id, first.resource.id);
        assert_eq!(moved.resource.version.0, 2);
        assert!(moved.resource.read_only);
        assert_eq!(moved.resource.location.as_deref(), two.to_str());
        // Users cannot change discovered resources.
        let path = repository(base, "api");
        add(service, "git-checkout", "api", &path);
        let hijack = new("fs-directory", "local/api/worktree", &one);
        assert_eq!(
            code(service.add(&hijack, Register::Update)),
            Code::ResourceExists
        );
    });
}

#[test]
fn resources_are_found_by_id_prefix_and_name() {
    on_each_database(|_, service, base| {
        let made = add(
            service,
            "fs-directory",
            "local/shop/src",
            &folder(base, "src"),
        )
        .resource;
        let id = made.id.to_string();
        let lower = id.to_lowercase();
        for reference in [
            id.as_str(),
            &lower,
            &id[..20],
            "local/shop/src",
            "shop/src",
            "Local/Shop/SRC",
        ] {
            assert_eq!(
                service.resolve(reference).expect("found").id,
                made.id,
                "{reference}"
            );
        }
        for reference in [
            "",
            "shop",
            "src",
            &id[..5],
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "'; DROP TABLE resources",
        ] {
            assert_eq!(
                code(service.resolve(reference)),
                Code::ResourceNotFound,
                "{reference}"
            );
        }
        let other = add(service, "git-checkout", "repo", &repository(base, "repo"));
        // The ids of discovered resources start with the same time as the id of their parent, so
        // three resources match.
        let prefix = &other.resource.id.to_string()[..10];
        let refused = service.resolve(prefix).expect_err("several match");
        assert!(
            matches!(&refused, ResourceError::Ambiguous { candidates, .. } if candidates.len() == 3),
            "{refused}"
        );
    });
}

/// Report 2051: links made by discovery could be removed by hand.
#[test]
fn defect_2051_a_discovered_link_cannot_be_removed_by_hand() {
    on_each_database(|_, service, base| {
        add(service, "git-checkout", "api", &repository(base, "api"));
        assert_eq!(
            code(service.unlink_child("api", "local/api/git")),
            Code::DiscoveredLink
        );
        assert_eq!(code(service.remove("local/api/git")), Code::ResourceInUse);
        assert_eq!(service.show("api").expect("shown").children.len(), 2);
    });
}

/// Report 3406: a resource that a project links could be removed.
#[test]
fn defect_3406_a_resource_that_a_project_links_stays() {
    on_each_database(|database, service, base| {
        add(service, "git-checkout", "api", &repository(base, "api"));
        let projects = ProjectService::new(database.open());
        for linked in ["local/api", "local/api/worktree"] {
            projects
                .create(NewProject {
                    name: "shop".to_owned(),
                    links: vec![link(linked, None)],
                    ..NewProject::default()
                })
                .expect("made");
            let before = service.list(&ResourceFilter::default()).expect("listed");
            let refused = service.remove("api").expect_err("it is linked");
            assert_eq!(refused.code(), Code::ResourceInUse);
            let hint = refused.hint().expect("a hint").neutral();
            assert!(
                hint.contains(
                    "`registry/project/unlink-resource` (reference=local/shop, resource="
                ),
                "{hint}"
            );
            assert_eq!(
                service.list(&ResourceFilter::default()).expect("listed"),
                before
            );
            projects.delete("shop").expect("deleted");
        }
        assert_eq!(service.remove("api").expect("removed").len(), 3);
        assert_eq!(
            service
                .list(&ResourceFilter::default())
                .expect("listed")
                .len(),
            0
        );
    });
}

/// Report 6886: a parent could be removed under its children.
#[test]
fn defect_6886_a_resource_with_children_stays() {
    on_each_database(|database, service, base| {
        let repo = repository(base, "test-repo");
        add(service, "git-checkout", "test-repo", &repo);
        add(
            service,
            "fs-directory",
            "local/test-repo/src",
            &folder(&repo, "src"),
        );
        service
            .link_child("local/test-repo", "local/test-repo/src")
            .expect("linked");
        let tree = service.tree(Some("test-repo"), None).expect("a tree");
        assert_eq!(tree[0].children.len(), 3);
        let refused = service.remove("test-repo").expect_err("it has a child");
        assert_eq!(refused.code(), Code::ResourceInUse);
        assert!(
            refused
                .hint()
                .expect("a hint")
                .neutral()
                .contains("unlink-child"),
            "{refused}"
        );
        // The child was linked manually, so it stays until it is unlinked.
        assert_eq!(
            code(service.remove("local/test-repo/src")),
            Code::ResourceInUse
        );
        // A foreign key of the database also refuses the deletion.
        let id = tree[0].resource.id;
        database
            .try_execute_sql(
                &format!(
                    "PRAGMA foreign_keys = ON; DELETE FROM resources WHERE resource_id = '{id}'"
                )
                .replace(
                    if database.kind == "postgres" {
                        "PRAGMA foreign_keys = ON; "
                    } else {
                        ""
                    },
                    "",
                ),
            )
            .expect_err("a foreign key");
        service
            .unlink_child("test-repo", "local/test-repo/src")
            .expect("unlinked");
        service.remove("test-repo").expect("removed");
        service.remove("local/test-repo/src").expect("removed");
    });
}

#[test]
fn links_follow_the_types_and_never_create_a_cycle() {
    on_each_database(|_, service, base| {
        for name in ["a", "b", "c"] {
            add(service, "fs-directory", name, &folder(base, name));
        }
        let file = base.join("f");
        std::fs::write(&file, "x").expect("a file");
        add(service, "fs-file", "f", &file);
        service.link_child("a", "b").expect("linked");
        service.link_child("b", "c").expect("linked");
        assert_eq!(code(service.link_child("c", "a")), Code::LinkCreatesCycle);
        assert_eq!(code(service.link_child("b", "a")), Code::LinkCreatesCycle);
        assert_eq!(code(service.link_child("a", "a")), Code::LinkCreatesCycle);
        assert_eq!(code(service.link_child("a", "b")), Code::LinkExists);
        assert_eq!(code(service.link_child("f", "a")), Code::LinkNotAllowed);
        assert_eq!(code(service.unlink_child("a", "c")), Code::LinkNotFound);
        service
            .link_child("a", "c")
            .expect("two paths to a resource are not a cycle");
        let tree = service.tree(Some("a"), None).expect("a tree");
        let children: Vec<_> = tree[0]
            .children
            .iter()
            .map(|node| node.resource.name.as_str())
            .collect();
        assert_eq!(children, ["local/b", "local/c"]);
    });
}

/// Two concurrent links cannot create a cycle together.
#[test]
fn racing_links_never_create_a_cycle() {
    on_each_database(|database, service, base| {
        add(service, "fs-directory", "a", &folder(base, "a"));
        add(service, "fs-directory", "b", &folder(base, "b"));
        let services = [(); 2].map(|()| ResourceService::new(database.open()));
        for round in 0..proof_size(10, 100) {
            let outcomes = at_once(2, |index| {
                let (parent, child) = if index == 0 { ("a", "b") } else { ("b", "a") };
                services[index].link_child(parent, child).map(drop)
            });
            let made: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
            assert_eq!(
                made.iter().filter(|made| **made).count(),
                1,
                "{} round {round}: {outcomes:?}",
                database.kind
            );
            for outcome in outcomes {
                if let Err(refused) = outcome {
                    assert_eq!(refused.code(), Code::LinkCreatesCycle, "{refused}");
                }
            }
            let (parent, child) = if made[0] { ("a", "b") } else { ("b", "a") };
            service.unlink_child(parent, child).expect("unlinked");
        }
    });
}

/// Report 4797: a filter by type did not return resources of subtypes.
#[test]
fn defect_4797_a_filter_by_type_takes_in_what_inherits_from_it() {
    on_each_database(|_, service, base| {
        let path = folder(base, "site");
        std::fs::write(path.join(".devcontainer.json"), "{}").expect("a file");
        add(service, "fs-directory", "site", &path);
        add_type(service, "name: photos\ninherits: fs-directory\n").expect("registered");
        add(service, "photos", "album", &folder(base, "album"));
        let listed = |type_name: &str| -> Vec<String> {
            let filter = ResourceFilter {
                type_name: Some(type_name.to_owned()),
                project: None,
            };
            let found = service.list(&filter).expect("listed");
            found
                .into_iter()
                .map(|(resource, _)| resource.name.to_string())
                .collect()
        };
        assert_eq!(listed("container-instance"), ["local/site/devcontainer"]);
        assert_eq!(listed("fs-directory"), ["local/album", "local/site"]);
        assert_eq!(listed("photos"), ["local/album"]);
        let tree = service
            .tree(None, Some("container-instance"))
            .expect("a tree");
        assert_eq!(tree.len(), 1);
        assert_eq!(tree[0].resource.name.as_str(), "local/site");
        assert_eq!(
            tree[0].children[0].resource.name.as_str(),
            "local/site/devcontainer"
        );
    });
}

/// Report 9136: a subtype had neither the fields nor the handler of its ancestor.
#[test]
fn defect_9136_a_registered_subtype_works_as_its_ancestor_does() {
    on_each_database(|_, service, base| {
        add_type(
            service,
            "name: monorepo\ninherits: git-checkout\ncli_args: [{name: team}]\n",
        )
        .expect("registered");
        let shown = service.show_type("monorepo").expect("shown");
        assert_eq!(shown.whole.handler.as_deref(), Some("git-checkout"));
        assert_eq!(
            shown.whole.sandbox_strategy,
            Some(SandboxStrategy::GitWorktree)
        );
        let flags: Vec<_> = shown
            .whole
            .arguments
            .iter()
            .map(|argument| argument.name.as_str())
            .collect();
        assert_eq!(flags, ["path", "branch", "team"]);
        let plain = folder(base, "plain");
        assert_eq!(
            code(service.add(&new("monorepo", "x", &plain), Register::New)),
            Code::UnsuitableLocation
        );
        let made = add(service, "monorepo", "api", &repository(base, "api"));
        assert_eq!(
            made.discovered.len(),
            2,
            "the discovery of a checkout applies"
        );
        assert_eq!(
            service
                .boundary(made.resource.id)
                .expect("isolated")
                .strategy,
            SandboxStrategy::GitWorktree
        );
    });
}

#[test]
fn invalid_types_are_refused() {
    on_each_database(|_, service, base| {
        let refused = |yaml: &str| code(add_type(service, yaml));
        assert_eq!(refused("name: git-checkout\n"), Code::BuiltInResourceType);
        assert_eq!(
            refused("name: local/git-checkout\n"),
            Code::BuiltInResourceType
        );
        assert_eq!(refused("name: system/x\n"), Code::InvalidName);
        assert_eq!(refused("name: openai/x\n"), Code::InvalidName);
        assert_eq!(
            refused("name: x\ninherits: missing\n"),
            Code::InvalidResourceType
        );
        assert_eq!(
            refused("name: x\nparent_types: [missing]\n"),
            Code::ResourceTypeNotFound
        );
        assert_eq!(
            refused("name: x\nkind: virtual\n"),
            Code::InvalidResourceType
        );
        assert_eq!(
            refused("name: x\nequivalence: [a]\n"),
            Code::InvalidResourceType
        );
        assert_eq!(
            refused("name: x\ninherits: file\nkind: physical\n"),
            Code::InvalidResourceType
        );
        assert_eq!(
            refused("name: x\ncli_args: [{name: update}]\n"),
            Code::InvalidResourceType
        );
        assert_eq!(
            refused("name: x\ncapabilities: {sandbox: true}\n"),
            Code::InvalidResourceType
        );
        add_type(service, "name: hash\ninherits: file\n").expect("the kind is inherited");

        // fs-directory is the first type of the chain.
        let mut parent = "fs-directory".to_owned();
        for level in 2..=MAX_CHAIN {
            add_type(service, &format!("name: t{level}\ninherits: {parent}\n"))
                .expect("short enough");
            parent = format!("t{level}");
        }
        assert_eq!(
            refused(&format!("name: t6\ninherits: {parent}\n")),
            Code::InvalidResourceType
        );
        // An update in the middle of a chain cannot make the chain too long either.
        add_type(service, "name: base\n").expect("registered");
        let longer = service.add_type("name: t2\ninherits: base\n", &|_| None, Register::Update);
        longer.expect("as long as before");
        let longer = service.add_type(
            "name: base\ninherits: fs-directory\n",
            &|_| None,
            Register::Update,
        );
        assert_eq!(code(longer), Code::InvalidResourceType);

        // A change of a type must not make its subtypes invalid.
        add_type(service, "name: lower\nsandbox_strategy: overlay\n").expect("registered");
        add_type(
            service,
            "name: upper\ninherits: lower\ncapabilities: {sandbox: true}\n",
        )
        .expect("registered");
        let taken = service.add_type("name: lower\n", &|_| None, Register::Update);
        assert_eq!(code(taken), Code::InvalidResourceType);

        assert_eq!(refused("name: t2\n"), Code::ResourceTypeExists);
        assert_eq!(code(service.remove_type("t2")), Code::ResourceTypeInUse);
        assert_eq!(
            code(service.remove_type("git-checkout")),
            Code::BuiltInResourceType
        );
        assert_eq!(
            code(service.remove_type("nobody")),
            Code::ResourceTypeNotFound
        );
        add_type(service, "name: album\ninherits: fs-directory\n").expect("registered");
        add(service, "album", "a", &folder(base, "a"));
        assert_eq!(code(service.remove_type("album")), Code::ResourceTypeInUse);
        service.remove("a").expect("removed");
        service.remove_type("album").expect("nothing uses it");
        service.remove_type(&parent).expect("the last of the chain");
    });
}

#[test]
fn a_custom_type_is_discovered_by_its_rules() {
    on_each_database(|_, service, base| {
        add_type(
            service,
            "name: package\nparent_types: [fs-directory]\nauto_discovery:\n  scan_depth: 2\n  \
             include_patterns: ['packages/*']\n  exclude_patterns: ['**/old']\n  parent_types: [fs-directory]\n  \
             detection: {scan_paths: [package.json]}\n",
        )
        .expect("registered");
        let site = folder(base, "site");
        for place in ["packages/web", "packages/api", "packages/old", "other/x"] {
            std::fs::write(folder(&site, place).join("package.json"), "{}").expect("a file");
        }
        let made = add(service, "fs-directory", "site", &site);
        assert_eq!(
            names(&made.discovered),
            ["local/site/api-package", "local/site/web-package"]
        );
        assert!(
            service
                .boundary(made.discovered[0].id)
                .expect("its parent")
                .resource
                .id
                == made.resource.id
        );
    });
}

#[test]
fn argument_values_are_validated() {
    on_each_database(|_, service, _| {
        add_type(
            service,
            "name: service\ncli_args:\n  - {name: port, type: integer, required: true}\n  \
             - {name: tls, type: boolean, default: false}\n  - {name: home, type: url}\n  \
             - {name: stage, validation_pattern: 'dev|prod'}\n",
        )
        .expect("registered");
        let given = |values: &[(&str, &str)]| NewResource {
            type_name: "service".to_owned(),
            name: "s".to_owned(),
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            base: PathBuf::from("/"),
            ..NewResource::default()
        };
        for wrong in [
            vec![],
            vec![("port", "many")],
            vec![("port", "1"), ("tls", "perhaps")],
            vec![("port", "1"), ("home", "nowhere")],
            vec![("port", "1"), ("stage", "developer")],
            vec![("port", "1"), ("stage", "dev\nprod")],
            vec![("port", "1"), ("color", "red")],
        ] {
            assert_eq!(
                code(service.add(&given(&wrong), Register::New)),
                Code::InvalidResourceArgument,
                "{wrong:?}"
            );
        }
        let values = [
            ("port", "-1"),
            ("tls", "yes"),
            ("home", "https://ada:secret@host/x"),
            ("stage", "dev"),
        ];
        let made = service
            .add(&given(&values), Register::New)
            .expect("registered")
            .resource;
        assert_eq!(
            (&made.properties["port"], &made.properties["tls"]),
            (&(-1).into(), &true.into())
        );
        assert_eq!(
            made.location.as_deref(),
            Some("https://ada:***@host/x"),
            "a location contains no password"
        );
    });
}

#[test]
fn the_boundary_is_the_nearest_resource_that_can_be_isolated() {
    on_each_database(|_, service, base| {
        let checkout = add(service, "git-checkout", "api", &repository(base, "api"));
        let own = service.boundary(checkout.resource.id).expect("itself");
        assert_eq!(
            (own.resource.id, own.strategy),
            (checkout.resource.id, SandboxStrategy::GitWorktree)
        );
        // The discovered parts of a checkout share its sandbox.
        for part in &checkout.discovered {
            let found = service.boundary(part.id).expect("the checkout");
            assert_eq!(found.resource.id, checkout.resource.id, "{}", part.name);
        }
        // A resource that the user registered is its own boundary, even below another resource.
        let src = add(service, "fs-directory", "src", &folder(base, "src")).resource;
        service.link_child("api", "src").expect("linked");
        assert_eq!(
            service.boundary(src.id).expect("itself").resource.id,
            src.id
        );
        add_type(service, "name: note\nparent_types: [fs-directory, note]\n").expect("registered");
        let note = |name: &str| {
            let new = NewResource {
                type_name: "note".to_owned(),
                name: name.to_owned(),
                ..NewResource::default()
            };
            service
                .add(&new, Register::New)
                .expect("registered")
                .resource
        };
        let (upper, lower) = (note("upper"), note("lower"));
        assert_eq!(code(service.boundary(lower.id)), Code::NoSandboxBoundary);
        service.link_child("upper", "lower").expect("linked");
        service.link_child("src", "upper").expect("linked");
        assert_eq!(
            service
                .boundary(lower.id)
                .expect("two levels up")
                .resource
                .id,
            src.id
        );
        assert_eq!(
            service.boundary(upper.id).expect("one level up").strategy,
            SandboxStrategy::CopyOnWrite
        );
        assert_eq!(
            code(service.boundary(ResourceId::generate())),
            Code::ResourceNotFound
        );
    });
}

#[test]
fn a_path_has_one_resource() {
    on_each_database(|database, service, base| {
        let repo = repository(base, "api");
        let bare = folder(base, "Bare Repo");
        git_init_bare(&bare);
        let plain = folder(base, "plain");
        let notes = plain.join("notes.txt");
        std::fs::write(&notes, "x").expect("a file");
        let data = plain.join("orders.db");
        std::fs::write(&data, b"SQLite format 3\0 and more").expect("a file");
        for (path, type_name, name) in [
            (&repo, "git-checkout", "local/api"),
            (&bare, "git-checkout", "local/bare-repo"),
            (&folder(&repo, "src"), "fs-directory", "local/src"),
            (&repo.join(".git"), "fs-directory", "local/git"),
            (&plain, "fs-directory", "local/plain"),
            (&notes, "fs-file", "local/notes-txt"),
            (&data, "sqlite", "local/orders-db"),
        ] {
            let made = service.ensure_path(path).expect("registered");
            assert_eq!(
                (made.type_name.as_str(), made.name.as_str()),
                (type_name, name)
            );
            let again =
                service.ensure_path(&path.join("../").join(path.file_name().expect("a name")));
            if path.is_dir() {
                assert_eq!(again.expect("found").id, made.id);
            }
        }
        assert_eq!(
            service
                .ensure_path(&folder(base, "more/api"))
                .expect("registered")
                .name
                .as_str(),
            "local/api-2"
        );
        assert_eq!(
            code(service.ensure_path(&base.join("nowhere"))),
            Code::LocationNotFound
        );
        // A resource that the user registered for the path is reused, whatever its name.
        let own = folder(base, "own");
        let made = add(service, "fs-mount", "mounted", &own).resource;
        assert_eq!(service.ensure_path(&own).expect("found").id, made.id);
        assert_eq!(
            database.count("SELECT COUNT(*) FROM resources WHERE auto_discovered = 0"),
            9
        );
    });
}

#[test]
fn racing_callers_get_one_resource_for_a_path() {
    on_each_database(|database, _, base| {
        let services: Vec<_> = (0..8)
            .map(|_| ResourceService::new(database.open()))
            .collect();
        for round in 0..proof_size(3, 20) {
            let path = repository(base, &format!("repo {round}"));
            let ids = at_once(services.len(), |index| {
                services[index].ensure_path(&path).expect("one").id
            });
            assert!(
                ids.windows(2).all(|pair| pair[0] == pair[1]),
                "{}: {ids:?}",
                database.kind
            );
        }
        let made = database.count("SELECT COUNT(*) FROM resources WHERE auto_discovered = 0");
        assert_eq!(made, proof_size(3, 20) as u64);
    });
}

#[test]
fn concurrent_registrations_have_one_winner() {
    on_each_database(|database, _, base| {
        let services: Vec<_> = (0..6)
            .map(|_| ResourceService::new(database.open()))
            .collect();
        let paths: Vec<_> = (0..6)
            .map(|index| folder(base, &format!("f{index}")))
            .collect();
        let outcomes = at_once(services.len(), |index| {
            services[index].add(&new("fs-directory", "same", &paths[index]), Register::New)
        });
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        for refused in outcomes.into_iter().filter_map(Result::err) {
            assert_eq!(
                refused.code(),
                Code::ResourceExists,
                "{}: {refused}",
                database.kind
            );
        }
    });
}

#[test]
fn inspection_reports_the_current_state() {
    on_each_database(|_, service, base| {
        let path = repository(base, "api");
        add(service, "git-checkout", "api", &path);
        let inspection = service.inspect("api").expect("inspected");
        let git_state = inspection.git.expect("a repository");
        assert_eq!(
            (git_state.branch.as_deref(), git_state.dirty),
            (Some("main"), Some(0))
        );
        assert_eq!(git_state.commit.map(|commit| commit.len()), Some(40));
        std::fs::write(path.join("README.md"), "changed\n").expect("a file");
        std::fs::write(path.join("new file"), "new\n").expect("a file");
        let inspection = service.inspect("api").expect("inspected");
        assert_eq!(inspection.git.expect("a repository").dirty, Some(2));
        assert_eq!(inspection.presence, Presence::Folder);
        std::fs::remove_dir_all(&path).expect("removed");
        let inspection = service.inspect("api").expect("inspected");
        assert_eq!(
            (inspection.presence, inspection.warnings.len()),
            (Presence::Missing, 1)
        );
    });
}

/// The configuration of a repository cannot start a program when the repository is read.
#[test]
fn reading_a_repository_runs_no_program_of_the_repository() {
    on_each_database(|_, service, base| {
        let path = repository(base, "trap");
        let mark = base.join("mark");
        let script = base.join("trap.sh");
        std::fs::write(&script, format!("#!/bin/sh\ntouch '{}'\n", mark.display()))
            .expect("a script");
        let mut allowed = std::fs::metadata(&script)
            .expect("it is there")
            .permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut allowed, 0o755);
        std::fs::set_permissions(&script, allowed).expect("it may run");
        git(
            &path,
            &["config", "core.fsmonitor", script.to_str().expect("text")],
        );
        add(service, "git-checkout", "trap", &path);
        service.inspect("trap").expect("inspected");
        service.ensure_path(&path).expect("found");
        assert!(!mark.exists(), "the monitor of the repository did not run");
    });
}

/// The documented examples work.
#[test]
fn the_documented_example_type_can_be_registered() {
    let document = include_str!("../../../docs/reference/resources.md");
    let (_, rest) = document.split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let database = TestDatabase::sqlite();
    let service = ResourceService::new(database.open());
    add_type(&service, example).expect("registered");
    let shown = service.show_type("database").expect("shown");
    assert_eq!(shown.whole.description, "A database of the team");
    let names: Vec<_> = shown
        .whole
        .arguments
        .iter()
        .map(|argument| argument.name.as_str())
        .collect();
    assert_eq!(names, ["path", "stage"]);
    let listed = service.types().expect("listed");
    for name in cleveragents_domain::ResourceType::built_in()
        .iter()
        .map(|kind| &kind.name)
    {
        assert!(listed.find(name).is_some());
        let is_reported = document.contains(&format!("`{name}`"))
            || !listed.find(name).expect("there").user_addable;
        assert!(is_reported, "{name} can be added and is not documented");
    }
}

/// A pipe in place of a file is reported and does not block.
#[test]
fn a_pipe_is_never_opened() {
    on_each_database(|_, service, base| {
        let site = folder(base, "site");
        let pipe = site.join(".devcontainer.json");
        let made = Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo runs");
        assert!(made.success());
        let registered = add(service, "fs-directory", "site", &site);
        assert_eq!(registered.discovered.len(), 0);
        assert_eq!(registered.warnings.len(), 1, "{:?}", registered.warnings);
        assert_eq!(code(service.ensure_path(&pipe)), Code::UnsuitableLocation);
    });
}
