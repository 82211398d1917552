"""Targets: what code is generated for, with the facts (vector width, caches, thread limits) that schedules need."""

from .error import TargetError
from .host import HostInfo, fingerprint, host_info
from .kind import OptionSpec, TargetKind, get_kind, list_kinds, register_kind
from .tag import list_tags, register_tag
from .target import Target
from . import cuda_cards  # registers the tags of cards
