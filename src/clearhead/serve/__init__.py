"""Serving: every task behind one API. Its modules need the extra `serve`."""
