Feature: Actors
  An actor is a model with instructions and tools, a tool, or a graph of them, defined in a file. It is
  checked as a whole when it is registered, and then available to every program.

  Background:
    Given a new home
    And a model that answers
      """
      at_end: repeat_last
      answers:
      - text: Use git revert.
      """
    And the file "helper.yaml"
      """
      name: local/helper
      type: llm
      description: Answers short questions
      model: scripted/answers.yaml
      system_prompt: You help the team {{ context.team }}.
      global_context: {team: core}
      """

  Scenario: An actor is registered, shown, run, drawn and removed
    When I run "actor add --config helper.yaml"
    Then the command succeeds and mentions "Actor added"
    When I run "actor list --custom"
    Then the command succeeds and mentions "local/helper"
    When I run "actor show local/helper"
    Then the command succeeds and mentions "scripted/answers.yaml"
    When I run "actor run local/helper undo?"
    Then the actor answers "Use git revert."
    When I run "actor graph local/helper --as mermaid"
    Then the command succeeds and mentions "flowchart"
    When I run "actor remove local/helper --yes"
    And I run "actor show local/helper"
    Then the command fails with exit code 3 and error CA-1001

  Scenario: An invalid file is refused with its position and a hint, and nothing is registered
    Given the file "helper.yaml"
      """
      name: local/helper
      type: llm
      system_promt: You help.
      """
    When I run "actor add --config helper.yaml"
    Then the command fails with exit code 2 and error CA-1003
    And it names line 3
    And the hint mentions "system_prompt"
    When I run "actor list --custom"
    Then the report does not mention "local/helper"

  @defect_7095
  Scenario: Concurrent programs all see the actors of models from the start
    When 4 programs list the actors at the same time
    Then all of them saw the same actors, each once

  @defect_2503
  Scenario: Actors cannot contain each other
    Given the file "inner.yaml"
      """
      name: local/inner
      type: graph
      nodes: {a: {set: {output: x}}}
      """
    And the file "middle.yaml"
      """
      name: local/middle
      type: graph
      nodes: {a: {actor_ref: local/inner}}
      """
    And the file "outer.yaml"
      """
      name: local/outer
      type: graph
      nodes: {a: {actor_ref: local/middle}}
      """
    When I run "actor add --config inner.yaml"
    And I run "actor add --config middle.yaml"
    And I run "actor add --config outer.yaml"
    Given the file "inner.yaml"
      """
      name: local/inner
      type: graph
      nodes: {a: {actor_ref: local/outer}}
      """
    When I run "actor update --config inner.yaml"
    Then the command fails with exit code 2 and error CA-1004
    And the report mentions "local/inner → local/outer → local/middle → local/inner"
    When I run "actor run local/outer go"
    Then the actor answers "x"

  Scenario: The default actor answers if none is given
    When I run "actor add --config helper.yaml"
    And I run "actor set-default local/helper"
    And I run "actor run --prompt undo?"
    Then the actor answers "Use git revert."
    When I run "actor remove local/helper --yes"
    Then the command fails with exit code 4 and error CA-1006
    And the hint mentions "actor.default.general"

  Scenario: A role needs an actor that supports it
    When I run "actor add --config helper.yaml"
    And I run "actor set-default local/helper --role estimation"
    Then the command fails with exit code 2 and error CA-1008
    And the hint mentions "response_format"
    When I run "actor set-default local/helper --role strategy"
    And I run "config get actor.default.strategy"
    Then the command succeeds and mentions "local/helper"

  Scenario: A conversation is continued
    Given a model that answers
      """
      answers:
      - text: The first answer.
      - text: The second answer.
      """
    When I run "actor add --config helper.yaml"
    And I run "actor run local/helper one --context weekly"
    Then the actor answers "The first answer."
    # The number of earlier answers in the request selects the next answer of the script.
    When I run "actor run local/helper two --context weekly"
    Then the actor answers "The second answer."
    When I run "actor context show weekly"
    Then the command succeeds and mentions "The first answer."
    And the report mentions "The second answer."
    When I run "actor context remove weekly --yes"
    And I run "actor run local/helper three --context weekly"
    Then the actor answers "The first answer."

  @defect_3824
  Scenario: The response schema is sent to the provider, and other answers are refused
    Given a model provider that always answers "four"
    And the file "judge.yaml"
      """
      name: local/judge
      type: llm
      model: openai/gpt-5.1
      response_format:
        type: object
        properties: {score: {type: integer}}
        required: [score]
        additionalProperties: false
      """
    When I run "actor add --config judge.yaml"
    And I run "actor run local/judge well?"
    Then the command fails with exit code 1 and error CA-1028
    And the provider was given a schema that requires "score"

  Scenario: An answer that does not match its schema is requested once more
    Given a model that answers
      """
      answers:
      - text: four
      - text: '{"score": 4}'
      """
    And the file "judge.yaml"
      """
      name: local/judge
      type: llm
      model: scripted/answers.yaml
      response_format:
        type: object
        properties: {score: {type: integer}}
        required: [score]
      """
    When I run "actor add --config judge.yaml"
    And I run "actor run local/judge well?"
    Then the command succeeds and mentions "score"

  @defect_11219
  Scenario: An actor calls the tools of a skill when its model asks for them
    Given a repository "app" with "a.txt" holding "one" and "b.txt" holding "two"
    And a sandbox "fix" of "app"
    And the file "files.yaml"
      """
      name: local/files
      description: Works on files
      builtins: [{group: file}]
      """
    And a model that answers
      """
      answers:
      - calls: [{name: builtin/file-write, arguments: {path: a.txt, content: "three\n"}}]
      - text: It says three now.
      """
    When I run "actor add --config helper.yaml"
    And I run "skill add files.yaml"
    And I run "actor run local/helper change --sandbox fix"
    Then the file "a.txt" of the sandbox "fix" holds "one"
    When I run "actor run local/helper change --sandbox fix --skill local/files"
    Then the actor answers "It says three now."
    And the file "a.txt" of the sandbox "fix" holds "three"
    And the real "app/a.txt" holds "one"

  Scenario: An unsafe actor runs only if the user allows it
    Given the file "wild.yaml"
      """
      name: local/wild
      type: llm
      unsafe: true
      model: scripted/answers.yaml
      """
    When I run "actor add --config wild.yaml"
    And I run "actor run local/wild go"
    Then the command fails with exit code 1 and error CA-1007
    When I run "actor run local/wild go --unsafe"
    Then the actor answers "Use git revert."
