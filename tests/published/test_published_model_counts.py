"""Each shipped model has the published number of parameters, exactly."""

import pytest

from advisor.model_catalog import CatalogModel, load_models

MODELS = tuple(load_models().values())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_count_is_exact(model: CatalogModel) -> None:
    assert model.shape.num_parameters == model.num_parameters_exact


def test_enough_models_of_enough_kinds() -> None:
    assert len(MODELS) >= 120
    assert sum(model.is_published_count for model in MODELS) >= 120
    assert len({model.model_type for model in MODELS}) >= 35
    assert min(model.num_parameters_exact for model in MODELS) < 0.2e9
    assert max(model.num_parameters_exact for model in MODELS) > 70e9
