"""Arguments that name a scenario, and the scenario they mean."""

from __future__ import annotations

from joulesim import catalogue
from joulesim.errors import Fault, InputError
from joulesim.scenario import Scenario, build, load_scenario

_RUNTIMES = (
    ("NVIDIA", "gpu", True, "vllm"), ("NVIDIA", "gpu", False, "llama.cpp-cuda"), ("NVIDIA", "soc", False, "llama.cpp-cuda"),
    ("Apple", "soc", False, "llama.cpp-metal"), ("AMD", "gpu", True, "vllm"), ("AMD", "gpu", False, "llama.cpp-rocm"),
    ("AMD", "soc", False, "llama.cpp-rocm"),
)
"""Runtime assumed for a vendor's device of a kind, with high-bandwidth memory or without, when none is named."""


def arguments(parser) -> None:
    """Add ``--set`` and the options of the short form."""
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", dest="changes",
                        help="change a dotted field, e.g. serving.batch=8 or hardware.memory_bandwidth='1 TB/s'")
    parser.add_argument("--accept-framing-mismatch", action="store_true",
                        help="use an acceptance that was measured under another framing, and say so")
    short = parser.add_argument_group("instead of a scenario: a model")
    short.add_argument("--on", metavar="DEVICE", help="hardware profile to run the model on")
    short.add_argument("--weights", metavar="FORMAT", help="weight format (default: as the checkpoint stores them)")
    short.add_argument("--kv-cache", metavar="FORMAT", help="cache format (default: f16)")
    short.add_argument("--runtime", metavar="RUNTIME", help="inference engine (default: the usual one of the device)")
    short.add_argument("--batch", help="sequences decoded together (default: 1)")
    short.add_argument("--prompt", help="prompt tokens (default: 512)")
    short.add_argument("--output", "--output-tokens", dest="output_tokens", help="generated tokens (default: 256)")


def read(name: str, options) -> tuple[Scenario, list[str]]:
    """Scenario of the arguments, with ``--set`` applied, and the defaults that were assumed."""
    assumed: list[str] = []
    if options.on:
        scenario = build(_short_form(name, options, assumed), "joulesim predict")
    else:
        given = [flag for flag in ("weights", "kv_cache", "runtime", "batch", "prompt", "output_tokens")
                 if getattr(options, flag) is not None]
        if given:
            flag = given[0].replace("_", "-")
            raise InputError(Fault(f"--{flag}", "goes with MODEL --on DEVICE", "use --set with a scenario"))
        if name in catalogue.names("model"):
            raise InputError(Fault("", f"{name!r} is a model, not a scenario", "say where it runs with --on DEVICE"))
        scenario = load_scenario(name)
    if options.accept_framing_mismatch:
        scenario = scenario.replace({"speculation.accept_framing_mismatch": True})
    return apply(scenario, options.changes), assumed


def apply(scenario: Scenario, changes: list[str]) -> Scenario:
    """Scenario with ``FIELD=VALUE`` texts applied."""
    fields, faults = {}, []
    for change in changes:
        field, equals, value = change.partition("=")
        if not equals or not field:
            faults.append(Fault("--set", f"expected FIELD=VALUE, got {change!r}"))
        fields[field.strip()] = _plain(value.strip())
    if faults:
        raise InputError(faults)
    return scenario.replace(fields, text=True) if fields else scenario


def _plain(value: str):
    """YAML value of a text: numbers, true and false, lists; quantities stay text."""
    import yaml

    try:
        return yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        return value


def _short_form(model: str, options, assumed: list[str]) -> dict:
    hardware = catalogue.load_hardware(options.on)

    def chosen(flag: str, default):
        value = getattr(options, flag)
        if value is None:
            assumed.append(f"{flag.replace('_', '-')}: {default} (the default of the short form)")
            return default
        return value

    workload = {"prompt_tokens": _plain(str(chosen("prompt", 512))),
                "output_tokens": _plain(str(chosen("output_tokens", 256)))}
    document = {
        "name": f"{model} on {hardware.name}", "hardware": options.on, "model": model, "workload": workload,
        "runtime": chosen("runtime", _usual_runtime(hardware)),
        "serving": {"batch": _plain(str(chosen("batch", 1)))},
        "boundary": "chip" if hardware.boundary == "chip" and hardware.chip_share_of_memory_energy else "board",
    }
    assumed.append(f"boundary: {document['boundary']}")
    if options.weights:
        document["weights"] = options.weights
    else:
        assumed.append("weights: as the checkpoint stores them")
    if options.kv_cache:
        document["kv_cache"] = options.kv_cache
    return document


def _usual_runtime(hardware) -> str:
    stacked = hardware.memory_kind.startswith("HBM")
    for vendor, kind, hbm, runtime in _RUNTIMES:
        if (hardware.vendor, hardware.kind, stacked) == (vendor, kind, hbm):
            return runtime
    if hardware.kind == "cpu":
        return "llama.cpp-cpu"
    raise InputError(Fault("--runtime", f"expected a runtime: none is usual for {hardware.name}",
                           f"shipped runtimes: {', '.join(catalogue.names('runtime'))}"))
