Feature: The three founding guarantees
  CleverAgents started with three reports about an older system: two programs that each created a
  separate database under one address, two messages with the same number, and a change that was
  recorded in the changeset of another author. These defects cannot occur here.

  @defect_7566
  Scenario: Concurrent openers of a database in memory share it
    Given a database in memory that is not open
    When 64 threads open it at the same instant
    Then all of them hold one and the same engine
    And its migrations ran exactly once
    And a session created through one of them is visible through all

  @defect_7566
  Scenario: A database that could not be opened works once the cause is gone
    Given a database in a folder that does not exist
    When 8 threads open it at the same instant
    Then each of them fails because the database cannot be opened
    When another process creates the folder
    And 8 threads open it at the same instant
    Then all of them hold one and the same engine

  @defect_7326
  Scenario: Concurrent messages of many programs each get their own number
    Given a session
    When 8 programs append 5 messages each at the same time
    Then the session holds 40 messages numbered from 0 without a gap
    And the messages of each program are in the order in which it sent them

  @defect_7326 @postgres
  Scenario: The same holds on one database server
    Given a session on a PostgreSQL server
    When 8 programs append 5 messages each at the same time
    Then the session holds 40 messages numbered from 0 without a gap
    And the messages of each program are in the order in which it sent them

  @defect_7326
  Scenario: A killed program leaves no gap
    Given a session
    When a program that streams messages is killed after 20 acknowledgements
    Then every acknowledged message is there, as it was sent
    And the next message gets the next number

  @defect_7120
  Scenario: A change is recorded in the changeset that its author opened
    Given the run of a plan
    When 16 threads each open a changeset and record 25 changes at the same time
    Then each changeset holds the 25 changes of its author, numbered from 0 without a gap
    And the plan has 16 changesets with 400 changes in all

  @defect_7120
  Scenario: Without an open changeset, recording fails
    Given the run of a plan
    When a change is recorded without a handle
    Then it is refused with "No active changeset. Call start_changeset() first."
