Feature: Conversations
  A session is a stored conversation: its messages are numbered, stay in order, and can be searched,
  copied, exported and imported.

  Background:
    Given a new home

  Scenario: A conversation persists when the program is started again
    When I run "session create --name weekly"
    And I say "Where do we stand?" as user in "weekly"
    And I say "Two races are left." as assistant in "weekly"
    Then "weekly" reads
      | user      | Where do we stand?  |
      | assistant | Two races are left. |

  Scenario: A session is found by name or id prefix
    Given a session called "weekly"
    When I show the session by the first 8 characters of its id
    Then the command succeeds and mentions "weekly"

  Scenario: An unknown session name is reported with a hint
    When I run "session show nowhere"
    Then the command fails with exit code 3 and error CA-0301
    And the hint mentions "agents session list"

  Scenario: An ambiguous session name is refused, and the error lists the matches
    Given a session called "same"
    And a session called "same"
    When I run "session show same"
    Then the command fails with exit code 2 and error CA-0302
    And both sessions are listed as candidates

  Scenario Outline: A message that cannot be stored is refused and changes nothing
    Given a session called "weekly"
    When I say <text> as <role> in "weekly"
    Then the command fails with exit code 2 and error <code>
    And "weekly" holds 0 messages

    Examples:
      | text    | role  | code    |
      | "hello" | robot | CA-0303 |
      | ""      | user  | CA-0304 |
      | "   "   | user  | CA-0304 |

  Scenario: A stream stops at an invalid line and keeps the lines before it
    Given a session called "weekly"
    When I stream these lines into "weekly"
      """
      {"content": "first"}
      {"content": "second", "role": "assistant"}
      {"content": 3}
      {"content": "fourth"}
      """
    Then the command fails with exit code 2 and error CA-0308
    And it names line 3
    And 2 messages are acknowledged
    And "weekly" holds 2 messages

  Scenario: A conversation is forked at an earlier message
    Given a session called "weekly" with 5 messages
    When I run "session fork weekly --at 2 --name other"
    Then "other" holds 3 messages
    And "weekly" holds 5 messages

  @defect_7345
  Scenario: Only an unchanged export can be imported
    Given a session called "weekly" with 5 messages
    When I export "weekly" to "weekly.json"
    And I run "session import --input weekly.json"
    Then there are 2 sessions with the same messages
    When one byte of "weekly.json" is changed
    And I run "session import --input weekly.json"
    Then the command fails with exit code 1
    And there are 2 sessions with the same messages

  Scenario: Search finds words in every conversation
    Given a session called "weekly"
    When I say "The engine cache has a race." as user in "weekly"
    And I run "session search race cache"
    Then the command succeeds and mentions "weekly"
