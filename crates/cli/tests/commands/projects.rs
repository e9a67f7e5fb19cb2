//! `project`: output of each command.

use cleveragents_testkit::Agents;

use super::resources::shop;
use super::{agents, assert_shown, shown};

fn site(agents: &Agents) {
    shop(agents);
    agents.data(&[
        "project",
        "create",
        "site",
        "--resource",
        "shop:code",
        "--resource",
        "docs",
        "--tag",
        "web",
        "--invariant",
        "The API stays compatible",
        "--description",
        "The shop",
    ]);
}

#[test]
fn project_create() {
    let arguments = [
        "project",
        "create",
        "Site",
        "--resource",
        "shop:code",
        "--resource",
        "docs",
        "--tag",
        "web",
        "--invariant",
        "The API stays compatible",
        "--invariant-actor",
        "keeper",
        "--automation-profile",
        "supervised",
    ];
    assert_shown("project_create", &shown(shop, &arguments));
}

#[test]
fn project_list() {
    assert_shown("project_list", &shown(site, &["project", "list"]));
    assert_shown(
        "project_list_of_nothing",
        &shown(|_| (), &["project", "list"]),
    );
}

#[test]
fn project_show() {
    assert_shown(
        "project_show",
        &shown(site, &["project", "show", "local/site"]),
    );
}

#[test]
fn project_links() {
    let link = [
        "project",
        "link-resource",
        "site",
        "local/shop/worktree",
        "--alias",
        "files",
        "--read-only",
    ];
    assert_shown("project_link_resource", &shown(site, &link));
    assert_shown(
        "project_unlink_resource",
        &shown(site, &["project", "unlink-resource", "site", "code"]),
    );
}

#[test]
fn project_delete() {
    assert_shown(
        "project_delete",
        &shown(site, &["project", "delete", "site", "--yes"]),
    );
}

/// A server prefix in a name is not an alias.
#[test]
fn a_resource_of_a_server_may_have_an_alias() {
    let agents = agents();
    shop(&agents);
    agents.data(&[
        "resource",
        "add",
        "fs-directory",
        "prod:team/docs",
        "--path",
        "docs",
    ]);
    let created = agents.data(&["project", "create", "p", "--resource", "prod:team/docs:d"]);
    assert_eq!(created["linked_resources"][0]["alias"], "d");
    let created = agents.data(&["project", "create", "q", "--resource", "prod:team/docs"]);
    assert_eq!(created["linked_resources"][0]["alias"], "docs");
}
