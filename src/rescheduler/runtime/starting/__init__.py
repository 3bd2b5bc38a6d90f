"""May this migration start? The gate asks the holds, the limits and the windows."""
