"""Tasks with checkable answers: joules, or seconds, per correct answer, end to end."""

from __future__ import annotations

import json
import os
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from joulesim.errors import Fault, InputError
from joulesim.measure.checkers import check
from joulesim.measure.outcome import Correctness
from joulesim.measure.runtimes.base import Answer

DRAWS = 2000
"""Bootstrap draws."""
_FEW_FACTS = ("Question: What is the capital of Spain?\nAnswer: Madrid\n\n"
              "Question: What colour is grass?\nAnswer: Green\n\n"
              "Question: Which planet is closest to the Sun?\nAnswer: Mercury\n\n")
_FEW_WORDS = (
    "Question: Tom has 3 apples and buys 4 more. How many apples does he have?\n"
    "Answer: He starts with 3 and adds 4. 3 + 4 = 7. The answer is 7.\n\n"
    "Question: A box holds 6 eggs. How many eggs are in 5 boxes?\n"
    "Answer: Each box holds 6 and there are 5 boxes. 6 * 5 = 30. The answer is 30.\n\n"
    "Question: Sara had 12 sweets and ate 5. How many are left?\n"
    "Answer: She starts with 12 and takes away 5. 12 - 5 = 7. The answer is 7.\n\n")
_FACTS = (
    ("What is the capital of France?", "Paris"), ("What is the capital of Japan?", "Tokyo"),
    ("What is the capital of Italy?", "Rome"), ("What is the capital of Germany?", "Berlin"),
    ("What is the capital of Egypt?", "Cairo"), ("What is the capital of Russia?", "Moscow"),
    ("What is the capital of Greece?", "Athens"), ("What is the capital of China?", "Beijing"),
    ("What is the capital of Portugal?", "Lisbon"), ("What is the capital of Poland?", "Warsaw"),
    ("What is the largest planet of the solar system?", "Jupiter"), ("Which planet is called the Red Planet?", "Mars"),
    ("Which gas do humans need to breathe?", "oxygen"), ("What is the chemical symbol of gold?", "Au"),
    ("What is the chemical formula of water?", "H2O"), ("How many days are in a week?", ["7", "seven"]),
    ("How many legs does a spider have?", ["8", "eight"]), ("How many months are in a year?", ["12", "twelve"]),
    ("What is the opposite of hot?", "cold"), ("What is frozen water called?", "ice"),
    ("Who wrote Romeo and Juliet?", "Shakespeare"), ("What is the tallest mountain in the world?", "Everest"),
    ("In which country is the Great Wall?", "China"), ("Which ocean is the largest?", "Pacific"),
    ("Which language is spoken in Brazil?", "Portuguese"),
    ("Who was the first president of the United States?", "Washington"),
    ("What do bees make?", "honey"), ("What colour is a ripe banana?", "yellow"),
    ("How many sides does a triangle have?", ["3", "three"]), ("What is the currency of Japan?", "yen"),
)


class Item(NamedTuple):
    """A question with its answer."""

    prompt: str
    answer: Any
    kind: str
    """Name of a check of :mod:`joulesim.measure.checkers`."""
    max_tokens: int
    stop: tuple[str, ...] = ()


def read_task(path: str | os.PathLike, allow_code: bool = False) -> list[Item]:
    """
    Items of a ``.jsonl``: ``prompt`` and ``answer``, with ``kind`` (exact), ``max_tokens`` (256) and ``stop``.

    ``facts`` and ``words`` are shipped: 30 questions each, for a small base model. Samples of lm-eval
    (``--log_samples``) and of inspect logs are understood too, where their target is one text.
    """
    if str(path) in SHIPPED:
        return SHIPPED[str(path)]()
    path, items, faults = Path(path), [], []
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Fault(str(path), f"expected a readable .jsonl, got {error}")) from None
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            item = _item(row)
            check(item.kind, allow_code, where)
            items.append(item)
        except InputError as error:
            faults += error.faults
        except (ValueError, KeyError, TypeError) as error:
            faults.append(Fault(where, f"expected an object with prompt and answer, got {error!r}"))
    if faults or not items:
        raise InputError(faults or [Fault(str(path), "expected questions, got none")])
    return items


