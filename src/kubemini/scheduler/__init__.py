"""The embedded cluster's scheduler: the queue, the cache, scores, the extender, and the loop over them."""
