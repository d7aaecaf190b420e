"""The exposed communication of a step as formulas: the law of throughput.py for FSDP2."""

from dataclasses import dataclass

from advisor.explanation import Explanation, Symbol, cited, smaller_of, value_in_words, with_values
from advisor.step_formulas import FITTED, StepFormulas
from advisor.throughput import fabric_of
from advisor.throughput_factors import ThroughputFactors

RING = "ring collectives: NCCL tests, PERFORMANCE.md"
HIDDEN = "Rajbhandari et al. 2020 (arXiv:1910.02054); Zhao et al. 2023 (arXiv:2304.11277)"
SOURCE = cited(HIDDEN, RING, FITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationFormulas:
    """What collectives add to a step.

    compute_s, launch_s: seconds of one micro step on the GPU, and of launching it on the host.
    """

    step: StepFormulas
    factors: ThroughputFactors
    compute_s: float
    launch_s: float

    def terms(self) -> dict[str, Explanation]:
        """Seconds of one step by their names in advisor.throughput, where something is moved."""
        found = {}
        if self.step.plan.shard_degree > 1:
            found = self._sharded()
        if self.step.plan.replica_degree > 1:
            found["all-reduce of copies"] = self._copies()
        return found

    @property
    def _deferred(self) -> bool:
        plan = self.step.plan
        return plan.gradient_sync == "last" and plan.accumulation_steps > 1

    def _sharded(self) -> dict[str, Explanation]:
        symbols = self._symbols()
        exposed = f"({_exposed('c', 'b')})"
        gathering, times = f"A * {exposed} * g / c", "A * "
        if self._deferred:
            # Only the last micro step scatters; the others gather alone.
            alone = f"(A - 1) * ({_exposed('g', 'b')})"
            gathering, times = f"{alone} + {exposed} * g / c", ""
        return {
            "all-gather": self.step.seconds(gathering, SOURCE, *symbols),
            "reduce-scatter": self.step.seconds(
                f"{times}{exposed} * (c - g) / c", SOURCE, *symbols
            ),
        }

    def _copies(self) -> Explanation:
        """Copies reduce beside a third of what gathers and scatters leave of the compute."""
        times = "" if self._deferred else "A * "
        busy = "max(0, b - c) / 3" if self.step.plan.shard_degree > 1 else "b / 3"
        formula = f"{times}({_exposed('x', busy)})"
        reduction = self._copies_s()
        symbol = Symbol(
            name="x",
            value=reduction.value,
            meaning="seconds of reducing the gradients between copies in one micro step: "
            f"{with_values(reduction)}, bytes over the network and the latency of the calls",
        )
        return self.step.seconds(formula, SOURCE, symbol, *self._symbols())

    def _symbols(self) -> tuple[Symbol, ...]:
        """g, c, b and k."""
        gather, scatter = self._gather_s(), self._scatter_s()
        return (
            Symbol(
                name="g",
                value=gather.value,
                meaning="seconds of gathering in one micro step: "
                f"{with_values(gather)}, bytes over the links and the latency of the calls",
            ),
            Symbol(
                name="c",
                value=gather.value + scatter.value,
                meaning="seconds of gathering and scattering in one micro step: "
                f"{value_in_words(gather.value)} and {with_values(scatter)}, bytes over the links "
                "and the latency of the calls",
            ),
            Symbol(
                name="b",
                value=max(self.compute_s, self.launch_s),
                meaning=f"seconds that one micro step is busy: {value_in_words(self.compute_s)} "
                f"of computing or {value_in_words(self.launch_s)} of launching, the longer",
            ),
            Symbol(
                name="k",
                value=self.factors.contention,
                meaning="share of the communication beside compute that slows the compute",
            ),
        )

    def _ring_s(self, num_bytes: float, times: str = "") -> Explanation:
        """Seconds of moving so many bytes of each parameter among the F shards, so many times."""
        return self.step.seconds(
            f"{times}r * P * (F - 1) / F / D + {times}(L + 2) * (call + hop * (F - 1))",
            SOURCE,
            Symbol(name="r", value=num_bytes, meaning="bytes moved per parameter"),
            Symbol(name="D", value=self._link(), meaning="bytes per second of the ring"),
            *self._latencies(),
        )

    def _gather_s(self) -> Explanation:
        # Gathered once for the forward, and again for the backward when it was freed.
        times = "2 * " if self.step.plan.reshard_after_forward else ""
        return self._ring_s(self.step.stack.gather_bytes, times)

    def _scatter_s(self) -> Explanation:
        return self._ring_s(self.step.stack.reduce_bytes)

    def _copies_s(self) -> Explanation:
        plan, fabric = self.step.plan, fabric_of(self.step.instance)
        link = fabric.inter_bytes_per_s * self.factors.inter_link
        if plan.num_gpus <= plan.gpus_per_instance:
            link = fabric.intra_bytes_per_s * self.factors.intra_link
        return self.step.seconds(
            "2 * r * P / F * (C - 1) / C / D + (L + 2) * call",
            SOURCE,
            Symbol(name="r", value=self.step.stack.reduce_bytes, meaning="bytes per gradient"),
            Symbol(name="C", value=plan.replica_degree, meaning="copies of the weights"),
            Symbol(name="D", value=link, meaning="bytes per second between the copies"),
            *self._latencies(),
        )

    def _link(self) -> float:
        """Bytes per second of a ring over the shards, per GPU and direction."""
        plan, fabric = self.step.plan, fabric_of(self.step.instance)
        inside = fabric.intra_bytes_per_s * self.factors.intra_link
        if plan.shard_degree <= plan.gpus_per_instance:
            return inside
        machine = fabric.inter_bytes_per_s * plan.gpus_per_instance * self.factors.inter_link
        return min(inside, machine)

    def _latencies(self) -> tuple[Symbol, ...]:
        return (
            Symbol(
                name="call", value=self.factors.call_s, meaning="latency of one collective in s"
            ),
            Symbol(
                name="hop", value=self.factors.hop_s, meaning="latency of each further rank in s"
            ),
        )


def _exposed(communication: str, busy: str) -> str:
    """What lasts longer than the work beside it, and what of the rest slows that work."""
    return f"{communication} - (1 - k) * {smaller_of(communication, busy)}"
