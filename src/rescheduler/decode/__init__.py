"""From Kubernetes' JSON and YAML to the rows that planning reads, and back into recordings."""
