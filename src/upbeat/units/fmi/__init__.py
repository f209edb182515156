"""FMUs as units: the only package that knows FMI versions."""
