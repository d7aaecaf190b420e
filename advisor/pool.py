"""Pool: the plans that fit, over all instance types, and what they are compared by."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.field import Offers
from advisor.settings import FloatArray

# What plans are compared by, less being better, in the order in which they break ties.
MEASURES = ("tokens", "usd", "hours", "risk", "instances")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Columns over all offers, one after the other; starts: the place of each one's first."""

    offers: tuple[Offers, ...]
    starts: NDArray[np.int64]
    num_tokens: FloatArray
    num_instances: FloatArray
    hours: FloatArray
    usd: FloatArray

    @classmethod
    def of(cls, fitting: Sequence[Offers]) -> "Pool":
        """All plans of some offers."""

        def column(name: str) -> FloatArray:
            return np.concatenate([np.empty(0), *(getattr(each, name) for each in fitting)])

        return cls(
            offers=tuple(fitting),
            starts=np.cumsum([0, *(each.index.size for each in fitting)]),
            num_tokens=column("num_tokens"),
            num_instances=column("num_instances"),
            hours=column("hours"),
            usd=column("usd"),
        )

    def which(self, place: int) -> int:
        """The offers that a place belongs to, by their number."""
        return int(np.searchsorted(self.starts, place, side="right")) - 1

    def find(self, place: int) -> tuple[Offers, int]:
        """The offers that a place belongs to, and the position in them."""
        number = self.which(place)
        return self.offers[number], place - int(self.starts[number])

    def least(self, first: str, among: NDArray[np.int64]) -> int:
        """The place, of those in `among` (ascending), with the least of `first`.

        Ties are broken by the other measures in their order, so no plan dominates it.
        """
        places = among
        for name in (first, *(other for other in MEASURES if other != first)):
            values = self.measure(name, places)
            places = places[values == values.min()]
            if places.size == 1:
                break
        return int(places[0])

    def measure(self, name: str, places: NDArray[np.int64]) -> FloatArray:
        """One of MEASURES at ascending places, or one with _per_token behind it."""
        if name == "risk":
            return self._risk(places)
        if name == "tokens":
            return -self.num_tokens[places]
        if name.endswith("_per_token"):
            return self.measure(name.removesuffix("_per_token"), places) / self.num_tokens[places]
        columns = {"usd": self.usd, "hours": self.hours, "instances": self.num_instances}
        return columns[name][places]

    def _risk(self, places: NDArray[np.int64]) -> FloatArray:
        """Probability of running out of memory: known only of the plans that are asked about."""
        bounds = np.searchsorted(places, self.starts)
        return np.concatenate(
            [
                offers.field.probability(offers.index[places[low:high] - start])
                for offers, start, low, high in zip(
                    self.offers, self.starts, bounds[:-1], bounds[1:], strict=False
                )
                if high > low
            ]
        )
