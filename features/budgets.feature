Feature: Budgets
  The maximum cost of a call is reserved before the call. Its real cost is counted afterwards, to
  the millionth of a dollar.

  Background:
    Given a new home
    And a session called "weekly"
    # A request asks for at most 16384 tokens of output, so a call can cost about 1.64 cents.
    And a model that answers
      """
      price: {input: 1, output: 1}
      at_end: repeat_last
      answers:
      - text: For a little money.
        usage: {input_tokens: 3000, output_tokens: 2000}
      """

  @defect_1919
  Scenario: Costs add up
    When I ask "One?" in "weekly"
    Then the answer cost 5000 millionths of a dollar
    When I ask "Two?" in "weekly"
    Then the answer cost 5000 millionths of a dollar
    And "weekly" has cost 10000 millionths of a dollar

  @defect_5610 @defect_10479
  Scenario Outline: A budget of zero allows no call
    When I run "config set <key> 0"
    And I ask "One?" in "weekly"
    Then the command fails with exit code 1 and error CA-0910
    And "weekly" has cost 0 millionths of a dollar
    And message 0 of "weekly" is marked as failed

    Examples:
      | key                  |
      | budget.session-cents |
      | budget.day-cents     |

  @defect_10479
  Scenario: A call that would exceed the budget is refused
    When I run "config set budget.session-cents 3"
    And I ask until the budget is exceeded, in "weekly"
    Then "weekly" has cost at most 30000 millionths of a dollar
    And "weekly" has cost what its answers cost

  Scenario: The daily budget applies to all sessions together
    Given a session called "other"
    When I run "config set budget.day-cents 3"
    And I ask until the budget is exceeded, in "weekly"
    And I ask until a call is refused, in "other"
    Then "weekly" and "other" together have cost at most 30000 millionths of a dollar

  Scenario: An unknown cost is not reported as zero
    Given a model that answers
      """
      answers:
      - text: Who knows?
      """
    When I ask "What do you cost?" in "weekly"
    Then the answer cost an unknown amount
