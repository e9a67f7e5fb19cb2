Feature: Skills
  A skill groups tools, or is a folder of instructions with scripts. A skill can only restrict its
  tools; its scripts run through the gate.

  Background:
    Given a new home
    And a repository "app" with "a.txt" holding "one" and "b.txt" holding "two"
    And a sandbox "fix" of "app"
    And the file "files.yaml"
      """
      name: local/files
      description: Works on files
      builtins: [{group: file}]
      """

  @defect_980
  Scenario: An added skill is available to the next program
    When I run "skill add files.yaml"
    And I run "skill list"
    Then the command succeeds and mentions "local/files"
    When I run "skill tools local/files"
    Then the command succeeds and mentions "builtin/file-read"
    When I run "skill remove local/files --yes"
    And I run "skill show local/files"
    Then the command fails with exit code 3 and error CA-1061

  @defect_2579
  Scenario: Skills that include each other are refused when they are added
    Given the file "more.yaml"
      """
      name: local/more
      description: Has what the other has
      includes: [local/files]
      """
    And the file "circle.yaml"
      """
      name: local/files
      description: Has what has it
      includes: [local/more]
      """
    When I run "skill add files.yaml"
    And I run "skill add more.yaml"
    And I run "skill add circle.yaml --update"
    Then the command fails with exit code 2 and error CA-1064
    And it names line 3
    And the report mentions "local/files → local/more → local/files"
    When I run "skill tools local/more"
    Then the command succeeds and mentions "builtin/file-read"

  Scenario: A skill cannot extend the permissions of a tool
    Given the file "free.yaml"
      """
      name: local/free
      description: Calls a shell harmless
      tools:
        - name: builtin/shell
          override: {capability: {read_only: true}}
      """
    When I run "skill add free.yaml"
    Then the command fails with exit code 2 and error CA-1064
    And it names line 4

  @defect_2125
  Scenario: A script of an agent skill runs in the sandbox and its output comes back
    Given the skill folder "counting"
      """
      ---
      name: counting
      description: Counts the words of files.
      ---
      Run scripts/count.sh with the names of the files.
      """
    And the file "counting/scripts/count.sh"
      """
      cat "$@" | wc -w
      echo counted > counted.txt
      """
    And a session called "weekly"
    And a model that answers
      """
      answers:
      - calls: [{name: skill/activate, arguments: {name: counting}}]
      - calls: [{name: skill/run, arguments: {name: counting, script: scripts/count.sh, arguments: [a.txt, b.txt]}}]
      - text: Two words.
      """
    When I run "skill add counting"
    And I ask "How many words?" in "weekly" with the skill "counting" and the sandbox "fix"
    Then the answer is "Two words."
    And its calls ended as follows
      | skill/activate | succeeded |
      | skill/run      | succeeded |
    And the sandbox "fix" has changed "counted.txt"
    And the real "app/a.txt" holds "one"

  @defect_7487 @defect_4814
  Scenario: A refresh keeps the content of a file that became invalid
    When I run "skill add files.yaml"
    Given the file "files.yaml"
      """
      name: local/files
      description: Works on files
      builtins: [{group: flies}]
      """
    When I run "skill refresh"
    Then the command fails with exit code 1
    When I run "skill tools local/files"
    Then the command succeeds and mentions "builtin/file-read"
