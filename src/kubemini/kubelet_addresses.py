"""The addresses of pods: no two pods that are there have the same.

`kubelet` takes one for each pod that it starts. Addresses of pods that are gone are used again, but not soon, so that
whoever still remembers one seldom meets a stranger under it.
"""

from __future__ import annotations

from collections import deque
from ipaddress import IPv4Network

NETWORK = IPv4Network("10.128.0.0/9")
_RESTING = 1000
"""How many addresses are left alone after their pods are gone."""


class Addresses:
    """The pods' addresses in one cluster."""

    def __init__(self, network: IPv4Network = NETWORK) -> None:
        self._network = network
        self._next = 1  # the first is the network itself
        self._taken: set[str] = set()
        self._free: deque[str] = deque()

    def take(self) -> str:
        """An address that nobody has; an OverflowError when there is none left."""
        while True:
            if len(self._free) > _RESTING:
                address = self._free.popleft()
            elif self._next < self._network.num_addresses - 1:
                address = str(self._network[self._next])
                self._next += 1
            elif self._free:
                address = self._free.popleft()
            else:
                raise OverflowError(f"all addresses of {self._network} are taken")
            if address not in self._taken:
                self._taken.add(address)
                return address

    def note(self, address: str) -> None:
        """A pod has this address already."""
        self._taken.add(address)

    def give_back(self, address: str) -> None:
        """A pod that had it is gone."""
        if address in self._taken:
            self._taken.discard(address)
            self._free.append(address)
