"""ModelShape from a Hugging Face config.json: any dense decoder of a known model_type.

The config is what a stranger sends: every value is checked, and nothing but an AdvisorError at the
path of the value ("model.config.num_hidden_layers") leaves this module.
"""

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from advisor.config_reader import ConfigReader, shown
from advisor.config_refusals import REFUSED, refuse_features, refuse_layers, refuse_type
from advisor.errors import InvalidField, UnknownName
from advisor.families_layer_norm import LAYER_NORM_FAMILIES
from advisor.families_rms_norm import RMS_NORM_FAMILIES
from advisor.family import STANDARD_KEYS, Family
from advisor.family_rules import RULES
from advisor.model import LIMITS, ModelShape, checked_shape
from advisor.rope_config import read_rope

FAMILIES: Mapping[str, Family] = MappingProxyType({**RMS_NORM_FAMILIES, **LAYER_NORM_FAMILIES})
# Wrappers of a language model with others, whose language model can be trained alone.
_WRAPPERS: Mapping[str, str] = MappingProxyType({"gemma3": "gemma3_text", "mistral3": "mistral"})
_PATTERN_KEYS = ("sliding_window_pattern", "_sliding_window_pattern")
# Of Qwen2Config, from this layer on, where use_sliding_window is set.
_MAX_WINDOW_LAYERS = 28
_MAX_NAME = 80


def shape_from_config(config: Mapping[str, object], *, field: str = "model.config") -> ModelShape:
    """The shape of the decoder that a parsed config.json describes.

    Absent keys have the defaults of the family's class in transformers. Of a wrapper with images
    (gemma3, mistral3) it is the language model under text_config. Raises InvalidField for a value
    of wrong type or size, UnknownName for an unknown model_type, UnsupportedModel for what is
    known and not modelled: mixtures of experts, encoders, state spaces, quantised weights.
    """
    if not isinstance(config, Mapping):
        raise InvalidField(field, f"must be a JSON object (a config.json), not {shown(config)}")
    model_type, reader = _decoder(ConfigReader(values=config, field=field))
    refuse_type(reader, model_type)
    refuse_features(reader)
    family = _family(reader, model_type)
    fields = _fields(reader, family)
    rule = RULES.get(model_type)
    if rule is not None:
        fields.update(rule(reader, fields))
    _check_groups(reader, family, fields)
    shape = ModelShape(name=_name(reader, model_type), family=model_type, **fields)
    return checked_shape(shape, field=reader.field)


def _decoder(reader: ConfigReader) -> tuple[str, ConfigReader]:
    """The model type and the object that describes the decoder."""
    model_type = reader.text("model_type", default="") or _type_of_architecture(reader)
    if model_type not in _WRAPPERS:
        return model_type, reader
    inner = reader.section("text_config")
    if inner is None:
        raise InvalidField(
            reader.where("text_config"), f"is missing: {model_type} has its language model there"
        )
    return inner.text("model_type", default=_WRAPPERS[model_type]), inner


def _type_of_architecture(reader: ConfigReader) -> str:
    """The model type whose class the config names; configs of old have no model_type."""
    named = reader.value("architectures")
    for name in named if isinstance(named, list | tuple) else ():
        for model_type, family in FAMILIES.items():
            if family.architecture == name:
                return model_type
    raise InvalidField(
        reader.where("model_type"), f"is missing: add it, one of {', '.join(sorted(FAMILIES))}"
    )


def _family(reader: ConfigReader, model_type: str) -> Family:
    if model_type not in FAMILIES:
        names = sorted(FAMILIES)
        matches = difflib.get_close_matches(model_type.lower(), [*names, *REFUSED], n=3)
        raise UnknownName(
            reader.where("model_type"), model_type, kind="model type", matches=matches, known=names
        )
    return FAMILIES[model_type]


def _fields(reader: ConfigReader, family: Family) -> dict[str, Any]:
    """Every field of the shape that families have in common."""
    sizes = _sizes(reader, family)
    positions = family.fixed.get("positions", "rope")
    rope = read_rope(reader, theta=family.rope_theta, rotary_fraction=family.rotary_fraction)
    window, num_windowed = _window(reader, family, sizes["num_layers"])
    fields: dict[str, Any] = {
        **sizes,
        **family.fixed,
        "positions": positions,
        "tied_embeddings": reader.flag("tie_word_embeddings", default=family.tied),
        "activation": reader.text(family.activation_key, default=family.activation),
        "norm_eps": reader.number(family.eps_key, default=family.eps, most=1.0),
        "sliding_window": window,
        "num_windowed_layers": num_windowed,
    }
    for name, (key, default) in family.flags.items():
        fields[name] = reader.flag(key, default=default)
    if positions == "rope":
        fields["rope_theta"] = rope.theta
        fields["rotary_fraction"] = rope.rotary_fraction
        fields["rope_scaling"] = rope.scaling
    return fields


