Feature: Plans of several projects
  One plan can change several repositories with one diff and one atomic apply.

  Background:
    Given a new home
    And the repository "api" with
      | version | 1 |
    And the repository "web" with
      | version | 1 |
    And the repository "docs" with
      | version | 1 |
    And the file "raise.yaml"
      """
      name: local/raise
      description: Raise the version
      definition_of_done: |
        - replace `1` with `2` in `api-repo/version`
        - replace `1` with `2` in `web-repo/version`
        - replace `1` with `2` in `docs-repo/version`
      strategy_actor: builtin/deterministic
      """
    And the typed commands
      """
      agents action create --config raise.yaml
      agents resource add git-checkout local/api-repo --path api
      agents resource add git-checkout local/web-repo --path web
      agents resource add git-checkout local/docs-repo --path docs
      agents project create local/api --resource local/api-repo
      agents project create local/web --resource local/web-repo
      agents project create local/docs --resource local/docs-repo
      agents plan use local/raise local/api local/web local/docs --automation-profile trusted
      """

  Scenario: Three repositories, one diff and one apply (workflow 4)
    When I type
      """
      agents plan diff PLAN
      """
    Then the report mentions all of
      | api-repo/version  |
      | web-repo/version  |
      | docs-repo/version |
    And the repository "api" is unchanged, with 1 commit
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then the plan is apply/applied
    And the newest commit of "api" is "Raise the version" and changes "version"
    And the newest commit of "web" is "Raise the version" and changes "version"
    And the newest commit of "docs" is "Raise the version" and changes "version"

  Scenario: A conflict in one of them leaves all three unchanged
    When the user commits "7" as "web/version"
    And I try "agents plan apply PLAN --yes"
    Then the command fails with exit code 4 and error CA-0645
    And the plan is apply/errored
    And the repository "api" is unchanged, with 1 commit
    And the repository "docs" is unchanged, with 1 commit
    And the repository "web" is unchanged, with 2 commits
    And the real "web/version" holds "7"
    And the real "api/version" holds "1"
    When the user commits "1" as "web/version"
    And I type
      """
      agents plan apply PLAN --yes
      """
    Then the real "web/version" holds "2"
    And the real "api/version" holds "2"
    And the real "docs/version" holds "2"
