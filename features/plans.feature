Feature: Plans
  A plan works out a strategy, executes it in a sandbox, validates the result, and applies it
  atomically. Its automation profile decides which of these need approval.

  Background:
    Given a new home
    And a strategist and an executor with scripts

  Scenario: A first plan, from the action to the commit (milestone 1)
    Given the repository "app" with
      | a.txt | one |
    And the file "greet.yaml"
      """
      name: local/greet
      description: Greet {who}
      definition_of_done: |
        - write `Hello {who}` to `greeting.txt`
      strategy_actor: builtin/deterministic
      arguments: [{name: who}]
      """
    When I type
      """
      agents action create --config greet.yaml
      agents resource add git-checkout local/app --path app
      agents project create local/shop
      agents project link-resource local/shop local/app
      agents plan use local/greet local/shop --arg who=Ada
      agents plan status PLAN
      agents plan execute PLAN
      agents plan diff PLAN
      """
    Then the report mentions "+Hello Ada"
    And the repository "app" is unchanged, with 1 commit
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then the report has at "/changes" the value
      """
      {"insertions": 1, "deletions": 0}
      """
    And the plan is apply/applied
    And the real "app/greeting.txt" holds "Hello Ada"
    And the newest commit of "app" is "Greet Ada" and changes "greeting.txt"

  Scenario: Fix a single bug, with approval of every phase (workflow 1)
    Given the repository "shop" with
      | health.sh | echo 'HTTP 500'                          |
      | test.sh   | sh health.sh \| grep -q '200 degraded'   |
    And the file "tests.yaml"
      """
      name: local/tests
      description: Runs the tests
      command: sh test.sh
      """
    And the file "fix.yaml"
      """
      name: local/fix-bug
      description: Answer 200 degraded instead of 500
      definition_of_done: the health check answers 200 degraded
      strategy_actor: local/strategist
      execution_actor: local/executor
      """
    And the strategist answers
      """
      {"summary": "Change the answer of the health check", "risk": 0.1,
       "decisions": [{"question": "Where is the answer made?", "chosen": "in health.sh",
                      "alternatives": ["in a proxy before it"], "confidence": 0.9,
                      "rationale": "Nothing else answers."}],
       "steps": [{"title": "Change the answer", "description": "500 becomes 200 degraded.", "files": ["health.sh"]}]}
      """
    And the executor answers
      """
      - calls:
        - {name: builtin/file-edit, arguments: {path: health.sh, edits: [{old_text: HTTP 500, new_text: HTTP 200 degraded}]}}
      - text: The health check answers 200 degraded now.
      """
    And "sh test.sh" fails in "shop"
    When I type
      """
      agents init --yes
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop
      agents project link-resource local/shop local/shop-repo
      agents validation add --config tests.yaml
      agents validation attach --project local/shop local/shop-repo local/tests
      agents action create --config fix.yaml
      agents plan use local/fix-bug local/shop --automation-profile manual
      """
    Then the plan is strategize/awaiting_input
    When I type
      """
      agents plan execute PLAN
      """
    Then the plan is strategize/awaiting_input
    And the report mentions "Change the answer of the health check"
    When I type
      """
      agents plan execute PLAN
      agents plan tree PLAN
      """
    Then the report mentions all of
      | in health.sh                               |
      | The health check answers 200 degraded now. |
    When I type
      """
      agents plan explain DECISION
      agents plan diff PLAN
      """
    Then the report mentions "HTTP 200 degraded"
    And "sh test.sh" fails in "shop"
    When I try "agents plan apply PLAN"
    Then the command fails with exit code 5 and error CA-0106
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then the plan is apply/applied
    And "sh test.sh" succeeds in "shop"
    And the newest commit of "shop" is "Answer 200 degraded instead of 500" and changes "health.sh"

  Scenario: Tests are written without approvals, and coverage is measured (workflow 2)
    Given the repository "shop" with
      | coverage.sh | printf 'coverage: %s%%\\n' $(( 40 + 25 * $(ls tests \| wc -l) )) |
      | tests/one   | a test                                                          |
    And the file "coverage.yaml"
      """
      name: local/coverage
      description: At least 80 percent of the lines are tested
      command: sh coverage.sh
      metrics: {coverage: 'coverage: ([0-9.]+)%'}
      minimum: {coverage: 80}
      """
    And the file "raise.yaml"
      """
      name: local/raise-coverage
      description: Raise the coverage
      definition_of_done: the coverage is over 80 percent
      strategy_actor: local/strategist
      execution_actor: local/executor
      invariants: ['Never change `coverage.sh`']
      """
    And the strategist answers
      """
      {"summary": "Add a test", "risk": 0.1, "steps": [{"title": "Add a test", "description": "The second one."}]}
      """
    And the executor answers
      """
      - calls:
        - {name: builtin/file-write, arguments: {path: tests/two, content: another test}}
      - text: There are two tests now.
      """
    When I type
      """
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop --resource local/shop-repo
      agents validation add --config coverage.yaml
      agents validation attach local/shop-repo local/coverage
      agents action create --config raise.yaml
      agents plan use local/raise-coverage local/shop --automation-profile trusted
      """
    Then the plan is execute/awaiting_input
    When I type
      """
      agents plan artifacts PLAN
      """
    Then the report mentions "tests/two"
    And the repository "shop" is unchanged, with 1 commit
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then the report has at "/validation/results/0/data/metrics/coverage" the value
      """
      90.0
      """
    And the newest commit of "shop" is "Raise the coverage" and changes "tests/two"

  Scenario: Several files are changed under invariants (workflow 3, milestone 3)
    Given the repository "shop" with
      | src/widget.txt | Widget   |
      | src/user.txt   | Widget   |
      | api/public.txt | Widget v1 |
    And the file "rename.yaml"
      """
      name: local/rename
      description: Rename {old} to {new}
      definition_of_done: no file of src names {old}
      strategy_actor: local/strategist
      execution_actor: local/executor
      invariants: ['The name {new} is written in one way']
      arguments: [{name: old}, {name: new}]
      """
    And the strategist answers
      """
      {"summary": "Rename file by file", "risk": 0.2,
       "decisions": [{"question": "In which order?", "chosen": "the definition first", "alternatives": ["users first"],
                      "confidence": 0.8, "rationale": "Users follow the definition."}],
       "steps": [{"title": "Rename the definition", "description": "", "files": ["src/widget.txt"]},
                 {"title": "Rename the users", "description": "", "files": ["src/user.txt"], "after": [1]}]}
      """
    And the executor answers
      """
      - when: '^Execute step 1 of '
        calls:
        - {name: builtin/file-edit, arguments: {path: src/widget.txt, edits: [{old_text: Widget, new_text: Gadget}]}}
      - when: '^Execute step 2 of '
        calls:
        - {name: builtin/file-edit, arguments: {path: src/user.txt, edits: [{old_text: Widget, new_text: Gadget}]}}
      - text: Renamed.
      """
    When I type
      """
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop --resource local/shop-repo
      agents invariant add --global 'Never change `api/**`'
      agents invariant add --project local/shop 'Every file ends with a line break'
      agents action create --config rename.yaml
      agents invariant list --effective --project local/shop
      """
    Then the report mentions all of
      | Never change `api/**`             |
      | Every file ends with a line break |
    When I type
      """
      agents plan use local/rename local/shop --arg old=Widget --arg new=Gadget --automation-profile cautious
      """
    Then the plan is strategize/awaiting_input
    When I type
      """
      agents plan execute PLAN
      agents plan execute PLAN
      agents plan status PLAN
      agents plan tree PLAN
      """
    Then the report mentions all of
      | invariant_enforced                   |
      | Never change `api/**`                |
      | Every file ends with a line break    |
      | The name Gadget is written in one way |
      | the definition first                 |
    When I type
      """
      agents plan explain DECISION --show-context --show-reasoning
      """
    Then the report mentions all of
      | Rename file by file |
      | sha256:             |
      | run 01              |
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then the newest commit of "shop" is "Rename Widget to Gadget" and changes "src/user.txt src/widget.txt"
    And the real "shop/api/public.txt" holds "Widget v1"

  Scenario: A database is migrated, rolled back, and migrated again (workflow 5)
    Given the repository "shop" with
      | migrate.py | import sqlite3, sys\nbase = sqlite3.connect(sys.argv[1])\nbase.execute(sys.argv[2])\nbase.commit() |
    And the database "shop.db" created by "CREATE TABLE users (id INTEGER, name TEXT); INSERT INTO users VALUES (1, 'Ada');"
    And the file "migrate.yaml"
      """
      name: local/migrate
      description: Give users an address
      definition_of_done: |
        - run `python3 app/migrate.py db/shop.db 'ALTER TABLE users ADD email TEXT'`
        - run `python3 app/migrate.py db/shop.db "UPDATE users SET email = 'ada@localhost'"`
        - write `users have an address` to `app/NOTES`
      strategy_actor: builtin/deterministic
      """
    When I type
      """
      agents resource add git-checkout local/app --path shop
      agents resource add sqlite local/db --path shop.db
      agents project create local/shop --resource local/app --resource local/db
      agents action create --config migrate.yaml
      agents plan use local/migrate local/shop --automation-profile review
      agents plan execute PLAN
      """
    Then the plan is execute/awaiting_input
    And the query "SELECT * FROM users" of "shop.db" answers "1,Ada"
    When I type
      """
      agents plan checkpoint list PLAN
      agents plan rollback PLAN step/1/2 --yes
      """
    Then the report mentions "db/shop.db"
    When I type
      """
      agents plan redo PLAN
      agents plan rollback PLAN step/1/2 --yes
      agents plan execute PLAN
      agents plan apply PLAN --yes
      """
    Then the plan is apply/applied
    And the query "SELECT * FROM users" of "shop.db" answers "1,Ada,ada@localhost"
    And the newest commit of "shop" is "Give users an address" and changes "NOTES"

  Scenario: Documentation is written, and links are checked (workflow 6)
    Given the repository "shop" with
      | src/api.txt | order(id) |
      | check.sh    | grep -q 'order(id)' docs/api.md && test -f docs/index.md |
    And the file "document.yaml"
      """
      name: local/document
      description: Document the interface
      definition_of_done: |
        - docs/api.md names every function
        - check `sh check.sh`
      strategy_actor: local/strategist
      execution_actor: local/executor
      invariants: ['Never change `src/**`']
      """
    And the strategist answers
      """
      {"summary": "A page for the interface and an index", "steps": [
        {"title": "Write the page", "description": "", "files": ["docs/api.md"]},
        {"title": "Write the index", "description": "", "files": ["docs/index.md"], "after": [1]}]}
      """
    And the executor answers
      """
      - when: '^Execute step 1 of '
        calls:
        - {name: builtin/file-read, arguments: {path: src/api.txt}}
        - {name: builtin/file-write, arguments: {path: docs/api.md, content: "# Interface\n\n`order(id)` orders.\n"}}
      - when: '^Execute step 2 of '
        calls:
        - {name: builtin/file-write, arguments: {path: docs/index.md, content: "See [api](api.md).\n"}}
      - text: Written.
      """
    When I type
      """
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop --resource local/shop-repo
      agents action create --config document.yaml
      agents plan use local/document local/shop --automation-profile ci
      """
    Then the plan is apply/applied
    And "sh check.sh" succeeds in "shop"
    And the newest commit of "shop" is "Document the interface" and changes "docs/api.md docs/index.md"

  Scenario: A failed validation is fixed
    Given the repository "shop" with
      | total.txt | 3                      |
      | test.sh   | grep -qx 4 total.txt   |
    And the file "sum.yaml"
      """
      name: local/sum
      description: Correct the total
      definition_of_done: check `sh test.sh`
      strategy_actor: local/strategist
      execution_actor: local/executor
      """
    And the strategist answers
      """
      {"summary": "Correct it", "steps": [{"title": "Correct it", "description": ""}]}
      """
    And the executor answers
      """
      - when: '^Execute step 1 of '
        calls:
        - {name: builtin/file-write, arguments: {path: total.txt, content: "5\n"}}
      - when: '^Checks failed'
        calls:
        - {name: builtin/file-write, arguments: {path: total.txt, content: "4\n"}}
      - text: Corrected.
      """
    When I type
      """
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop --resource local/shop-repo
      agents action create --config sum.yaml
      agents plan use local/sum local/shop --automation-profile trusted
      agents plan errors PLAN
      """
    Then the report mentions "How were the failed validations fixed?"
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then "sh test.sh" succeeds in "shop"

  Scenario: A conversation around a plan (workflow 9)
    Given the repository "shop" with
      | a.txt | one |
    And the file "guide.yaml"
      """
      at_end: repeat_last
      answers:
      - {when: 'What is here', text: 'One file, a.txt.'}
      - {when: 'How could it change', text: 'Write two into it; an action can do that.'}
      - {text: 'I do not know.'}
      """
    And the file "two.yaml"
      """
      name: local/two
      description: Write two
      definition_of_done: |
        - write `two` to `a.txt`
      strategy_actor: builtin/deterministic
      """
    When I type
      """
      agents session create --name tour --actor scripted/guide.yaml
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop --resource local/shop-repo
      agents session tell --session tour 'What is here?'
      agents session tell --session tour 'How could it change?'
      agents action create --config two.yaml
      agents plan use local/two local/shop --automation-profile review
      agents plan execute PLAN
      agents plan apply PLAN --yes
      agents session show tour
      """
    Then the report mentions "an action can do that"
    When I type
      """
      agents session export tour --output tour.json
      """
    Then the exported "tour.json" holds
      | What is here?         |
      | One file, a.txt.      |
      | How could it change?  |
    And the real "shop/a.txt" holds "two"

  Scenario: A graph of five nodes reviews the code and changes nothing (workflow 11)
    Given the repository "shop" with
      | pay.txt | price = input() |
    And the file "reviewer.yaml"
      """
      at_end: repeat_last
      answers:
      - {when: 'look at security', text: 'The price is not checked.'}
      - {when: 'look at style', text: 'Nothing about style.'}
      - {when: 'look at tests', text: 'There are no tests.'}
      - {when: 'Bring together', text: 'Report: check the price, and write tests.'}
      - {text: 'I do not know.'}
      """
    And the file "panel.yaml"
      """
      name: local/panel
      type: graph
      description: Three reviewers, and one who brings together what they say
      model: scripted/reviewer.yaml
      state: {reviews: append}
      nodes:
        dispatch: {parallel: [security, style, tests], join: synthesize}
        security: {prompt: 'You look at security. {{ input }}', output: reviews}
        style: {prompt: 'You look at style. {{ input }}', output: reviews}
        tests: {prompt: 'You look at tests. {{ input }}', output: reviews}
        synthesize: {prompt: "Bring together: {{ reviews | join('; ') }}"}
      """
    And the file "review.yaml"
      """
      name: local/review
      description: Review the code
      definition_of_done: there is one report
      strategy_actor: local/strategist
      execution_actor: local/panel
      read_only: true
      """
    And the strategist answers
      """
      {"summary": "Review it at once", "steps": [{"title": "Review", "description": "All of it."}]}
      """
    When I type
      """
      agents actor add --config panel.yaml
      agents resource add git-checkout local/shop-repo --path shop
      agents project create local/shop --resource local/shop-repo
      agents action create --config review.yaml
      agents plan use local/review local/shop --automation-profile trusted
      agents plan tree PLAN
      """
    Then the report mentions "Report: check the price, and write tests."
    When I type
      """
      agents plan artifacts PLAN
      """
    Then the report has at "/artifacts" the value
      """
      []
      """
    When I type
      """
      agents plan apply PLAN --yes
      """
    Then the plan is apply/applied
    And the repository "shop" is unchanged, with 1 commit
