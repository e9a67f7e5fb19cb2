Feature: Projects
  A project links resources under aliases, and has tags, invariants and the default automation
  profile of its plans. It is created atomically.

  Background:
    Given a new home
    And a folder "docs"
    And a folder "web"
    And the resource "docs" of type fs-directory at "docs"
    And the resource "web" of type fs-directory at "web"

  Scenario: A project links resources under aliases
    When I run "project create site --resource docs --resource web:front --tag public"
    Then the command succeeds and mentions "front"
    And the project "site" links 2 resources
    When I run "project link-resource site web --alias other"
    Then the command fails with exit code 4 and error CA-0635
    When I run "resource list --project site"
    Then the command succeeds and mentions "local/web"

  @defect_7776
  Scenario: A project with an invalid part is not created
    When I run "project create site --resource docs --resource nobody --invariant safe"
    Then the command fails with exit code 3 and error CA-0601
    And there are 0 projects
    When I run "project create site --resource docs:x --resource web:x"
    Then the command fails with exit code 4 and error CA-0634
    And there are 0 projects

  @defect_3628
  Scenario: A text is stored unchanged, whatever it contains
    When I run "project create site --description ';DROP"
    Then the command succeeds and mentions "';DROP"
    And there are 1 projects

  @defect_3609
  Scenario: Deleting a project keeps its resources
    Given the project "site" that links "docs"
    When I run "project delete site"
    Then the command fails with exit code 5 and error CA-0106
    When I run "project delete site --yes"
    Then the command succeeds and mentions "resources_unlinked"
    And there are 0 projects
    And the resources are "local/docs, local/web"
