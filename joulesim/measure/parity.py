"""
Whether decoding in blocks says the same as decoding token by token.

Kernels for several rows round otherwise than the kernel for one, so a model that verifies its own draft does not always
accept it. What is compared is the same weights on the same tokens, which leaves the framing as the only difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from joulesim.measure.reading import Count, NonNegative, Observed
from joulesim.measure.runtimes.decoding import Cache, answer


class Block(Observed):
    """One block size against single tokens."""

    rows: Count
    positions: Count
    """Positions compared."""
    agreed: Count
    """Positions where both would say the same token."""
    first_difference: Count | None = None
    """Output position of the first one that differs; ``None``: none does."""
    margin_there: NonNegative | None = None
    """Logit of the best less that of the second, at that position, token by token."""
    largest_margin: NonNegative | None = None
    """Largest such margin at any position that differs."""
    largest_difference: NonNegative = 0.0
    """Largest difference of any value that both show."""

    @property
    def self_acceptance(self) -> float:
        """Share of positions that agree."""
        return self.agreed / self.positions if self.positions else float("nan")


class Speculated(Observed):
    """Acceptance at run time of a draft by copying."""

    draft_length: Count
    drafted: Count
    verified: Count
    accepted: Count
    same_text: bool
    """Whether the speculative answer is the plain one."""


class Parity(Observed):
    """Outcome of a comparison."""

    prompts: Count
    repeats_identical: Count
    """Repeated single steps whose logits are bit for bit the same."""
    repeats: Count
    blocks: tuple[Block, ...]
    speculated: tuple[Speculated, ...] = ()
    """Empty where rows before the last are not shown, so that no draft can be verified."""
    values: Literal["logits", "log-probabilities"] = "logits"
    """What is compared: logits of every row, or log-probabilities of the likeliest tokens after the last row of a block."""


_REPEATED = 8
"""Single steps that are made twice."""


def compare(cache: Cache, prompts: Sequence[list[int]], output_tokens: int, blocks: Sequence[int],
            every: bool = True) -> Parity:
    """
    Decode each prompt greedily token by token, then feed the same tokens in blocks.

    Logits of one prompt are kept, no more: ``output_tokens`` times the vocabulary. Without ``every`` the cache shows the
    last row of a block alone, by its log-probabilities.
    """
    totals = {rows: [0, 0, None, None, None, 0.0] for rows in blocks}
    same, repeats, offset = 0, 0, 0
    speculated = {4: [0, 0, 0, True], 8: [0, 0, 0, True]} if every else {}
    for prompt in prompts:
        cache.cut(0)
        cache.feed(prompt)
        said, seen = [int(cache.logits().argmax())], []
        for step in range(output_tokens):
            cache.feed([said[-1]], len(prompt) + step)
            seen.append(np.array(cache.logits()))
            said.append(int(seen[-1].argmax()))
        cache.cut(len(prompt))
        for step in range(min(_REPEATED, output_tokens)):
            cache.feed([said[step]], len(prompt) + step)
            same += bool(np.array_equal(cache.logits(), seen[step], equal_nan=True))
            repeats += 1
        for rows in blocks:
            cache.cut(len(prompt))
            for at in range(0, output_tokens, rows):
                part = said[at:min(at + rows, output_tokens)]
                cache.feed(part, len(prompt) + at, every=True)
                for i in range(len(part)) if every else [len(part) - 1]:
                    _note(totals[rows], seen[at + i], cache.logits(i if every else -1), offset + at + i)
        for length, found in speculated.items():
            one, _ = answer(cache, prompt, output_tokens, [], draft_length=length, ngram=2, ignore_end=True)
            for i, count in enumerate((one.drafted, one.verified, one.accepted)):
                found[i] += count
            found[3] = found[3] and one.text == cache.model.text(said[:output_tokens])
        offset += output_tokens
    return Parity(
        prompts=len(prompts), repeats_identical=same, repeats=repeats,
        blocks=tuple(Block(rows=rows, positions=t[0], agreed=t[1], first_difference=t[2], margin_there=t[3],
                           largest_margin=t[4], largest_difference=t[5]) for rows, t in totals.items()),
        speculated=tuple(Speculated(draft_length=n, drafted=f[0], verified=f[1], accepted=f[2], same_text=f[3])
                         for n, f in speculated.items()),
        values="logits" if every else "log-probabilities",
    )


def _note(total: list, alone: np.ndarray, together: np.ndarray, position: int) -> None:
    """Add one position to the totals of a block size."""
    agreed = int(alone.argmax()) == int(together.argmax())
    total[0] += 1
    total[1] += agreed
    shown = np.isfinite(alone) & np.isfinite(together)
    total[5] = max(total[5], float(np.abs(alone[shown] - together[shown]).max(initial=0.0)))
    if not agreed:
        best = np.partition(alone, -2)[-2:]
        margin = float(best.max() - best.min()) if np.isfinite(best).all() else None
        if total[2] is None:
            total[2], total[3] = position, margin
        total[4] = max(total[4] or 0.0, margin or 0.0)
