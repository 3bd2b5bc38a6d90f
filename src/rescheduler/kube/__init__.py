"""The Kubernetes client: authentication, requests, watches, leases, and the objects of ours that it stores."""
