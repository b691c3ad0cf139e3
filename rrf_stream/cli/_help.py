"""What the commands say of themselves, where that is more than a sentence."""

__all__ = ["CODES", "DEMO", "INDEX", "MCP", "SEARCH", "SERVE"]

CODES = (
    "2 wrong arguments, or a file that is no index; 130 interrupted; 141 nobody reads the output any more."
)

DEMO = """Take a tour through Python's own documentation.

Three arms search it at once, in ways on which they disagree, and once with one arm held back.
The first run indexes the docstrings of the standard library into the cache folder, in some
seconds ($XDG_CACHE_HOME/rrf-stream, or ~/.cache/rrf-stream). Nothing is downloaded.
"""

INDEX = """Bring an index up to date with files and folders.

The index is made if it does not exist; what did not change since the last time is skipped.

A Markdown file is one document (links between files become graph links), and so is any other
UTF-8 text file; both may have 2 MiB. A .jsonl file has a document on each line, of which title
and links may be missing: {"id": ..., "title": ..., "text": ..., "links": [ids]}.

In a folder, hidden files and folders, symbolic links and files that are no text by their name
(pictures, archives, programs, ...) are passed over. Whatever else cannot be read is named and
skipped; what the index held of it stays. Files that are gone from a folder go from the index,
and so do all files of a PATH that is gone itself.

The run can be interrupted at any time: what is indexed by then stays.
"""

SEARCH = """Search an index: lexical, dense and graph at once.

On a terminal a table gets better while the arms answer, and a ✓ marks the places that are
certain. In a pipe there is a line for each hit, with tabs between rank, score, id, title and
ranks; how the arms did goes to standard error.
With --json each hit has its document as item; it has no items, the copies of each arm, as all
arms return the same document.

What is certain is counted from the first place on. While arms answer: the places that nothing
that is still to come can change (in JSON settled). In the end, if an arm was cut short: those
that would be the same had every arm delivered its whole window (in JSON exact).

The time that is shown and limited begins when the arms are asked. Starting Python, opening the
index and, for the dense arm, loading its model (about a second in all) come before and are not
in it.
"""

SERVE = """Serve searches over HTTP: a page that fills in live, JSON, and server-sent events.

Give an index with --db, or a pipeline of your own as package.module:name, where name is a Pipeline
or a function that returns an asynchronous context manager of one. Modules are looked for in the
current folder too.

/ is the page; /search?q=... gives the final answer, /search/stream?q=... every better one;
/openapi.json describes all of it. Without --host only this machine can reach it.

If the environment has RRF_STREAM_TOKEN, or --token-file is given, requests must have that token, as
a bearer token or as the password that a browser asks for.
"""

MCP = """Serve an index to language models, by the Model Context Protocol.

There are two tools: search, which answers within the time that the call gives and says in words
what is missing, and fetch, which reads a whole document.

A program that runs tools starts this command and talks to it over standard input and output.
With --transport http it is a server of its own, at /mcp, for anybody who can reach the port:
there is no password. Only requests that call it by a known name are answered.
"""
