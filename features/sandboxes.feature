Feature: Sandboxes
  Any program can work in a copy. Its changes can be rolled back exactly, and are applied to the
  real files atomically.

  Background:
    Given a new home
    And a repository "app" with "a.txt" holding "one" and "b.txt" holding "two"

  @defect_5721 @defect_4222
  Scenario: Work done by one program is shown by a second and applied by a third
    Given a sandbox "fix" of "app"
    When "fix" runs "echo three > c.txt; echo ONE > a.txt; rm b.txt"
    Then the real "app/a.txt" holds "one"
    When I run "sandbox diff fix"
    Then the report mentions "c.txt"
    When I run "sandbox apply fix"
    Then the command succeeds and mentions "modify"
    And the real "app/a.txt" holds "ONE"
    And the real "app/c.txt" holds "three"
    And the real "app/b.txt" is gone
    And the repository "app" is clean, with 2 commits and no traces of a sandbox

  @defect_7488 @defect_822 @defect_7491
  Scenario: A rollback restores the exact state, and can be undone
    Given a sandbox "fix" of "app"
    When "fix" runs "echo ONE > a.txt; mkdir d; echo new > d/new; chmod +x b.txt"
    And I run "sandbox rollback fix"
    Then the sandbox "fix" has changed nothing
    When I run "sandbox redo fix"
    Then the sandbox "fix" has changed "a.txt", "b.txt", "d" and "d/new"

  @defect_6520 @defect_7250 @defect_5479
  Scenario: A conflict leaves every byte unchanged and shows both sides
    Given a sandbox "fix" of "app"
    When "fix" runs "echo sandbox > a.txt"
    And the user writes "mine" into "app/a.txt"
    And I run "sandbox apply fix"
    Then the command fails with exit code 4 and error CA-0645
    And the report mentions "mine"
    And the report mentions "sandbox"
    And the real "app/a.txt" holds "mine"
    And the repository "app" has 1 commit and no unfinished merge

  @defect_7250
  Scenario: Uncommitted edits stay when other files are applied
    Given a sandbox "fix" of "app"
    When "fix" runs "echo sandbox > a.txt"
    And the user writes "mine" into "app/b.txt"
    And I run "sandbox apply fix"
    Then the command succeeds and mentions "a.txt"
    And the real "app/a.txt" holds "sandbox"
    And the real "app/b.txt" holds "mine"

  Scenario: The branch moved, and both sides are merged
    Given a sandbox "fix" of "app"
    When "fix" runs "echo sandbox > a.txt"
    And the user commits "mine" as "app/b.txt"
    And I run "sandbox apply fix"
    Then the command succeeds and mentions "branch_moved"
    And the real "app/a.txt" holds "sandbox"
    And the real "app/b.txt" holds "mine"

  Scenario: A command cannot write outside its sandbox
    Given a sandbox "fix" of "app"
    When "fix" runs "echo bad > ../../../../escaped.txt; echo bad > $HOME/escaped.txt; echo good > inside.txt"
    Then the sandbox "fix" has changed "inside.txt"
    And the home holds no "escaped.txt"

  @defect_10872 @defect_5452
  Scenario: A discarded sandbox leaves nothing behind
    Given a sandbox "fix" of "app"
    When "fix" runs "echo three > c.txt"
    And I run "sandbox discard fix --yes"
    Then the command succeeds and mentions "discarded"
    And the repository "app" is clean, with 1 commit and no traces of a sandbox
    When I run "sandbox diff fix"
    Then the command fails with exit code 4 and error CA-0643

  Scenario: Only one open sandbox can have a name
    Given a sandbox "fix" of "app"
    When I run "sandbox create fix --path app"
    Then the command fails with exit code 4 and error CA-0641
    When I run "sandbox create not/a/name --path app"
    Then the command fails with exit code 2 and error CA-0642
    When I run "sandbox show nothing"
    Then the command fails with exit code 3 and error CA-0640
