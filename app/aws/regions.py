"""Regions of AWS: the partition of each, which is part of every ARN."""

_PARTITIONS = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"), ("us-isob-", "aws-iso-b"))


def partition_of(region: str) -> str:
    """The partition of AWS that a region is in."""
    return next((name for start, name in _PARTITIONS if region.startswith(start)), "aws")
