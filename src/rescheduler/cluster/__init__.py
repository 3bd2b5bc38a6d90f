"""The only code that talks to Kubernetes: authentication, lists, decoding, dumps and recordings."""
