"""Scenario files: tables to models and scenarios, and back."""
