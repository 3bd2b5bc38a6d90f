"""kube-rescheduler: moves Kubernetes pods to where they should be."""

__version__ = "0.1.0.dev0"