def _item(row: dict[str, Any]) -> Item:
    if "arguments" in row and "target" in row:  # lm-eval --log_samples
        arguments = row["arguments"]
        first = arguments["gen_args_0"]["arg_0"] if isinstance(arguments, dict) else arguments[0][0]
        return Item(first, row["target"], "exact", 256)
    if "input" in row and "target" in row:  # inspect
        text = row["input"] if isinstance(row["input"], str) else row["input"][-1]["content"]
        return Item(text, row["target"], "exact", 256)
    return Item(row["prompt"], row["answer"], row.get("kind", "exact"), int(row.get("max_tokens", 256)),
                tuple(row.get("stop", ())))


def facts() -> list[Item]:
    """Thirty short facts after three worked examples."""
    return [Item(f"{_FEW_FACTS}Question: {q}\nAnswer:", a, "contains", 10, ("\n",)) for q, a in _FACTS]


def words(seed: int = 2) -> list[Item]:
    """Thirty word problems of one step after three worked examples."""
    chance, found = random.Random(seed), []
    for i in range(30):
        name = chance.choice(["Anna", "Ben", "Carl", "Dina", "Eva", "Finn"])
        thing = chance.choice(["books", "pens", "coins", "cards", "stones"])
        a, b = chance.randint(2, 12), chance.randint(2, 12)
        if i % 3 == 0:
            question, result = f"{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have?", a + b
        elif i % 3 == 1:
            question, result = f"{name} had {a + b} {thing} and gave away {b}. How many {thing} are left?", a
        else:
            question, result = f"A bag holds {a} {thing}. How many {thing} are in {b} bags?", a * b
        found.append(Item(f"{_FEW_WORDS}Question: {question}\nAnswer:", result, "numeric", 48, ("\n",)))
    return found


SHIPPED = {"facts": facts, "words": words}
"""Tasks without a file."""


class PerCorrect(NamedTuple):
    """Cost of a correct answer, all attempts paid for."""

    value: float | None
    """``None`` when none is correct."""
    low: float
    high: float | None
    """``None`` when draws without a correct answer reach into the interval: there is no upper end."""
    bound: float | None = None
    """With no correct answer: at least this much."""


def marked(items: Sequence[Item], answers: Sequence[Answer], allow_code: bool = False) -> list[bool]:
    """
    Whether each answer is right. Failed and empty ones are not; truncated ones are judged on what is there, which is
    nothing where the model was still thinking.
    """
    return [
        answer.finish != "failed" and bool(_said(answer.text).strip())
        and check(item.kind, allow_code, "task")(_said(answer.text), item.answer)
        for item, answer in zip(items, answers, strict=True)
    ]


def _said(text: str) -> str:
    """What stands after the thinking."""
    if "</think>" in text:
        return text.rpartition("</think>")[2]
    return text.partition("<think>")[0]


def correctness(right: Sequence[bool], answers: Sequence[Answer]) -> Correctness:
    """Counts for a record."""
    return Correctness(
        correct=sum(right), attempted=len(right), truncated=sum(a.finish == "length" for a in answers),
        empty=sum(not a.text.strip() and a.finish != "failed" for a in answers),
        failed=sum(a.finish == "failed" for a in answers),
    )


def per_correct(costs: Sequence[float], right: Sequence[bool], level: float = 0.95, seed: int = 0) -> PerCorrect:
    """
    Sum of all costs over the number correct, with an interval from resampled questions.

    Wrong answers cost too: 10 J for a right and 100 J for a wrong one are 110 J.

    >>> per_correct([10.0, 100.0], [True, False]).value
    110.0
    """
    n, correct = len(costs), sum(right)
    if not correct:
        most = 1 - (1 - level) ** (1 / n)  # one-sided Clopper-Pearson with no success
        return PerCorrect(None, 0.0, None, sum(costs) / (n * most))
    chance, drawn = random.Random(seed), []
    for _ in range(DRAWS):
        picked = [chance.randrange(n) for _ in range(n)]
        hits = sum(right[i] for i in picked)
        drawn.append(sum(costs[i] for i in picked) / hits if hits else float("inf"))
    edges = statistics.quantiles([min(d, 1e300) for d in drawn], n=1000)
    low, high = edges[round(500 * (1 - level)) - 1], edges[round(1000 - 500 * (1 - level)) - 1]
    return PerCorrect(sum(costs) / correct, low, None if high >= 1e299 else high)
