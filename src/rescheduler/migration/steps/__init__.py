"""The steps of each method, as pure functions from an observation to what is done next."""
