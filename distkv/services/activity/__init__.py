"""The listener of the activity network: its clients, on connections of their own."""
