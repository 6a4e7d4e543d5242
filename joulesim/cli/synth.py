"""``joulesim synth``: a random-weight model of any shape and format."""

from __future__ import annotations

from joulesim.cli import output
from joulesim.errors import Fault, InputError, did_you_mean

_SIZES = ("width", "layers", "heads", "kv_heads", "ffn", "vocabulary", "head_dim", "experts", "experts_used")


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("file", help="where to write the .gguf")
    parser.add_argument("--shape", default="s150",
                        help="a named shape to start from, such as s13, s500 or deep-narrow (default: s150)")
    parser.add_argument("--weights", default="q4_0", help="format of every matrix (default: q4_0)")
    for name in _SIZES:
        parser.add_argument(f"--{name.replace('_', '-')}", default=None, metavar="N")
    parser.add_argument("--family", choices=("llama", "gemma3"), help="what stands around the matrices (default: llama)")
    parser.add_argument("--untied", action="store_true", help="an output matrix of its own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-f", "--force", action="store_true", help="replace an existing file")
    output.arguments(parser)


def run(options) -> int:
    """Write the file and say what is in it."""
    import os

    from joulesim.measure import synth
    from joulesim.specs.base import read_spec

    if options.shape not in synth.SHAPES:
        hint = did_you_mean(options.shape, synth.SHAPES) or f"there is {', '.join(synth.SHAPES)}"
        raise InputError(Fault("--shape", f"no shape {options.shape!r}", hint))
    if options.seed < 0:
        raise InputError(Fault("--seed", f"expected 0 or more, got {options.seed}", "any such number will do"))
    if not options.file or os.path.isdir(options.file):
        raise InputError(Fault("file", f"expected the name of a file, got {options.file!r}", "such as model.gguf"))
    if os.path.exists(options.file) and not options.force:
        raise InputError(Fault(options.file, "the file exists", "--force replaces it"))
    changed = {name: value for name in _SIZES if (value := getattr(options, name)) is not None}
    if options.family:
        changed["family"] = options.family
    if options.untied:
        changed["tied"] = False
    plain = synth.SHAPES[options.shape].model_dump(exclude={"sources"}) | changed
    shape = read_spec(synth.Shape, plain, "joulesim synth")
    path = synth.write(options.file, shape, options.weights, options.seed)
    facts = {"file": str(path), "parameters": shape.parameters, "weights": options.weights,
             "bytes": path.stat().st_size}
    if options.output == "json":
        print(output.to_json(facts))
    else:
        print(output.table([tuple(facts.values())], tuple(facts), options.output))
    return 0
