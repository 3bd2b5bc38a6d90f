"""The steps of each method, as pure functions from what is seen to what is done next."""
