"""`python -m rrf_stream` is the command `rrf-stream`."""

from rrf_stream.cli import main

main()
