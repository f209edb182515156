"""Results: recording rows into chunks, result files, and the trace that a user gets back."""

from upbeat.trace.columns import TIME, Column, columns_of
from upbeat.trace.eventkinds import EventKind
from upbeat.trace.events import EventLog, Occurrence, UnknownEvent
from upbeat.trace.files.csvsink import CsvSink
from upbeat.trace.files.journal import JournalSink
from upbeat.trace.files.output import TraceWarning
from upbeat.trace.files.parquet import ParquetSink
from upbeat.trace.files.sinks import open_sink
from upbeat.trace.log import Ending, Outcome
from upbeat.trace.recorder import Recorder
from upbeat.trace.statistics import Statistics, Summary
from upbeat.trace.steps import StepLog, StepRun
from upbeat.trace.store import FileSink, MemorySink, Sink, Source
from upbeat.trace.trace import Trace, UnknownSignal, read

__all__ = [
    "TIME",
    "Column",
    "CsvSink",
    "Ending",
    "EventKind",
    "EventLog",
    "FileSink",
    "JournalSink",
    "MemorySink",
    "Occurrence",
    "Outcome",
    "ParquetSink",
    "Recorder",
    "Sink",
    "Source",
    "Statistics",
    "StepLog",
    "StepRun",
    "Summary",
    "Trace",
    "TraceWarning",
    "UnknownEvent",
    "UnknownSignal",
    "columns_of",
    "open_sink",
    "read",
]
