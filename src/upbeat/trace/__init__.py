"""Results: recording rows into chunks, result files, and the trace that a user gets back."""

from upbeat.trace.columns import TIME, Column, columns_of
from upbeat.trace.events import EventKind, EventLog, Occurrence, UnknownEvent
from upbeat.trace.files.csv import CsvSink
from upbeat.trace.files.journal import JournalSink
from upbeat.trace.files.output import TraceWarning
from upbeat.trace.files.parquet import ParquetSink
from upbeat.trace.files.sinks import open_sink
from upbeat.trace.log import Ending, Outcome, StepLog, StepRun
from upbeat.trace.recorder import FileSink, MemorySink, Recorder, Sink, Source, Statistics, Summary
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
