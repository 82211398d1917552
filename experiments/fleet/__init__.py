"""Fleets of devices that only pretend to measure: what trackers, servers and connections cost by themselves."""
