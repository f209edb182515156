"""FMUs as models: what they say, and how units of the core (`native/fmi`) are made of them."""
