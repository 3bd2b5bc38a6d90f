"""How a move is carried out: a pure state machine from what is seen in the cluster to what is to be done next."""
