"""The version, from the package metadata."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("upbeat")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "unknown"
