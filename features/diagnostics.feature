Feature: Diagnostics
  Whatever is wrong with the home, the configuration or the database, diagnostics start, name it, and
  repair what can be repaired. Nothing is ever deleted.

  Scenario: A sound installation is called sound
    Given a new home
    And a session called "weekly" with 3 messages
    When I run "diagnostics"
    Then the command succeeds and mentions "Everything is sound"

  Scenario: A damaged database is named, set aside and replaced
    Given a new home
    And a session called "weekly" with 3 messages
    And the database file is overwritten with nonsense
    When I run "session list"
    Then the command fails with exit code 1 and error CA-0204
    And the hint mentions "agents diagnostics --repair"
    When I run "diagnostics"
    Then the command fails with exit code 1 and error CA-0501
    And the report mentions "cleveragents.db"
    When I run "diagnostics --repair"
    Then the command succeeds and mentions "set aside"
    And the nonsense is kept byte by byte beside the new database
    When I run "session create"
    Then the command succeeds and mentions "Session created"

  Scenario: A database of a newer program is refused and not touched
    Given a new home
    And a session called "weekly" with 3 messages
    And the database was made by a newer program
    When I run "session list"
    Then the command fails with exit code 1 and error CA-0205
    And the database file has not changed

  Scenario: A home that cannot be made is named
    Given a home below a regular file
    When I run "session list"
    Then the command fails with exit code 1 and error CA-0104
    And the hint mentions "CLEVERAGENTS_HOME"
    When I run "diagnostics"
    Then the command fails with exit code 1 and error CA-0501
