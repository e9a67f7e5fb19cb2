"""The twenty tasks, in the order in which they run."""

from . import languages, python, states, traps

TASKS = [*python.TASKS, *languages.TASKS, *states.TASKS, *traps.TASKS]
