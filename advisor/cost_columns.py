"""The laws of advisor.cost over arrays: one element per candidate, all under the same terms.

Floats throughout: the few candidates that are shown get the exact Decimal of advisor.cost.cost_of.
Arrays broadcast against each other; every result is a float64 array of the broadcast shape.
"""

from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.cost import CENT, DAY_S, MICRO_PER_USD, Terms
from advisor.units import DAY_HOURS, HOUR_S

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostColumns:
    """Costs of many candidates on one instance type, paid for under `terms`."""

    terms: Terms

    def wall_s(
        self, training_s: ArrayLike, num_instances: ArrayLike, checkpoint_bytes: ArrayLike = 0
    ) -> Floats:
        """Seconds of wall clock with start-up, checkpoints and the failure allowance."""
        fixed_s, slope = self._stretch(num_instances, checkpoint_bytes)
        return fixed_s + slope * np.asarray(training_s, dtype=np.float64)

    def total_usd(
        self, training_s: ArrayLike, num_instances: ArrayLike, checkpoint_bytes: ArrayLike = 0
    ) -> Floats:
        """US dollars; infinite where so many instances or days are not sold."""
        return self.usd_of(self.wall_s(training_s, num_instances, checkpoint_bytes), num_instances)

    def usd_of(self, wall_s: Floats, num_instances: ArrayLike) -> Floats:
        """US dollars of so many seconds of wall clock; infinite as in total_usd."""
        hours = (
            self._days(wall_s) * DAY_HOURS if self.terms.whole_days else np.ceil(wall_s) / HOUR_S
        )
        bought = self._bought(num_instances)
        rate = float(self.terms.quote.usd_per_instance_hour)
        return hours * np.where(bought > 0, rate * bought, np.inf)

    def days_reserved(
        self, training_s: ArrayLike, num_instances: ArrayLike, checkpoint_bytes: ArrayLike = 0
    ) -> Floats:
        """Days to buy, infinite where too many are needed. Only for reservations."""
        return self._days(self.wall_s(training_s, num_instances, checkpoint_bytes))

    def affordable_training_s(
        self, num_instances: ArrayLike, budget_usd: Decimal, checkpoint_bytes: ArrayLike = 0
    ) -> Floats:
        """The most seconds of steady training that the budget pays for; 0 where none."""
        bought = self._bought(num_instances)
        budget_micro = int(budget_usd.quantize(CENT, rounding=ROUND_DOWN) * MICRO_PER_USD)
        hour_micro = self.terms.quote.micro_usd_per_instance_hour * np.maximum(bought, 1)
        if self.terms.whole_days:
            choices = np.asarray(self.terms.day_choices)
            affordable = budget_micro // (hour_micro * DAY_HOURS)
            index = np.searchsorted(choices, affordable, side="right")
            days = np.where(index > 0, choices[np.maximum(index, 1) - 1], 0)
            wall_s = days * DAY_S - self.terms.end_margin_s
        else:
            wall_s = np.floor(budget_micro * float(HOUR_S) / hour_micro)
        return self._training_s(np.where(bought > 0, wall_s, 0.0), num_instances, checkpoint_bytes)

    def deadline_training_s(
        self, num_instances: ArrayLike, deadline_hours: float, checkpoint_bytes: ArrayLike = 0
    ) -> Floats:
        """The most seconds of steady training that end within the deadline; 0 where none."""
        wall_s = deadline_hours * HOUR_S
        if self.terms.whole_days:
            wall_s = min(wall_s, self.terms.usable_s(self.terms.day_choices[-1]))
        bought = self._bought(num_instances)
        return self._training_s(np.where(bought > 0, wall_s, 0.0), num_instances, checkpoint_bytes)

    def _stretch(
        self, num_instances: ArrayLike, checkpoint_bytes: ArrayLike
    ) -> tuple[Floats, Floats]:
        """Fixed seconds and slope of the wall clock; the order of operations is advisor.cost's."""
        overheads = self.terms.overheads
        count = np.asarray(num_instances, dtype=np.float64)
        one = np.asarray(checkpoint_bytes, dtype=np.float64) / (
            overheads.checkpoint_bytes_per_s * count
        )
        checkpoints = 1.0 + one / overheads.checkpoint_interval_s
        failures = 1.0 + (
            overheads.failures_per_gpu_s
            * (count * self.terms.instance.num_gpus)
            * overheads.lost_per_failure_s
        )
        return overheads.start_up_s + one, checkpoints * failures

    def _training_s(
        self, wall_s: Floats, num_instances: ArrayLike, checkpoint_bytes: ArrayLike
    ) -> Floats:
        fixed_s, slope = self._stretch(num_instances, checkpoint_bytes)
        training_s = np.maximum((wall_s - fixed_s) / slope, 0.0)
        # Rounding may have put it one unit in the last place too high.
        while np.any(over := (training_s > 0.0) & (fixed_s + slope * training_s > wall_s)):
            training_s = np.where(over, np.nextafter(training_s, 0.0), training_s)
        return training_s

    def _bought(self, num_instances: ArrayLike) -> Integers:
        """Instances to pay for; 0 where so many are not sold."""
        count = np.asarray(num_instances, dtype=np.int64)
        if not self.terms.whole_days:
            return count
        instance = self.terms.instance
        # The smallest reservation whose instances, less the spares, are enough; then 0 for none.
        usable = [n - instance.spares(n) for n in instance.reservable_counts]
        return np.asarray((*instance.reservable_counts, 0))[np.searchsorted(usable, count)]

    def _days(self, wall_s: Floats) -> Floats:
        # Days on sale are whole, so the fewest that hold x days also hold ceil(x) days.
        choices = self.terms.day_choices
        holds = np.arange(choices[-1] + 1)
        table = np.append(np.asarray(choices, np.float64)[np.searchsorted(choices, holds)], np.inf)
        needed = np.ceil((wall_s + self.terms.end_margin_s) / DAY_S)
        return table[np.minimum(needed, table.size - 1).astype(np.int64)]
