"""How a move is carried out: a pure state machine from an observation of the cluster to the next commands."""
