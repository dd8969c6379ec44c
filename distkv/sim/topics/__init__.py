"""Topics in the simulator: servers on its hosts, producers and consumers, and what must be true of them."""
