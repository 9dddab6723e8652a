"""Preemption with notice: what becomes of a notice until it ends.

A session chooses victims and looks whether those of open notices are still needed (`engine.scheduling.actions.give_notice`); the
round then writes down what follows for each notice (`following`), and the state follows the records (`evolve`). Which change ends a
notice is a table: `statemachines.notice`.
"""
