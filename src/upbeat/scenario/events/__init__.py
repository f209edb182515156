"""Events of a scenario: conditions, event connections, and who watches for them."""
