"""The activity network: everybody who is connected hears everything, once, in order."""
