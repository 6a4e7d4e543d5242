"""
What published tables say in words, and what it means here: rules by wording, never by the name of a table.

The first rule whose words occur in the cell counts.
"""

from __future__ import annotations

import re

PHASES = (
    ("steady state", "serving"), ("offline serving", "serving"), ("server serving", "serving"),
    ("static batch", "static"), ("whole request", "request"), ("decode-dominated", "request"), ("decode", "decode"),
    ("prefill", "prefill"), ("serving", "serving"), ("request", "request"), ("mixed", "request"),
)
"""Part of the work that a row is about: a stretch of serving, one batch from prompt to end, or one phase of it."""

RATES = (("decode tok/s", "decode rate"),)
"""Throughput of another part of the work than the energy's."""

BOUNDARIES = (
    ("wall", "wall"), ("whole system", "wall"), ("powermetrics", "chip"), ("soc", "chip"), ("package", "chip"),
    ("board", "board"), ("gpu", "board"), ("chip", "board"),
)
"""NVML reads the board whatever tables call it; a rail or package counter of a system on a chip leaves out its memory."""

WHOLE_BATCH = re.compile(r"all sequences")
"""Tables that count the tokens of all sequences count the lengths of prompts and outputs so too."""

FLAGS = re.compile(r"\b(FLAG\w*|VOIDED|LOW TRUST|not usable|do not fit)\b")
"""Warnings in a table's notes that take a row out of every fit."""

NET = re.compile(r"idle (?:baseline |power )?subtracted", re.IGNORECASE)
"""Energies above idle."""

CAP = re.compile(r"(?:power (?:cap|limit)|limit)\s*(\d+(?:\.\d+)?)\s*W|(\d+(?:\.\d+)?)\s*W(?: limit|-class|\b$)"
                 r"|^(\d+) W\b(?! TDP)")
"""Power limit of one device in the name of a variant. [W]"""

TOKENS = re.compile(r"^(?:~|<=|≈)\s*(?=\d)")
"""Marks of an approximate length, and of a cap that the table divides by."""

UNSTATED = re.compile(r"not stated|unknown|n/?a\b", re.IGNORECASE)
"""Words for a length that nobody wrote down."""

TOTALS = re.compile(r"(\d+) tokens over ~?(\d+) prompts")
"""Tokens of a run and its number of requests, in the notes."""

PERPLEXITY = re.compile(r"perplexity|\bppl", re.IGNORECASE)
"""Tasks whose score counts no answers."""

CONTAMINATED = re.compile(r"contaminated|too short", re.IGNORECASE)
"""Said of the energy where the power of a row is that of loading or idling too."""
