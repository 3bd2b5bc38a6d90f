"""The embedded API server's HTTP side: paths, lists, watches, discovery and tables. What a request does is in `api`."""
