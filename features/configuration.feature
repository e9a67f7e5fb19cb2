Feature: Configuration
  A setting is looked for on the command line, in the environment, in the project, in the home and
  last among the defaults. What is wrong is said with the place where it stands.

  Background:
    Given a new home

  Scenario: The strongest level decides
    When I run "config set session.max-message-bytes 1000"
    Then "session.max-message-bytes" is 1000, set by global
    When I run "config set --project session.max-message-bytes 2000"
    Then "session.max-message-bytes" is 2000, set by project
    Given the variable CLEVERAGENTS_SESSION_MAX_MESSAGE_BYTES is "3000"
    Then "session.max-message-bytes" is 3000, set by environment

  Scenario: A misspelt key is answered with the key that was meant
    When I run "config set core.fromat json"
    Then the command fails with exit code 2 and error CA-0110
    And the hint mentions "core.format"

  Scenario: A limit that is set is obeyed
    Given a session called "weekly"
    When I run "config set session.max-message-bytes 10"
    And I say "eleven byte" as user in "weekly"
    Then the command fails with exit code 2 and error CA-0305
    And "weekly" holds 0 messages

  @defect_7106
  Scenario: Programs that change different settings at the same time keep all of them
    When 4 programs each set another key at the same time
    Then every one of these keys is set

  Scenario: A broken file is named with its line, and diagnostics still work
    Given a configuration file that is broken in line 3
    When I run "session list"
    Then the command fails with exit code 1 and error CA-0112
    And it names line 3
    When I run "diagnostics"
    Then the command fails with exit code 1 and error CA-0501
    And the report mentions "config.toml:3"
