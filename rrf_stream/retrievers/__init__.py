"""Retrievers that ship with the library, one module each; importing this package imports none of them.

- `rrf_stream.retrievers.sqlite`: full text, vectors and links in one SQLite file.
"""
