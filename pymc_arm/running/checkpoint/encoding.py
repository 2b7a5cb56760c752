"""A chain as arrays and JSON, and back, to the last bit.

What can't be told from the file (of which types particles and positions are) the path tells.
"""

from collections.abc import Mapping
from dataclasses import astuple, fields, is_dataclass
from typing import Any

import numpy as np

from pymc_arm.algorithm.genealogy import Genealogy
from pymc_arm.algorithm.path import Path
from pymc_arm.algorithm.state import Info, Run, State
from pymc_arm.errors import CheckpointError
from pymc_arm.running.chains import Chain, Unfinished

__all__ = [
    "decode_chain",
    "decode_generator",
    "decode_unfinished",
    "encode_chain",
    "encode_generator",
    "encode_unfinished",
]

BIT_GENERATORS = {
    generator.__name__: generator
    for generator in (
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.MT19937,
        np.random.Philox,
        np.random.SFC64,
    )
}


def encode_generator(rng: np.random.Generator) -> dict[str, Any]:
    """Return a generator's state, and what its children will be, as JSON."""
    sequence: Any = rng.bit_generator.seed_seq
    return {
        "state": _plain(rng.bit_generator.state),
        "entropy": _plain(sequence.entropy),
        "spawn_key": _plain(sequence.spawn_key),
        "pool_size": sequence.pool_size,
        "children": sequence.n_children_spawned,
    }


def decode_generator(content: Mapping[str, Any]) -> np.random.Generator:
    """Return the generator of a state."""
    name = content["state"]["bit_generator"]
    if name not in BIT_GENERATORS:
        raise CheckpointError(f"A checkpoint names an unknown bit generator, {name!r}.")
    sequence = np.random.SeedSequence(
        content["entropy"],
        spawn_key=tuple(content["spawn_key"]),
        pool_size=content["pool_size"],
        n_children_spawned=content["children"],
    )
    bit_generator = BIT_GENERATORS[name](sequence)
    bit_generator.state = content["state"]
    return np.random.Generator(bit_generator)


def encode_unfinished(so_far: Unfinished) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a chain so far as a header and arrays."""
    header, arrays = _encode_run(so_far.state, so_far.history, so_far.positions)
    header |= {"rng": encode_generator(so_far.rng), "seconds": so_far.seconds}
    return header, arrays


def decode_unfinished(
    path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Unfinished:
    """Return the chain so far, as a path has it."""
    run = _decode_run(path, header, arrays)
    rng = decode_generator(header["rng"])
    return Unfinished(rng, run.state, run.history, run.positions, header["seconds"])


def encode_chain(chain: Chain) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a finished chain as a header and arrays."""
    header, arrays = _encode_run(chain.run.state, chain.run.history, chain.run.positions)
    header |= {"seconds": chain.seconds, "alive": chain.particles is not None}
    header["divergent"] = float(chain.divergent)
    header["draws"] = list(chain.draws)
    if chain.particles is not None:
        _flatten("final", chain.particles, arrays)
    arrays["final_founders"] = chain.founders
    for number, values in enumerate(chain.draws.values()):
        arrays[f"draws/{number}"] = np.asarray(values)
    return header, arrays


