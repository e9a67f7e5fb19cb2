Feature: Child plans and corrections
  A large task is divided into child plans that run at the same time, each in a copy of the files. Their
  results are merged, and one decision can be corrected without repeating the others.

  Background:
    Given a new home
    And a strategist and an executor with scripts

  Scenario: Six parts in four projects, one fails, one is added (workflow 12, milestone 4)
    Given the repository "api" with
      | version | 1 |
    And the repository "web" with
      | version | 1 |
    And the repository "docs" with
      | version | 1 |
    And the repository "jobs" with
      | version | 1 |
    And the file "feature.yaml"
      """
      name: local/feature
      description: Add accounts everywhere
      definition_of_done: every project has accounts
      strategy_actor: local/strategist
      execution_actor: local/executor
      parts:
        on_failure: continue
        max_parallel: 6
        list:
        - {title: Api model, files: [api-repo/accounts]}
        - {title: Api routes, files: [api-repo/routes], after: [1]}
        - {title: Web pages, files: [web-repo/accounts], after: [2]}
        - {title: Documentation, files: [docs-repo/accounts]}
        - {title: Nightly job, files: [jobs-repo/accounts], after: [1]}
        - {title: Web menu, files: [web-repo/menu]}
      """
    And the executor answers
      """
      - when: '^Execute step 1 of 1: Api model'
        calls:
        - {name: builtin/file-write, arguments: {path: api-repo/accounts, content: "model\n"}}
      - when: '^Execute step 1 of 1: Api routes'
        calls:
        - {name: builtin/file-copy, arguments: {from: api-repo/accounts, to: api-repo/routes}}
      - when: '^Execute step 1 of 1: Web pages'
        calls:
        - {name: builtin/file-copy, arguments: {from: api-repo/routes, to: web-repo/accounts}}
      - when: '^Execute step 1 of 1: Documentation'
        text: I'm unable to help with that.
      - when: '^Execute step 1 of 1: Nightly job'
        calls:
        - {name: builtin/file-write, arguments: {path: jobs-repo/accounts, content: "job\n"}}
      - when: '^Execute step 1 of 1: Web menu'
        calls:
        - {name: builtin/file-write, arguments: {path: web-repo/menu, content: "menu\n"}}
      - text: Written.
      """
    When I type
      """
      agents resource add git-checkout local/api-repo --path api
      agents resource add git-checkout local/web-repo --path web
      agents resource add git-checkout local/docs-repo --path docs
      agents resource add git-checkout local/jobs-repo --path jobs
      agents project create local/api --resource local/api-repo
      agents project create local/web --resource local/web-repo
      agents project create local/docs --resource local/docs-repo
      agents project create local/jobs --resource local/jobs-repo
      agents action create --config feature.yaml
      agents plan use local/feature local/api local/web local/docs local/jobs --automation-profile supervised
      """
    And I try "agents plan execute PLAN"
    Then the command fails with exit code 1
    And the report mentions "Documentation"
    And the plan is execute/errored
    And the repository "docs" is unchanged, with 1 commit
    Given the executor answers
      """
      - when: '^Execute step 1 of 1: Api routes'
        calls:
        - {name: builtin/file-copy, arguments: {from: api-repo/accounts, to: api-repo/routes}}
      - when: '^Execute step 1 of 1: Web pages'
        calls:
        - {name: builtin/file-copy, arguments: {from: api-repo/routes, to: web-repo/accounts}}
      - when: '^Execute step 1 of 1: Nightly job'
        calls:
        - {name: builtin/file-write, arguments: {path: jobs-repo/accounts, content: "job\n"}}
      - when: '^Execute step 1 of 1: Write the changelog'
        calls:
        - {name: builtin/file-write, arguments: {path: docs-repo/changelog, content: "accounts\n"}}
      - when: 'Documentation'
        calls:
        - {name: builtin/file-write, arguments: {path: docs-repo/accounts, content: "manual\n"}}
      - text: Written.
      """
    When I type
      """
      agents plan execute PLAN
      agents plan correct STEP:4 --mode append --guidance 'Write the changelog too' --yes
      """
    Then the plan is execute/queued
    When I type
      """
      agents plan execute PLAN
      agents plan tree PLAN
      """
    Then the report mentions all of
      | subplan_parallel_spawn  |
      | Web pages               |
      | Write the changelog too |
      | "applied"               |
    When I type
      """
      agents plan corrections PLAN
      """
    Then the report has at "/corrections/0/mode" the value
      """
      "append"
      """
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then the plan is apply/applied
    And the real "web/accounts" holds "model"
    And the real "docs/accounts" holds "manual"
    And the real "docs/changelog" holds "accounts"
    And the real "jobs/accounts" holds "job"

  Scenario: One decision is corrected, and only what follows from it is repeated (workflow 3, milestone 3)
    Given the repository "shop" with
      | price | wrong |
    And the file "write.yaml"
      """
      name: local/write
      description: Write the parts
      definition_of_done: the parts are written
      strategy_actor: local/strategist
      execution_actor: local/executor
      """
    And the strategist answers
      """
      {"summary": "In parts", "steps": [
        {"title": "Store", "description": "Write store.", "child_plan": true},
        {"title": "Page", "description": "Write page.", "child_plan": true},
        {"title": "Copy", "description": "Copy the store.", "child_plan": true, "after": [1]}]}
      """
    And the executor answers
      """
      - when: '^Execute step 1 of 1: Store'
        calls:
        - {name: builtin/file-write, arguments: {path: store, content: "flat file\n"}}
      - when: '^Execute step 1 of 1: Page'
        calls:
        - {name: builtin/file-write, arguments: {path: page, content: "page\n"}}
      - when: '^Execute step 1 of 1: Copy'
        calls:
        - {name: builtin/file-copy, arguments: {from: store, to: copy}}
      - text: Written.
      """
    When I type
      """
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop --resource local/shop-repo
      agents action create --config write.yaml
      agents plan use local/write local/shop --automation-profile trusted
      agents plan explain STEP:1
      agents plan correct STEP:1 --guidance 'Store it in SQLite' --dry-run
      """
    Then the report has at "/files_reverted" the value
      """
      ["shop-repo/copy", "shop-repo/store"]
      """
    And the report has at "/affected_subtree/child_plans_rolled_back/1/title" the value
      """
      "Copy"
      """
    And the plan is execute/awaiting_input
    Given the executor answers
      """
      - when: '^Execute step 1 of 1: Store'
        calls:
        - {name: builtin/file-write, arguments: {path: store, content: "SQLite\n"}}
      - when: '^Execute step 1 of 1: Copy'
        calls:
        - {name: builtin/file-copy, arguments: {from: store, to: copy}}
      - text: Written.
      """
    When I type
      """
      agents plan correct STEP:1 --mode revert --guidance 'Store it in SQLite' --yes
      agents plan redo PLAN
      """
    Then the plan is execute/complete
    When I type
      """
      agents plan correct STEP:1 --mode revert --guidance 'Store it in SQLite' --yes
      agents plan execute PLAN
      agents plan diff PLAN --correction
      """
    Then the report mentions all of
      | -flat file |
      | +SQLite    |
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then the real "shop/store" holds "SQLite"
    And the real "shop/copy" holds "SQLite"
    And the real "shop/page" holds "page"

  Scenario: A conflict of two parts is resolved by the user
    Given the repository "shop" with
      | price | wrong |
    And the file "write.yaml"
      """
      name: local/write
      description: Write the title
      definition_of_done: the title is written
      strategy_actor: local/strategist
      execution_actor: local/executor
      parts: [Left, Right]
      """
    And the executor answers
      """
      - when: '^Execute step 1 of 1: Left'
        calls:
        - {name: builtin/file-write, arguments: {path: title, content: "left\n"}}
      - when: '^Execute step 1 of 1: Right'
        calls:
        - {name: builtin/file-write, arguments: {path: title, content: "right\n"}}
      - text: Written.
      """
    When I type
      """
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop --resource local/shop-repo
      agents action create --config write.yaml
      """
    And I try "agents plan use local/write local/shop --automation-profile trusted"
    Then the plan is execute/awaiting_input
    And the repository "shop" is unchanged, with 1 commit
    When I type
      """
      agents plan conflicts PLAN
      """
    Then the report mentions all of
      | left  |
      | right |
    When I type
      """
      agents plan resolve PLAN title --take theirs
      agents plan execute PLAN
      agents plan apply PLAN --yes
      """
    Then the real "shop/title" holds "right"

  Scenario: The same change in every folder, and one more part by hand
    Given the repository "shop" with
      | packages/one/name | one |
      | packages/two/name | two |
    And the file "mark.yaml"
      """
      name: local/mark
      description: Mark every package
      definition_of_done: every package is marked
      strategy_actor: local/strategist
      execution_actor: local/executor
      parts: packages/*/
      """
    And the executor answers
      """
      - when: '^Execute step 1 of 1: packages/one'
        calls:
        - {name: builtin/file-write, arguments: {path: packages/one/mark, content: "1\n"}}
      - when: '^Execute step 1 of 1: packages/two'
        calls:
        - {name: builtin/file-write, arguments: {path: packages/two/mark, content: "2\n"}}
      - when: '^Execute step 1 of 1: Write the list'
        calls:
        - {name: builtin/file-write, arguments: {path: list, content: "one two\n"}}
      - text: Written.
      """
    When I type
      """
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop --resource local/shop-repo
      agents action create --config mark.yaml
      agents plan use local/mark local/shop --automation-profile supervised
      agents plan spawn PLAN 'Write the list' --after 1,2
      agents plan execute PLAN
      agents plan children PLAN
      """
    Then the report has at "/summary/merged" the value
      """
      3
      """
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then the real "shop/packages/two/mark" holds "2"
    And the real "shop/list" holds "one two"
