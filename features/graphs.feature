Feature: Runs of graphs
  Every finished node is a step that is stored before the next one starts. A resumed run repeats no
  stored step, and reaches the same result.

  Background:
    Given a new home
    And a repository "app" with "a.txt" holding "one" and "b.txt" holding "two"
    And a sandbox "fix" of "app"

  @defect_8290 @defect_7122 @defect_1688
  Scenario: Three reviewers in parallel, and a judge that sees all answers
    Given a model that answers
      """
      answers:
      - {when: look at security, text: the password is logged}
      - {when: look at correctness, text: nothing}
      - {when: look at style, text: rename x}
      - {when: Decide, text: Do not merge it.}
      """
    And the file "review.yaml"
      """
      name: local/review
      type: graph
      model: scripted/answers.yaml
      state: {found: append, count: sum}
      nodes:
        reviewers: {parallel: [security, correctness, style], join: judge}
        security: {prompt: 'look at security: {{ input }}', output: found, next: one}
        one: {set: {count: 1}}
        correctness: {prompt: 'look at correctness: {{ input }}', output: found, next: two}
        two: {set: {count: 1}}
        style: {prompt: 'look at style: {{ input }}', output: found, next: three}
        three: {set: {count: 1}}
        judge: {prompt: 'Decide: {{ found }}'}
      """
    When I run "actor add --config review.yaml"
    And I run "actor run local/review print(password)"
    Then the actor answers "Do not merge it."
    And the state has "found" as
      """
      ["the password is logged", "nothing", "rename x"]
      """
    And the state has "count" as
      """
      3
      """
    When I replay the last run
    Then the command succeeds and mentions "is_identical"

  @defect_8656
  Scenario: The limit ends an endless loop, whatever its edges
    Given the file "round.yaml"
      """
      name: local/round
      type: graph
      state: {n: sum}
      limits: {max_steps: 30}
      nodes:
        count: {set: {n: 1}, next: again}
        again: {if: n > 1000000, then: done, else: count}
        done: {set: {output: done}}
      """
    When I run "actor add --config round.yaml"
    And I run "actor run local/round go"
    Then the command fails with exit code 1 and error CA-1023
    And the last run is failed with 30 steps

  Scenario: A loop ends by its own check
    Given the file "round.yaml"
      """
      name: local/round
      type: graph
      state: {n: {reducer: sum, initial: 0}}
      nodes:
        count: {set: {n: 1}, next: again}
        again: {if: n >= 5, then: done, else: count}
        done: {set: {output: '{{ n }} rounds'}}
      """
    When I run "actor add --config round.yaml"
    And I run "actor run local/round go"
    Then the actor answers "5 rounds"
    And the last run is complete with 11 steps

  Scenario: A killed run resumes after its last finished step
    Given a model that answers
      """
      answers:
      - text: The first answer.
      """
    # The command waits only when it runs for the first time.
    And the file "work.yaml"
      """
      name: local/work
      type: graph
      nodes:
        ask: {model: scripted/answers.yaml, prompt: '{{ input }}', output: said, next: act}
        act:
          tool: builtin/shell
          arguments: {command: 'echo begun >> log.txt; test $(wc -l < log.txt) -gt 1 || sleep 300'}
          next: tell
        tell: {set: {output: 'done after: {{ said }}'}}
      """
    When I run "actor add --config work.yaml"
    And "actor run local/work go --sandbox fix" is killed while "log.txt" of the sandbox "fix" is written
    And I resume the last run
    Then the command fails with exit code 5 and error CA-1027
    And the last run is waiting with 1 step
    When I resume the last run with "--redo"
    Then the actor answers "done after: The first answer."
    And 1 step was done before
    And the last run is complete with 3 steps
    And the file "log.txt" of the sandbox "fix" is
      """
      begun
      begun
      """

  Scenario: A run is cancelled from another terminal, and resumed
    Given the file "slow.yaml"
      """
      name: local/slow
      type: graph
      nodes:
        first: {set: {a: 1}, next: act}
        act:
          tool: builtin/shell
          arguments: {command: 'echo begun >> log.txt; test $(wc -l < log.txt) -gt 1 || sleep 300'}
          next: last
        last: {set: {output: 'a is {{ a }}'}}
      """
    When I run "actor add --config slow.yaml"
    And "actor run local/slow go --sandbox fix" is cancelled while "log.txt" of the sandbox "fix" is written
    Then the command fails with exit code 1 and error CA-1024
    And the last run is cancelled with 1 step
    When I resume the last run with "--redo"
    Then the actor answers "a is 1"

  Scenario: A failed node continues at the node for failures
    Given the file "careful.yaml"
      """
      name: local/careful
      type: graph
      nodes:
        act: {tool: builtin/file-read, arguments: {path: none.txt}, on_error: recovered, next: good}
        good: {set: {output: good}}
        recovered: {set: {output: 'recovered: {{ error.node }}'}}
      """
    When I run "actor add --config careful.yaml"
    And I run "actor run local/careful go --sandbox fix"
    Then the actor answers "recovered: act"

  Scenario: A map processes each item, in order
    Given the file "each.yaml"
      """
      name: local/each
      type: graph
      nodes:
        all: {over: items, concurrency: 8, each: {set: {output: '{{ item * 2 }}'}}, output: twice, next: tell}
        tell: {set: {output: '{{ twice }}'}}
      """
    When I run "actor add --config each.yaml"
    And I run the actor "local/each" with
      """
      {"items": [1, 2, 3]}
      """
    Then the state has "twice" as
      """
      [2, 4, 6]
      """
