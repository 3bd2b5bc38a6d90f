"""Objects, good and bad, that the real API server and the embedded one must judge alike."""
