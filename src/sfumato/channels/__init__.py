"""Channels: the matrices that counts pass through, each known by its structure."""

from sfumato.channels.channel import Channel, Distribution, NotLumpableError
from sfumato.channels.cut import CutBaskets, CutRecords, Sizes
from sfumato.channels.decoded import Decoded
from sfumato.channels.dense import Dense
from sfumato.channels.product import Product
from sfumato.channels.retain import Retain
from sfumato.channels.unary_bits import Unary
from sfumato.channels.window import Windowed

__all__ = [
    "Channel",
    "CutBaskets",
    "CutRecords",
    "Decoded",
    "Dense",
    "Distribution",
    "NotLumpableError",
    "Product",
    "Retain",
    "Sizes",
    "Unary",
    "Windowed",
]
