Feature: Changesets
  What a plan changes is recorded, change by change, in a changeset that one author opened. It is
  numbered, it survives the end of the program, and it takes nothing after it was closed.

  Background:
    Given the run of a plan

  Scenario: Changes are numbered in the order in which they were made
    Given an open changeset
    When 3 changes are recorded in it
    Then it holds changes 0 to 2

  @defect_7163
  Scenario: A closed changeset takes no more changes
    Given an open changeset
    And 2 changes are recorded in it
    When the changeset is closed
    Then it is no longer among the active ones
    When a change is recorded without a handle
    Then it is refused with "No active changeset. Call start_changeset() first."
    And it holds changes 0 to 1

  Scenario: Without a handle the most recent open changeset is meant
    Given an open changeset
    And a second open changeset
    When a change is recorded without a handle
    Then it lands in the second changeset

  @defect_7731
  Scenario: A changeset is found by the next program, an empty one too
    Given an open changeset
    When the database is opened again as by another program
    Then the changeset is found there, with 0 changes
