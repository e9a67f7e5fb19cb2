Feature: Models
  A model has the name PROVIDER/MODEL. Different failures of a provider have different errors. A
  failed request is retried if that can help, and a failure is never treated as an answer.

  Background:
    Given a new home
    And a session called "weekly"

  @defect_5681
  Scenario Outline: A temporary failure is retried
    Given a model that answers
      """
      answers:
      - text: At last.
        failures: [{<first>}, {<second>}]
      """
    When I ask "Are you there?" in "weekly"
    Then the answer is "At last."
    And "weekly" holds 2 messages

    Examples:
      | first                          | second      |
      | status: 429, retry_after: 0.01 | status: 503 |
      | status: 500                    | status: 529 |

  Scenario: A truncated answer is not treated as an answer
    Given a model that answers
      """
      answers:
      - text: It is safe to delete everything but the last copy.
        failures: [{cut_after: 28}, {cut_after: 28}, {cut_after: 28}, {cut_after: 28}, {cut_after: 28}, {cut_after: 28}]
      """
    When I ask "What can go?" in "weekly"
    Then the command fails with exit code 1 and error CA-0811
    And "weekly" holds 1 message
    And message 0 of "weekly" is marked as failed

  @defect_5681
  Scenario Outline: A permanent failure is reported at once
    Given a model that answers
      """
      answers:
      - text: This is never said.
        failures: [{status: <status>, message: '<message>'}]
      """
    When I ask "Are you there?" in "weekly"
    Then the command fails with exit code <exit> and error <code>

    Examples:
      | status | message                               | exit | code    |
      | 401    | wrong key                             | 1    | CA-0801 |
      | 404    | no such model                         | 3    | CA-0802 |
      | 400    | what is this                          | 1    | CA-0807 |

  Scenario: An invalid name, and an unknown provider
    When I run "model show nothing"
    Then the command fails with exit code 2 and error CA-0816
    When I run "model show nobody/nothing"
    Then the command fails with exit code 3 and error CA-0815

  Scenario: A provider without a key is not called
    When I run "session tell --session weekly --actor openai/gpt-5.1 Hello"
    Then the command fails with exit code 1 and error CA-0814
    And the hint mentions "OPENAI_API_KEY"
    And "weekly" holds 0 messages

  Scenario: A recorded exchange is replayed
    Given a model that answers
      """
      answers:
      - text: Said once.
      """
    And a session called "again"
    When I ask "Tell me." in "weekly" and record it in "talk.jsonl"
    Then the answer is "Said once."
    When I run "session tell --session again --actor replay/talk.jsonl Tell me."
    Then the command fails with exit code 2
    When I ask "Tell me." of "replay/talk.jsonl" in "again"
    Then the answer is "Said once."
    When I ask "Something else." of "replay/talk.jsonl" in "again"
    Then the command fails with exit code 1 and error CA-0820
