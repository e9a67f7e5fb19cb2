Feature: Configuration
  A setting comes from the command line, the environment, the project, the home or the defaults, in
  this order. Errors name the location of the invalid value.

  Background:
    Given a new home

  Scenario: The level with the highest precedence wins
    When I run "config set session.max-message-bytes 1000"
    Then "session.max-message-bytes" is 1000, set by global
    When I run "config set --project session.max-message-bytes 2000"
    Then "session.max-message-bytes" is 2000, set by project
    Given the variable CLEVERAGENTS_SESSION_MAX_MESSAGE_BYTES is "3000"
    Then "session.max-message-bytes" is 3000, set by environment

  Scenario: The error for a misspelt key suggests the right one
    When I run "config set core.fromat json"
    Then the command fails with exit code 2 and error CA-0110
    And the hint mentions "core.format"

  Scenario: A configured limit is enforced
    Given a session called "weekly"
    When I run "config set session.max-message-bytes 10"
    And I say "eleven byte" as user in "weekly"
    Then the command fails with exit code 2 and error CA-0305
    And "weekly" holds 0 messages

  @defect_7106
  Scenario: Concurrent changes of different settings are all kept
    When 4 programs each set another key at the same time
    Then every one of these keys is set

  Scenario: The error for a broken file names its line, and diagnostics still work
    Given a configuration file that is broken in line 3
    When I run "session list"
    Then the command fails with exit code 1 and error CA-0112
    And it names line 3
    When I run "diagnostics"
    Then the command fails with exit code 1 and error CA-0501
    And the report mentions "config.toml:3"
