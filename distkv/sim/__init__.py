"""A whole network in one process without real time: virtual clocks, network and disks around the very same core."""
