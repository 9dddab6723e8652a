"""The budgets stage: monthly spending of tenants, and crossed thresholds of their budgets."""
