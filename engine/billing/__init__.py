"""Billing stage: exact, explainable usage records of every attempt, folded from job events and never overwritten."""
