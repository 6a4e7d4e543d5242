"""The page of claims in ``docs/``: what was found, what is predicted, and which numbers it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

_HEAD = """# Findings of the source studies, predicted

Written by `joulesim validate claims --page docs/claims.md`; change `validation/claims/`, not this page.

Each claim is a few scenarios and an expression over their predictions (`validation/claims/*.yaml`). A *number* must
lie in the accepted range, an *order* must hold by more than 1 %, a *method* names the test that shows it. The role is
*fit* when a number that was fitted on claims or assumed moves the claim by more than a hundredth of its own relative
change, else *test*. What is left without one note or one mechanism: [claims-left-out.md](claims-left-out.md).
"""


def page(rows: Sequence[dict[str, Any]], table: Callable[[Iterable[Sequence], Sequence[str]], str], short) -> str:
    """Markdown of findings in plain form, with ``table`` and ``short`` of the command line."""
    supported = [r for r in rows if r["verdict"] == "supported"]
    tests = [r for r in supported if r["role"] == "test"]
    numbers = {n["name"]: n for r in supported for n in r["fitted_numbers"]}
    parts = [
        _HEAD,
        f"**{len(supported)} of {len(rows)} supported, {len(tests)} of them as tests; {len(numbers)} fitted or assumed "
        "numbers carry the others.**\n",
        table(
            [
                (
                    r["id"],
                    r["kind"],
                    r["role"],
                    short(r["published"]),
                    short(r["accept"]),
                    _predicted(r, short),
                    r["verdict"],
                )
                for r in rows
            ],
            ("claim", "kind", "role", "published", "accepted", "predicted", "verdict"),
        ),
        "\n## Numbers without a source of their own\n",
        table(
            [
                (
                    n["name"],
                    f"{n['value']:.4g}",
                    n["kind"],
                    n["note"],
                    sum(name == m["name"] for r in supported for m in r["fitted_numbers"]),
                )
                for name, n in numbers.items()
            ],
            ("number", "value", "kind", "what it is", "claims that rest on it"),
        ),
        "\n## Claim by claim\n",
    ]
    note = None
    for r in rows:
        if r["note"] != note:
            note = r["note"]
            parts.append(f"### {note}\n")
        parts.append(_entry(r, short))
    return "\n".join(parts)


def _predicted(r: dict[str, Any], short) -> str:
    return short(r["predicted"]) if r["predicted"] is not None else r["why"] or ""


def _entry(r: dict[str, Any], short) -> str:
    lines = [f"**{r['id']}** ({r['kind']}, {r['role']}): {r['statement']}", ""]
    lines.append(f"- predicted: {_predicted(r, short)}; {r['verdict']}" + (f" ({r['why']})" if r["why"] else ""))
    if r["published"] is not None:
        lines.append(f"- published: {short(r['published'])}, accepted {short(r['accept'])}")
    lines += [f"- {name}: {short(value)}" for name, value in r["beside"].items()]
    if r["reading"]:
        lines.append(f"- reading: {r['reading']}")
    if r["scenarios"]:
        more = f", and {len(r['scenarios']) - 3} more" if len(r["scenarios"]) > 3 else ""
        lines.append(f"- scenarios: {'; '.join(r['scenarios'][:3])}{more}")
    if r["fitted_numbers"]:
        lines.append("- rests on: " + ", ".join(n["name"] for n in r["fitted_numbers"]))
    return "\n".join(lines) + "\n"
