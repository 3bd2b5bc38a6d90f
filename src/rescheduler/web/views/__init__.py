"""What the page shows, one module a view: plain functions from what is in memory to plain values for JSON."""