def decode_chain(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Chain:
    """Return a finished chain, as a path has it."""
    run = _decode_run(path, header, arrays)
    final = None
    if header["alive"]:
        template = _template(path)
        final = _rebuild("final", template, arrays)
        _check_particles("final", final, template, len(arrays["final_founders"]))
    draws = {name: arrays[f"draws/{number}"] for number, name in enumerate(header["draws"])}
    return Chain(
        run,
        final,
        draws,
        header["seconds"],
        arrays["final_founders"],
        divergent=float(header.get("divergent", np.nan)),
    )


def _encode_run(
    state: State, history: tuple[Info, ...], positions: tuple[Any, ...]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    arrays = {
        "log_weights": state.log_weights,
        "ancestors": state.ancestors,
        "founders": state.genealogy.founders,
    }
    _flatten("particles", state.particles, arrays)
    header = {
        "log_evidence": float(state.log_evidence),
        "genealogy": [float(state.genealogy.survival), float(state.genealogy.settled)],
        "step": int(state.step),
        "positions": [_encode_position(position) for position in positions],
        "fields": [field.name for field in fields(Info)],
        "history": [[_plain(value) for value in vars(info).values()] for info in history],
    }
    return header, arrays


def _decode_run(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Run:
    positions = tuple(_decode_position(path.start, value) for value in header["positions"])
    history = tuple(
        Info(**{n: _frozen(v) for n, v in zip(header["fields"], row, strict=True)})
        for row in header["history"]
    )
    template = _template(path)
    state = State(
        positions[-1],
        _rebuild("particles", template, arrays),
        arrays["log_weights"],
        header["log_evidence"],
        arrays["ancestors"],
        Genealogy(arrays["founders"], *header["genealogy"]),
        header["step"],
    )
    _check_state(path, state, template)
    if not len(history) + 1 == len(positions) == state.step + 1:
        raise ValueError(f"{len(positions)} positions and {len(history)} steps")
    return Run(state, history, positions)


def _check_state(path: Path, state: State, template: Any) -> None:
    """Refuse numbers that no run has written: NaN, and arrays that do not belong together."""
    count = path.count(state.particles)
    weights = state.log_weights
    expected = {
        "log_weights": (weights, "f"),
        "ancestors": (state.ancestors, "iu"),
        "founders": (state.genealogy.founders, "iu"),
    }
    for name, (values, kinds) in expected.items():
        if values.shape != (count,) or values.dtype.kind not in kinds:
            raise ValueError(f"{name} of shape {values.shape} and type {values.dtype}")
    if not (state.ancestors >= 0).all():
        raise ValueError("negative ancestors")
    if np.isnan(weights).any() or (weights == np.inf).any():
        raise ValueError("log_weights that are no numbers")
    if not state.log_evidence < np.inf:
        raise ValueError(f"log_evidence={state.log_evidence}")
    _check_particles("particles", state.particles, template, count)


def _check_particles(name: str, tree: Any, template: Any, count: int) -> None:
    """Refuse particles of other types than the path's own, or NaN where it has none."""
    if isinstance(template, dict | tuple):
        items = template.items() if isinstance(template, dict) else enumerate(template)
        for key, leaf in items:
            _check_particles(f"{name}/{key}", tree[key], leaf, count)
    elif template is not None:
        if tree.dtype != template.dtype or tree.ndim != template.ndim or len(tree) != count:
            raise ValueError(f"{name} of shape {tree.shape} and type {tree.dtype}")
        if tree.dtype.kind == "f" and np.isnan(tree).any() and not np.isnan(template).any():
            raise ValueError(f"NaN in {name}")


def _template(path: Path) -> Any:
    """Return particles of a path, for their structure."""
    return path.initialize(np.random.default_rng(0), 2)[0]


def _flatten(name: str, tree: Any, arrays: dict[str, np.ndarray]) -> None:
    """Add the arrays of a set of particles to a dict, by where they are in it."""
    if tree is None:
        return
    if isinstance(tree, np.ndarray) and tree.dtype != object:
        arrays[name] = tree
    elif isinstance(tree, dict | tuple):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, leaf in items:
            _flatten(f"{name}/{key}", leaf, arrays)
    else:
        raise TypeError(
            f"checkpoint: particles of type {type(tree).__name__} can't be written; they must be "
            "an array of numbers, or a tuple or dict of such."
        )


def _rebuild(name: str, template: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return particles of the structure of a template."""
    if template is None:
        return None
    if isinstance(template, dict):
        return {key: _rebuild(f"{name}/{key}", leaf, arrays) for key, leaf in template.items()}
    if isinstance(template, tuple):
        leaves = [_rebuild(f"{name}/{key}", leaf, arrays) for key, leaf in enumerate(template)]
        return type(template)(*leaves) if hasattr(template, "_fields") else tuple(leaves)
    return arrays[name]


def _encode_position(position: Any) -> Any:
    if is_dataclass(position) and not isinstance(position, type):
        return _plain(astuple(position))
    return _plain(position)


def _decode_position(start: Any, value: Any) -> Any:
    if is_dataclass(start) and not isinstance(start, type):
        return type(start)(*_frozen(value))
    return _frozen(value)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; floats survive to the last bit."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value
