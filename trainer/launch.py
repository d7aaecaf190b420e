"""One command for one node or many: start torchrun with what SageMaker says about the nodes.

    python -m trainer.launch [--key value]...

reads /opt/ml/input/config/resourceconfig.json (hosts, current_host, network_interface_name) and
hyperparameters.json where they are, adds the settings of its own command line, and becomes
torchrun. Elsewhere it starts one node. As it replaces itself, SIGTERM reaches torchrun.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

CONFIG_DIR = Path("/opt/ml/input/config")
PORT = 29500


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """num_nodes, this node's rank, the first node's address, and the network interface."""

    num_nodes: int = 1
    node_rank: int = 0
    address: str = "127.0.0.1"
    interface: str | None = None


def nodes_from(config: Mapping[str, Any]) -> Nodes:
    """From the contents of resourceconfig.json. Every node sorts the hosts in the same way."""
    hosts = sorted(config["hosts"], key=_host_key)
    return Nodes(
        num_nodes=len(hosts),
        node_rank=hosts.index(config["current_host"]),
        address=hosts[0],
        interface=config.get("network_interface_name"),
    )


def command(nodes: Nodes, processes: int, settings: Sequence[str]) -> list[str]:
    """The torchrun command line of this node."""
    where = ["--standalone"]
    if nodes.num_nodes > 1:
        where = [
            f"--nnodes={nodes.num_nodes}",
            f"--node-rank={nodes.node_rank}",
            f"--master-addr={nodes.address}",
            f"--master-port={PORT}",
        ]
    torchrun = [sys.executable, "-m", "torch.distributed.run", *where]
    return [*torchrun, f"--nproc-per-node={processes}", "-m", "trainer", *settings]


def settings_from(hyperparameters: Mapping[str, Any], arguments: Sequence[str]) -> list[str]:
    """Hyperparameters as --key value, without those that the command line gives itself."""
    given = {word[2:].partition("=")[0] for word in arguments if word.startswith("--")}
    words: list[str] = []
    for key, value in hyperparameters.items():
        if key not in given and not key.startswith("sagemaker_"):
            words += [f"--{key}", str(value)]
    return [*words, *arguments]


def _host_key(host: str) -> tuple[int, str]:
    digits = "".join(letter for letter in host if letter.isdigit())
    return int(digits or 0), host


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main(arguments: Sequence[str]) -> None:
    """Become torchrun."""
    resources = _read(CONFIG_DIR / "resourceconfig.json")
    nodes = nodes_from(resources) if resources else Nodes()
    if nodes.interface:
        os.environ.setdefault("NCCL_SOCKET_IFNAME", nodes.interface)
    settings = settings_from(_read(CONFIG_DIR / "hyperparameters.json"), arguments)
    processes = torch.cuda.device_count() if torch.cuda.is_available() else 1
    line = command(nodes, processes, settings)
    os.execv(line[0], line)  # noqa: S606 - the command is built above, without a shell


if __name__ == "__main__":
    main(sys.argv[1:])
