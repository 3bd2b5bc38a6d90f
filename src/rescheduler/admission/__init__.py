"""What is asked of us while a pod is made and placed: the mutating webhook and the scheduler extender."""
