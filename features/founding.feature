Feature: The three founding guarantees
  CleverAgents began with three reports about an older system: two programs that each built a
  database of their own under one address, two messages that got the same number, and a change that
  was recorded in somebody else's changeset. Here they cannot happen.

  @defect_7566
  Scenario: Everybody who opens a database in memory at the same instant shares it
    Given a database in memory that nobody has opened
    When 64 threads open it at the same instant
    Then all of them hold one and the same engine
    And its migrations ran exactly once
    And a session made through one of them is seen through all

  @defect_7566
  Scenario: A database that could not be opened works as soon as the cause is gone
    Given a database in a folder that does not exist
    When 8 threads open it at the same instant
    Then each of them is told that the database cannot be opened
    When somebody makes the folder
    And 8 threads open it at the same instant
    Then all of them hold one and the same engine

  @defect_7326
  Scenario: Messages that many programs append at the same time each get their own number
    Given a session
    When 8 programs append 5 messages each at the same time
    Then the session holds 40 messages numbered from 0 without a gap
    And the messages of each program are in the order in which it sent them

  @defect_7326 @postgres
  Scenario: The same holds for a team on one server
    Given a session on a PostgreSQL server
    When 8 programs append 5 messages each at the same time
    Then the session holds 40 messages numbered from 0 without a gap
    And the messages of each program are in the order in which it sent them

  @defect_7326
  Scenario: A program that is killed leaves no gap
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
  Scenario: Without an open changeset nothing can be recorded
    Given the run of a plan
    When a change is recorded without a handle
    Then it is refused with "No active changeset. Call start_changeset() first."
