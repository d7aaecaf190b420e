from pathlib import Path
from trainer.config import Config
from trainer.model import Model
def load_weights(model, config, folder): raise NotImplementedError
def export_weights(model, config, folder, writes): raise NotImplementedError
