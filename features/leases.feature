Feature: Leases
  One owner runs a plan at a time. Other owners receive the name of the holder, and an owner that
  lost its lease cannot write any more.

  Background:
    Given the run of a plan

  @defect_7406
  Scenario: One of many concurrent requests gets a free lease
    When 8 threads ask for the lease of the plan at the same instant
    Then exactly one of them gets it
    And all others receive the name of the owner

  @defect_7406
  Scenario: The lease of a dead program is taken over at once
    Given the lease of the plan is held by a program that has died
    When another owner asks for it
    Then it gets the lease with a higher token

  @defect_7989
  Scenario: An owner that lost its lease cannot write any more
    Given the lease of the plan is held
    And an open changeset under that lease
    When another owner takes over the lease
    Then a change recorded under the old lease is refused as lost
    And the changeset holds 0 changes

  Scenario: A released lease is free
    Given the lease of the plan is held
    When it is released
    Then another owner gets it
