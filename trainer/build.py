"""A model on meta, in the plan's precision: what a run, a simulation and a measurement share."""

import torch

from trainer.config import Config
from trainer.errors import Unsupported
from trainer.kernels import PORTABLE, Kernels
from trainer.loss import LossSettings
from trainer.model import Model
from trainer.precision import apply_precision


def build_model(config: Config, kernels: Kernels = PORTABLE) -> Model:
    """The model of the settings, without memory and without weights. Raises Unsupported."""
    if config.model.attn_softcap:
        raise Unsupported("attn_softcap: flash attention has no soft cap on its scores")
    loss = LossSettings(
        chunks=config.plan.loss_chunks,
        z_loss=config.run.z_loss,
        softcap=config.model.logit_softcap,
    )
    with torch.device("meta"):
        model = Model(config.model, loss=loss, kernels=kernels, num_positions=config.plan.seq_len)
    apply_precision(model.blocks, config.plan)
    return model
