"""Budgets: what tenants have spent in each month, and which thresholds of their budgets that has crossed."""
