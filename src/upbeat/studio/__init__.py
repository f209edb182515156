"""Studio: a page in the browser to look at a scenario, change it, run it, watch it and compare."""
