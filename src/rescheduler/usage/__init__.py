"""Where measured use comes from and how samples of it become one number (docs/usage.md).

`prometheus` asks a Prometheus; `cluster.metering` asks metrics.k8s.io. Both give rows, which `history` keeps for a
while and smooths into the Measured that planning reads. `runtime.metering` is the loop around it.
"""
