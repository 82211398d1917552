"""Hostile input: what servers, trackers and readers of files do with bytes that somebody has changed on purpose."""
