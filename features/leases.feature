Feature: Leases
  A plan is run by one owner at a time. Whoever was too late is told who is ahead, and an owner that
  lost its lease can write nothing any more.

  Background:
    Given the run of a plan

  @defect_7406
  Scenario: Of many who want a free lease one gets it
    When 8 threads ask for the lease of the plan at the same instant
    Then exactly one of them gets it
    And all others are told who holds it

  @defect_7406
  Scenario: The lease of a program that died is taken over at once
    Given the lease of the plan is held by a program that has died
    When somebody else asks for it
    Then they get it, with a higher token

  @defect_7989
  Scenario: An owner that was overtaken can write nothing any more
    Given the lease of the plan is held
    And an open changeset under that lease
    When the lease is taken over by somebody else
    Then a change recorded under the old lease is refused as lost
    And the changeset holds 0 changes

  Scenario: A lease that was given back is free
    Given the lease of the plan is held
    When it is given back
    Then somebody else gets it
