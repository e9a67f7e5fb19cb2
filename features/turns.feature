Feature: Turns with a model
  A model answers, and calls tools in a sandbox. Its answers and calls are stored as they happen;
  your own files stay unchanged until you apply the sandbox.

  Background:
    Given a new home
    And a repository "app" with "a.txt" holding "one" and "b.txt" holding "two"
    And a sandbox "fix" of "app"
    And a session called "weekly"

  @defect_5784
  Scenario: Answers are stored, and the model receives the conversation
    # The number of earlier answers in the request selects the next answer of the script.
    Given a model that answers
      """
      answers:
      - text: The first answer.
      - text: The second answer.
      """
    When I ask "Who are you?" in "weekly"
    Then the answer is "The first answer."
    When I ask "And then?" in "weekly"
    Then the answer is "The second answer."
    And "weekly" reads
      | user      | Who are you?       |
      | assistant | The first answer.  |
      | user      | And then?          |
      | assistant | The second answer. |

  @defect_3819 @defect_11219
  Scenario: A model reads, edits and runs a command, in the sandbox only
    Given a model that answers
      """
      answers:
      - text: I look first.
        calls:
        - {name: builtin/file-read, arguments: {path: a.txt}}
        - {name: builtin/file-read, arguments: {path: b.txt}}
      - calls:
        - {name: builtin/file-edit, arguments: {path: a.txt, edits: [{old_text: one, new_text: ONE}]}}
        - {name: builtin/shell, arguments: {command: 'cat a.txt b.txt > c.txt'}}
      - text: a.txt says ONE now.
      """
    When I ask "Shout the first one." in "weekly" and the sandbox "fix"
    Then the answer is "a.txt says ONE now."
    And its calls ended as follows
      | builtin/file-read | succeeded |
      | builtin/file-read | succeeded |
      | builtin/file-edit | succeeded |
      | builtin/shell     | succeeded |
    And the file "a.txt" of the sandbox "fix" holds "ONE"
    And the sandbox "fix" has changed "a.txt" and "c.txt"
    And the real "app/a.txt" holds "one"
    When I run "sandbox apply fix"
    Then the real "app/a.txt" holds "ONE"

  @defect_6701
  Scenario: A message without an answer is stored and marked
    Given a model that answers
      """
      answers:
      - text: This is never said.
        failures: [{status: 401, message: wrong key}]
      """
    When I ask "Are you there?" in "weekly"
    Then the command fails with exit code 1 and error CA-0801
    And "weekly" holds 1 message
    And message 0 of "weekly" is marked as failed

  @defect_7490
  Scenario: A long conversation is shortened for the model, but not in the database
    Given "weekly" holds 60 messages of 400 characters
    And a model that answers
      """
      capabilities: {context_window: 12000}
      at_end: repeat_last
      answers:
      - text: I remember the end of it.
      """
    When I ask "What did we say?" in "weekly"
    Then the answer is "I remember the end of it."
    And some messages were left out
    And "weekly" holds 62 messages

  @defect_10878
  Scenario: Any text reaches its file byte for byte
    Given a model that answers
      """
      answers:
      - calls:
        - name: builtin/file-write
          arguments: {path: page.md, content: "# A\n```sh\necho '</file>' <<EOF\n```\n<<<<<<< end\n~~~\n"}
      - text: Written.
      """
    When I ask "Write the page." in "weekly" and the sandbox "fix"
    Then the answer is "Written."
    And the file "page.md" of the sandbox "fix" is
      """
      # A
      ```sh
      echo '</file>' <<EOF
      ```
      <<<<<<< end
      ~~~
      """

  @defect_7223 @defect_7236
  Scenario Outline: An invalid call does nothing, and the model receives the reason
    Given a model that answers
      """
      answers:
      - calls:
        - {name: <tool>, raw_arguments: '<arguments>'}
      - text: I see.
      """
    When I ask "Do it." in "weekly" and the sandbox "fix"
    Then the answer is "I see."
    And its calls ended as follows
      | <shown> | <outcome> |
    And the model received "<why>" in "weekly"
    And the sandbox "fix" has changed nothing

    Examples:
      | tool               | shown              | arguments                           | outcome | why             |
      | builtin/file-reed  | builtin/file-reed  | {"path": "a.txt"}                   | refused | read_file       |
      | builtin/file-read  | builtin/file-read  | {"path":                            | refused | arguments       |
      | builtin/file-write | builtin/file-write | {"content": "x"}                    | refused | path            |
      | builtin/file-write | builtin/file-write | {"path": 5, "content": "x"}         | refused | path            |
      | builtin/file-write | builtin/file-write | {"path": "../x", "content": "x"}    | refused | sandbox         |
      | builtin/file-read  | builtin/file-read  | {"path": "a.txt", "offset": 1000}   | failed  | 1 line          |
      | builtin/file-read  | builtin/file-read  | {"path": "a.txt", "limit": 0}       | refused | limit           |

  Scenario: A model that repeats the same call forever is stopped
    Given a model that answers
      """
      at_end: repeat_last
      answers:
      - calls:
        - {name: builtin/file-read, arguments: {path: a.txt}}
      """
    When I ask "Read it." in "weekly" and the sandbox "fix"
    Then the command fails with exit code 1 and error CA-0912
    And message 0 of "weekly" is marked as failed

  Scenario: Without a sandbox a model can only answer
    Given a model that answers
      """
      answers:
      - calls:
        - {name: builtin/file-read, arguments: {path: a.txt}}
      - text: Then I cannot know.
      """
    When I ask "What is in it?" in "weekly"
    Then the answer is "Then I cannot know."
    And its calls ended as follows
      | builtin/file-read | refused |
    And the model received "requires a sandbox" in "weekly"

  Scenario: After a finished turn there is nothing to resume
    When I run "session tell --session weekly --resume"
    Then the command fails with exit code 3 and error CA-0913
