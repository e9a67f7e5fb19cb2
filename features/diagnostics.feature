Feature: Diagnostics
  Diagnostics start with any problem of the home, the configuration or the database, report it, and
  repair it if possible. They never delete data.

  Scenario: A valid installation without a model has one warning
    Given a new home
    And a session called "weekly" with 3 messages
    When I run "diagnostics"
    Then the command succeeds and mentions "1 warning"

  Scenario: A damaged database is reported, moved aside and replaced
    Given a new home
    And a session called "weekly" with 3 messages
    And the database file is overwritten with invalid bytes
    When I run "session list"
    Then the command fails with exit code 1 and error CA-0204
    And the hint mentions "agents diagnostics --repair"
    When I run "diagnostics"
    Then the command fails with exit code 1 and error CA-0501
    And the report mentions "cleveragents.db"
    When I run "diagnostics --repair"
    Then the command succeeds and mentions "moved to"
    And the invalid file is kept unchanged next to the new database
    When I run "session create"
    Then the command succeeds and mentions "Session created"

  Scenario: A database of a newer program is refused and not changed
    Given a new home
    And a session called "weekly" with 3 messages
    And the database was created by a newer program
    When I run "session list"
    Then the command fails with exit code 1 and error CA-0205
    And the database file has not changed

  Scenario: A home that cannot be created is reported
    Given a home below a regular file
    When I run "session list"
    Then the command fails with exit code 1 and error CA-0104
    And the hint mentions "CLEVERAGENTS_HOME"
    When I run "diagnostics"
    Then the command fails with exit code 1 and error CA-0501
