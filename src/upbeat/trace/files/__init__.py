"""Result files: CSV, Parquet and the journal."""
