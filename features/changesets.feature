Feature: Changesets
  The changes of a plan are recorded in a changeset, which one author opens. Changes are numbered,
  persist when the program ends, and cannot be added after the changeset is closed.

  Background:
    Given the run of a plan

  Scenario: Changes are numbered in order
    Given an open changeset
    When 3 changes are recorded in it
    Then it holds changes 0 to 2

  @defect_7163
  Scenario: A closed changeset refuses changes
    Given an open changeset
    And 2 changes are recorded in it
    When the changeset is closed
    Then it is no longer among the active ones
    When a change is recorded without a handle
    Then it is refused with "No active changeset. Call start_changeset() first."
    And it holds changes 0 to 1

  Scenario: Without a handle, the most recent open changeset is used
    Given an open changeset
    And a second open changeset
    When a change is recorded without a handle
    Then it is recorded in the second changeset

  @defect_7731
  Scenario: Another program finds a changeset, even if it is empty
    Given an open changeset
    When another program opens the database
    Then the changeset is found there, with 0 changes
