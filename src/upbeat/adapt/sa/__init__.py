"""The baseSA language (`.sa` files): read, reduced to explicit form, checked, made an `Adaptation`."""
