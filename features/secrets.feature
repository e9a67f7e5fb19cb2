Feature: Secrets
  Keys reach only their provider: no command, no row, no file of the program, no output contains
  them.

  Background:
    Given a new home
    And the variable OPENAI_API_KEY is "planted-key-4711-abcdef"
    And a repository "app" with "a.txt" holding "one" and "b.txt" holding "two"
    And a sandbox "fix" of "app"
    And a session called "weekly"

  Scenario: A command cannot read keys
    Given a model that answers
      """
      answers:
      - calls: [{name: builtin/shell, arguments: {command: 'env > seen.txt; cat /proc/$PPID/environ >> seen.txt; true'}}]
      - text: I looked.
      """
    When I ask "What is in the environment?" in "weekly" and the sandbox "fix"
    Then the answer is "I looked."
    And the file "seen.txt" of the sandbox "fix" does not hold "planted-key-4711"
    And no file of the home holds "planted-key-4711"

  Scenario: A known key in a file, a message or an answer is not shown or stored; other text stays unchanged
    Given a model that answers
      """
      answers:
      - calls: [{name: builtin/file-read, arguments: {path: b.txt}}]
      - text: It holds planted-key-4711-abcdef and sk-0123456789abcdefghijklmn.
      """
    When the user commits "key = planted-key-4711-abcdef" as "app/b.txt"
    And I run "sandbox create second --path app"
    And I ask "What is in b.txt? Not planted-key-4711-abcdef, I hope." in "weekly" and the sandbox "second"
    Then the answer is "It holds [REDACTED] and sk-0123456789abcdefghijklmn."
    And the model received "[REDACTED]" in "weekly"
    And the report does not mention "planted-key-4711"
    And the database does not hold "planted-key-4711"
