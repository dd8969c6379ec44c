"""The activity network in the simulator."""
