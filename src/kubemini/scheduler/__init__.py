"""The embedded cluster's scheduler: the queue, the cache, scores, extenders, and the loop over them."""
