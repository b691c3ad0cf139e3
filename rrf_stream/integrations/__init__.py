"""Faces of the library inside other frameworks, one module each."""
