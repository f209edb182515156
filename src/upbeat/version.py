"""The version, from which the package metadata is made: to look it up there takes longer than a run."""

__version__ = "0.2.0.dev0"
