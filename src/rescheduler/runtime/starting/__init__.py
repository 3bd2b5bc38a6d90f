"""May this migration start? The gate checks holds (approval, pause, time windows), limits and the rules of planning."""
