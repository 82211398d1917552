"""The namespace ``I`` of scripts."""
from ..tir.expr import Range as Range
from ..json_format import load_json
