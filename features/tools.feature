Feature: Tools
  A model or a user calls a tool through the gate, and it runs in a sandbox. Custom programs become
  tools with a few lines of YAML.

  Background:
    Given a new home
    And a repository "app" with "a.txt" holding "one" and "b.txt" holding "two"
    And a sandbox "fix" of "app"

  Scenario: A custom tool is available to the next program, and a model can call it
    Given the file "count.yaml"
      """
      name: local/count-lines
      description: Counts the lines of a file
      read_only: true
      input_schema:
        type: object
        properties: { path: { type: string } }
        required: [path]
      code: |
        with open(input["path"]) as file:
            return {"lines": sum(1 for _ in file)}
      """
    And a session called "weekly"
    And a model that answers
      """
      answers:
      - calls: [{name: local/count-lines, arguments: {path: a.txt}}]
      - text: It has one line.
      """
    When I run "tool add --config count.yaml"
    And I run "tool run local/count-lines --sandbox fix path=a.txt"
    Then the command succeeds and mentions "lines"
    When I ask "How long is it?" in "weekly" and the sandbox "fix"
    Then the answer is "It has one line."
    And its calls ended as follows
      | local/count-lines | succeeded |
    When I run "tool remove local/count-lines --yes"
    And I run "tool run local/count-lines --sandbox fix path=a.txt"
    Then the command fails with exit code 3 and error CA-0901

  Scenario: An invalid file is refused with its line
    Given the file "wrong.yaml"
      """
      name: local/wrong
      description: Has a field that does not exist
      comand: [./count]
      """
    When I run "tool add --config wrong.yaml"
    Then the command fails with exit code 2 and error CA-0903
    And it names line 3
    And the hint mentions "command"

  @defect_3762
  Scenario: A failing tool is reported like every other error
    Given the file "breaks.yaml"
      """
      name: local/breaks
      description: Fails
      read_only: true
      language: sh
      code: |
        echo 'no such customer' >&2
        exit 7
      """
    When I run "tool add --config breaks.yaml"
    And I run "tool run local/breaks --sandbox fix"
    Then the command fails with exit code 1 and error CA-0909
    And the report mentions "no such customer"
    When I run "tool run builtin/file-read --sandbox fix path=nothing.txt"
    Then the command fails with exit code 1 and error CA-0909

  @defect_5454
  Scenario: A tool that never ends is stopped
    Given the file "sleeps.yaml"
      """
      name: local/sleeps
      description: Never ends
      read_only: true
      timeout: 1
      language: sh
      code: sleep 1000 & sleep 1000
      """
    When I run "tool add --config sleeps.yaml"
    And I run "tool run local/sleeps --sandbox fix"
    Then the command fails with exit code 1 and error CA-0909
    And the report mentions "timeout"

  @defect_7423
  Scenario: A link to outside is not followed
    When "fix" runs "ln -s /etc/passwd out; ln -s out further"
    And I run "tool run builtin/file-read --sandbox fix path=further"
    Then the command fails with exit code 1 and error CA-0907
    When I run "tool run builtin/file-write --sandbox fix path=further content=x"
    Then the command fails with exit code 1 and error CA-0907

  Scenario: Search finds matches, except in git-ignored files
    When "fix" runs "echo secret.txt > .gitignore; echo needle > secret.txt; echo needle > c.txt"
    And I run "tool run builtin/file-search --sandbox fix pattern=nee.le"
    Then the command succeeds and mentions "c.txt:1:needle"
    And the report does not mention "secret.txt"

  Scenario: Built-in tools cannot be replaced or removed
    When I run "tool remove builtin/shell --yes"
    Then the command fails with exit code 4 and error CA-0905
    And the hint mentions "agents permission add"
