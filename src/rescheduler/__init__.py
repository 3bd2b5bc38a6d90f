"""kube-rescheduler: moves Kubernetes pods to better nodes."""

__version__ = "0.1.0.dev0"
