"""The kubelets of all nodes, simulated: they register nodes, renew leases, run pods on paper, and measure them."""
