"""A small Kubernetes in this process: an API server over HTTP, its controllers, a scheduler and kubelets."""
