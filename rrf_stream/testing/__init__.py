"""For tests of code that fuses arms: scripted arms, virtual time, captured events, a leak check.

Works with any test framework. A test that takes half a minute of virtual time takes none of
yours, and what it finds is exact: a timeout of 30 seconds fires after 30.0 seconds.
"""

from rrf_stream.testing._checks import assert_no_leaks, capture_events
from rrf_stream.testing._clocks import VIRTUAL_BACKENDS, VirtualEventLoop
from rrf_stream.testing._script import Script, script

__all__ = ["VIRTUAL_BACKENDS", "Script", "VirtualEventLoop", "assert_no_leaks", "capture_events", "script"]
