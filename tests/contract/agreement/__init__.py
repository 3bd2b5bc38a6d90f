"""Our feasibility against the real kube-scheduler, on rolled worlds: does it bind a pod exactly where we say it could?

`roll` makes a world from a seed (`nodes`, `rules`, `pods` and `storage` are its parts), `stage` puts it on a cluster,
`trial` asks both sides about every candidate pod on every node, with the `doorkeeper` closing the way out, and `tally`
counts. `test_scheduler_agrees` runs it in CI, and `python -m tests.contract.agreement` by hand, which also replays a
written disagreement.
"""
