Feature: Resources
  Plans work on registered resources: repositories, folders, files, databases. The type of a resource
  defines its flags, its possible children and its isolation. A resource that is in use cannot be
  removed, and removing one never removes files.

  Background:
    Given a new home

  Scenario: A checkout includes its object database and its working tree
    Given a git repository "shop"
    When I run "resource add git-checkout shop --path shop"
    Then the command succeeds and mentions "local/shop/worktree"
    And the resources are "local/shop, local/shop/git, local/shop/worktree"

  Scenario: A development container is discovered, and a broken description is only a warning
    Given a git repository "shop"
    And the file "shop/.devcontainer/devcontainer.json" holds:
      """
      { "name": "dev", // comments are allowed here
      }
      """
    When I run "resource add git-checkout shop --path shop"
    Then the command succeeds and mentions "local/shop/devcontainer"
    When the file "shop/.devcontainer/devcontainer.json" holds:
      """
      { "name":
      """
    And I run "resource add git-checkout shop --path shop --update"
    Then the command succeeds and mentions "was not registered"
    And the resources are "local/shop, local/shop/git, local/shop/worktree"

  @defect_2051
  Scenario: A discovered link cannot be removed by hand
    Given a git repository "shop"
    And the resource "shop" of type git-checkout at "shop"
    When I run "resource unlink-child shop shop/git"
    Then the command fails with exit code 4 and error CA-0618
    And the resources are "local/shop, local/shop/git, local/shop/worktree"

  @defect_3406
  Scenario: A resource that a project links cannot be removed
    Given a folder "docs"
    And the resource "docs" of type fs-directory at "docs"
    And the project "site" that links "docs"
    When I run "resource remove docs --yes"
    Then the command fails with exit code 4 and error CA-0614
    And the hint mentions "agents project unlink-resource local/site local/docs"
    And the project "site" links 1 resource
    When I run "project unlink-resource site docs"
    And I run "resource remove docs --yes"
    Then the command succeeds and mentions "files are unchanged"

  @defect_6886
  Scenario: A resource with children cannot be removed
    Given a git repository "test-repo"
    And a folder "test-repo/src"
    And the resource "test-repo" of type git-checkout at "test-repo"
    And the resource "local/test-repo/src" of type fs-directory at "test-repo/src"
    When I run "resource link-child test-repo local/test-repo/src"
    Then the command succeeds and mentions "Resource linked"
    When I run "resource remove test-repo --yes"
    Then the command fails with exit code 4 and error CA-0614
    And the hint mentions "agents resource unlink-child local/test-repo local/test-repo/src"

  Scenario: Two programs cannot create a cycle together
    Given a folder "a"
    And a folder "b"
    And the resource "a" of type fs-directory at "a"
    And the resource "b" of type fs-directory at "b"
    When 2 programs link "b" below "a" and "a" below "b" at the same time
    Then one of them lies below the other

  @defect_4797
  Scenario: A filter by type includes subtypes
    Given a folder "docs"
    And the file "docs/.devcontainer.json" holds:
      """
      {}
      """
    And the resource "docs" of type fs-directory at "docs"
    When I run "resource list --type container-instance"
    Then the command succeeds and mentions "local/docs/devcontainer"
    When I run "resource tree --type container-instance"
    Then the command succeeds and mentions "local/docs/devcontainer"

  @defect_9136
  Scenario: A custom type inherits flags, strategy and discovery
    Given a git repository "shop"
    And the file "monorepo.yaml" holds:
      """
      name: monorepo
      inherits: git-checkout
      cli_args:
        - {name: team, validation_pattern: "[a-z]+"}
      """
    When I run "resource type add --config monorepo.yaml"
    Then the command succeeds and mentions "git_worktree"
    When I run "resource add monorepo shop --path shop --team Blue"
    Then the command fails with exit code 2 and error CA-0611
    When I run "resource add monorepo shop --path shop --team blue"
    Then the command succeeds and mentions "local/shop/worktree"
    When I run "resource type remove monorepo --yes"
    Then the command fails with exit code 4 and error CA-0608

  Scenario: The error for an invalid type file names line and reason
    Given the file "wrong.yaml" holds:
      """
      name: x
      handlr: database
      """
    When I run "resource type add --config wrong.yaml"
    Then the command fails with exit code 2 and error CA-0606
    And it names line 2
    And the hint mentions "handler"
