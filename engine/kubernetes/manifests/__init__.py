"""Admission of submitted manifests: their rules, and the resulting specification."""
