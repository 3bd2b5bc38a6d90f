"""How the embedded cluster's scheduler thinks: what it knows, where a pod could be, which place is best, who waits."""