def _sizes(reader: ConfigReader, family: Family) -> dict[str, int]:
    def size(name: str, default: int | None) -> int:
        keys = family.keys.get(name, STANDARD_KEYS[name])
        default = family.defaults.get(name, default)
        if keys:
            return reader.integer(keys, default=default, most=LIMITS[name])
        if default is None:
            raise InvalidField(reader.where(name), "is not known for this family")
        return default

    hidden, heads = size("hidden_size", None), size("num_heads", None)
    return {
        "hidden_size": hidden,
        "num_layers": size("num_layers", None),
        "num_heads": heads,
        "num_kv_heads": _num_kv_heads(reader, family, heads),
        "head_dim": _head_dim(reader, family, hidden, heads),
        "ffn_size": size("ffn_size", family.ffn_multiple * hidden or None),
        "vocab_size": size("vocab_size", None),
        "max_position": size("max_position", None),
    }


def _num_kv_heads(reader: ConfigReader, family: Family, heads: int) -> int:
    """As given; null means one for each head; absent, the class's default."""
    keys = family.keys.get("num_kv_heads", STANDARD_KEYS["num_kv_heads"])
    default = heads
    if not any(key in reader.values for key in keys):
        default = family.defaults.get("num_kv_heads", heads)
    return reader.integer(keys, default=default, most=LIMITS["num_kv_heads"]) if keys else default


def _head_dim(reader: ConfigReader, family: Family, hidden: int, heads: int) -> int:
    keys = family.keys.get("head_dim", STANDARD_KEYS["head_dim"])
    if keys and reader.key_of(keys) is not None:
        return reader.integer(keys, default=None, most=LIMITS["head_dim"])
    if "head_dim" in family.defaults and "head_dim" not in reader.values:
        return family.defaults["head_dim"]
    if hidden % heads:
        names = family.keys.get("num_heads", STANDARD_KEYS["num_heads"])
        raise InvalidField(
            reader.where(reader.key_of(names) or names[0]),
            f"{heads} heads do not divide the hidden size {hidden}: give head_dim",
        )
    return hidden // heads


def _check_groups(reader: ConfigReader, family: Family, fields: Mapping[str, Any]) -> None:
    """Says at the config's own key that query heads cannot share key heads evenly."""
    heads, kv_heads = fields["num_heads"], fields["num_kv_heads"]
    if heads % kv_heads:
        names = family.keys.get("num_kv_heads") or STANDARD_KEYS["num_kv_heads"]
        key = reader.key_of(names)
        source = "" if key else "is missing, and the default of the family's class does not fit: "
        raise InvalidField(
            reader.where(key or names[0]), f"{source}{kv_heads} must divide the {heads} heads"
        )


def _window(reader: ConfigReader, family: Family, num_layers: int) -> tuple[int | None, int | None]:
    """(tokens that a windowed layer looks back, number of such layers; None means all)."""
    layer_types = reader.texts("layer_types", length=num_layers)
    refuse_layers(reader, layer_types or ())
    if family.windows == "none" or not _has_windows(reader, family):
        return None, None
    key = "sliding_window"
    window = reader.integer((key,), default=family.window, most=LIMITS["max_position"])
    if layer_types is not None:
        windowed = layer_types.count("sliding_attention")
    elif family.windows == "all":
        return window, None
    elif family.windows == "flag":
        limit = LIMITS["num_layers"]
        first = reader.integer(
            ("max_window_layers",), default=_MAX_WINDOW_LAYERS, least=0, most=limit
        )
        windowed = max(num_layers - first, 0)
    else:
        windowed = num_layers - num_layers // _every(reader, family)
    return (window, windowed) if windowed else (None, None)


def _has_windows(reader: ConfigReader, family: Family) -> bool:
    """Null for sliding_window means none; so does its absence where the class has no default."""
    if family.windows == "flag" and not reader.flag("use_sliding_window", default=False):
        return False
    if "sliding_window" in reader.values:
        return reader.value("sliding_window") is not None
    return family.window is not None


def _every(reader: ConfigReader, family: Family) -> int:
    """Each how-many-th layer attends fully; EXAONE writes it as letters ("LLLG")."""
    key = reader.key_of(_PATTERN_KEYS)
    if key is not None and isinstance(reader.value(key), str):
        return len(reader.text(key, default="")) or family.every
    return reader.integer(_PATTERN_KEYS, default=family.every, most=LIMITS["num_layers"])


def _name(reader: ConfigReader, model_type: str) -> str:
    """The last part of _name_or_path if it is a name, else the model type."""
    given = reader.value("_name_or_path")
    name = given.rstrip("/").rpartition("/")[2] if isinstance(given, str) else ""
    return name if 0 < len(name) <= _MAX_NAME and name.isprintable() else model_type
