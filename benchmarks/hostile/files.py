"""Files that somebody has damaged or made: mutated checkpoints, manifests and results.

A checkpoint is read by `Journal.load` and `read_manifest`, a result by `diagnose` and `compare`.
Whatever is in them, it is refused by name, or it is what was written, or (where the checksum was
forged too) it is a state that a run could have written. Nothing is unpickled, and nothing is
written elsewhere.
"""

import io
import json
import os
import pickle
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pymc_arm
from benchmarks.hostile.tally import Tally, has_a_sentence
from pymc_arm import ArmWarning, CheckpointError, Settings
from pymc_arm.running.chains import Task, run_chain
from pymc_arm.running.checkpoint import journal as journals
from pymc_arm.running.checkpoint.journal import Journal, Manifest, open_journal, read_manifest
from pymc_arm.testing import GaussianChain

__all__ = ["tally_checkpoints", "tally_results"]

PATH = GaussianChain([0.3, -1.0, 0.5])
END, STATE = "chain-00000-end.npz", "chain-00000-step-0000002.npz"
# What somebody may write where a number, a list or a name is expected.
ODD: tuple[Any, ...] = (
    None,
    "",
    "../../../etc/passwd",
    "\x00",
    -1,
    0,
    10**12,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    [],
    [[]],
    {},
    {"a": 1},
    True,
)


class Pickled:
    """Something that leaves a file behind when it is unpickled."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.marker,)


def tally_checkpoints(count: int, seed: int = 1) -> Tally:
    """Mutate the files of a checkpoint so many times, and read them."""
    tally = Tally("mutated checkpoint files")
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as outside:
        folder = Path(outside) / "run"
        marker = str(Path(outside) / "marker")
        journal, originals = _write_run(folder)
        mutations = [cut, flip, overwrite, splice, forge_header, forge_array, forge_archive]
        for number in range(count):
            name = (END, STATE, "manifest.json")[number % 3]
            original = originals[name]
            mutate = mutations[int(rng.integers(len(mutations)))]
            if name == "manifest.json" and mutate in (forge_array, forge_archive):
                mutate = forge_header
            changed = mutate(rng, original, originals, marker)
            for each in (END, STATE):
                (folder / each).unlink(missing_ok=True)
            (folder / name).write_bytes(changed)
            forged = mutate in (forge_header, forge_array, forge_archive)
            tally.add(*_read_back(journal, folder / name, original, changed, forged))
            (folder / "manifest.json").write_bytes(originals["manifest.json"])
            if sorted(os.listdir(outside)) != ["run"]:
                tally.lost.append(f"{mutate.__name__} of {name}: something was written outside")
                break
        _links_and_pipes(tally, journal, folder, originals)
    return tally


def _write_run(folder: Path) -> tuple[Journal, dict[str, bytes]]:
    """Return a journal with a state and the end of a chain, and its files."""
    manifest = Manifest({"draws": 30, "random_seed": {"state": {"bit_generator": "PCG64"}}})
    journal = open_journal(pymc_arm.Checkpoint(folder, 0.0), manifest, False)
    stop: Callable[[Any], bool] = lambda so_far: len(so_far.history) < 2  # noqa: E731
    run_chain(PATH, Task(30, Settings(), journal=journal), 0, np.random.default_rng(1), stop)
    state = (folder / STATE).read_bytes()
    run_chain(PATH, Task(30, Settings(), journal=journal), 0, np.random.default_rng(1))
    files = {name: (folder / name).read_bytes() for name in (END, "manifest.json")}
    return journal, files | {STATE: state}


def _read_back(
    journal: Journal, file: Path, original: bytes, changed: bytes, forged: bool
) -> tuple[str, str]:
    """Read a mutated file; return what came of it, and what was lost."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if file.name == "manifest.json":
                found: Any = read_manifest(file).parts
            else:
                found = journal.load(0, PATH)
        except CheckpointError as error:
            return "refused", "" if "manifest" in str(error) or "format" in str(error) else str(
                error
            )
        except Exception as error:
            return "crash", f"{file.name}: {type(error).__name__}: {error}"
    said = [str(w.message) for w in caught if issubclass(w.category, ArmWarning)]
    if file.name != "manifest.json" and found is None:
        named = any(file.name in message for message in said)
        return "refused", "" if named else f"{file.name} was left out without a word"
    if forged:
        return "accepted as forged", ""
    # What is not looked at may differ: dates, comments and gaps of an archive, spaces of JSON.
    file.write_bytes(original)
    kept = read_manifest(file).parts if file.name == "manifest.json" else journal.load(0, PATH)
    same = repr(kept) == repr(found)
    return "harmless", "" if same else f"{file.name}: other content was taken for the original"


def cut(rng: np.random.Generator, content: bytes, others: Any, marker: str) -> bytes:
    """Cut a file anywhere."""
    return content[: int(rng.integers(len(content)))]


def flip(rng: np.random.Generator, content: bytes, others: Any, marker: str) -> bytes:
    """Flip one to four bits."""
    changed = bytearray(content)
    for place in rng.integers(len(content), size=rng.integers(1, 5)):
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def overwrite(rng: np.random.Generator, content: bytes, others: Any, marker: str) -> bytes:
    """Overwrite a stretch with zeros or with noise."""
    start, length = int(rng.integers(len(content))), int(rng.integers(1, 600))
    noise = rng.bytes(length) if rng.random() < 0.5 else bytes(length)
    return content[:start] + noise + content[start + length :]


def splice(rng: np.random.Generator, content: bytes, others: Any, marker: str) -> bytes:
    """Join the beginning of a file with the end of another."""
    other = others[sorted(others)[int(rng.integers(len(others)))]]
    return content[: int(rng.integers(len(content)))] + other[int(rng.integers(len(other))) :]


def forge_header(rng: np.random.Generator, content: bytes, others: Any, marker: str) -> bytes:
    """Put something odd anywhere into the JSON, and make the checksum right again."""
    if content[:1] == b"{":
        whole = json.loads(content)
        if rng.random() < 0.1:
            return b"[" * 100_000
        _spoil(rng, whole if rng.random() < 0.3 else whole["parts"])
        if "parts" in whole and rng.random() < 0.8:
            whole["sha256"] = journals._digest_of_json(whole["parts"])
        return json.dumps(whole).encode()
    arrays = _arrays(content)
    header = json.loads(arrays["header"].tobytes())
    _spoil(rng, header)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    return _archive(arrays)


def forge_array(rng: np.random.Generator, content: bytes, others: Any, marker: str) -> bytes:
    """Change the values, the type or the shape of an array, or leave it out."""
    arrays = _arrays(content)
    names = [name for name in arrays if name != "header"]
    name = names[int(rng.integers(len(names)))]
    values = arrays[name]
    kind = int(rng.integers(8))
    if kind == 0:
        del arrays[name]
    elif kind == 1 and values.dtype.kind == "f" and values.size:
        arrays[name] = values.copy()
        arrays[name].flat[int(rng.integers(values.size))] = rng.choice([np.nan, np.inf])
    elif kind == 2:
        arrays[name] = values.astype(str(rng.choice(["float32", "int8", "complex128", "S3"])))
    elif kind == 3:
        arrays[name] = values[: len(values) // 2] if values.ndim else values
    elif kind == 4:
        arrays[name] = np.empty((0, *values.shape[1:]), values.dtype)
    elif kind == 5:
        arrays[name] = values[..., None]
    elif kind == 6:
        arrays[f"../../{name}"] = values
    else:
        arrays[name] = np.full(values.shape, -1, values.dtype)
    return _archive(arrays)


def forge_archive(rng: np.random.Generator, content: bytes, others: Any, marker: str) -> bytes:
    """Make an archive of pickles, of enormous shapes, of what grows, or of strange names."""
    kind = int(rng.integers(4))
    made = io.BytesIO()
    if kind == 0:
        evil = np.empty(1, dtype=object)
        evil[0] = Pickled(marker)
        np.savez(made, **dict.fromkeys(_arrays(content), evil), checksum=evil)
        return made.getvalue()
    if kind == 1:
        with zipfile.ZipFile(made, "w") as archive:
            for name in ("header", "checksum", "log_weights"):
                shape = str((10 ** int(rng.integers(9, 19)), 1))
                header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
                header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
                magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
                archive.writestr(f"{name}.npy", magic + header + bytes(64))
        return made.getvalue()
    if kind == 2:
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.npy", bytes(10_000_000))
        return made.getvalue()
    with zipfile.ZipFile(made, "w") as archive:
        for name in ("../marker", "/tmp/marker.npy", "header.npy", "checksum.npy"):
            archive.writestr(name, pickle.dumps(Pickled(marker)))
    return made.getvalue()


def _spoil(rng: np.random.Generator, tree: Any) -> None:
    """Replace something in a tree of JSON, or leave it out."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = keys[int(rng.integers(len(keys)))]
        deeper = isinstance(tree[key], dict | list) and tree[key] and rng.random() < 0.7
        if not deeper:
            break
        tree = tree[key]
    if rng.random() < 0.3:
        del tree[key]
    else:
        tree[key] = ODD[int(rng.integers(len(ODD)))]


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if name != "checksum"}


def _archive(arrays: dict[str, np.ndarray]) -> bytes:
    """Return an archive whose checksum is right."""
    checksum = np.frombuffer(journals._digest_of_arrays(arrays).encode(), dtype=np.uint8)
    content = io.BytesIO()
    np.savez(content, checksum=checksum, **arrays)
    return content.getvalue()


def _links_and_pipes(
    tally: Tally, journal: Journal, folder: Path, originals: dict[str, bytes]
) -> None:
    """Put links out of the directory, devices, pipes and folders where files should be."""
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(originals[END])

    def link(place: Path) -> None:
        place.symlink_to(outside / "file")

    makers: list[Callable[[Path], Any]] = [
        link,
        lambda place: place.symlink_to("/dev/zero"),
        os.mkfifo,
        os.mkdir,
    ]
    for make in makers:
        place = folder / END
        (folder / STATE).unlink(missing_ok=True)
        place.unlink(missing_ok=True)
        make(place)
        tally.add(*_read_back(journal, place, b"", b"", True))
        place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()
    # A run that writes replaces links by files; what they led to stays as it was.
    for name in (END, STATE, f".{END}.{os.getpid()}", f".{STATE}.{os.getpid()}"):
        (folder / name).unlink(missing_ok=True)
        link(folder / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_chain(PATH, Task(30, Settings(), journal=journal), 0, np.random.default_rng(1))
    untouched = (outside / "file").read_bytes() == originals[END]
    tally.add("written in its place", "" if untouched else "a run wrote through a link")


def tally_results(count: int, seed: int = 1) -> Tally:
    """Mutate the attributes and variables of a result so many times, and read it."""
    tally = Tally("mutated results")
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = pymc_arm.sample_path(PATH, 50, random_seed=1, progressbar=False)
        attributes = dict(result.attrs)
        names = sorted(attributes)
        for _ in range(count):
            changed = dict(attributes)
            for name in rng.choice(names, size=rng.integers(1, 4)):
                if rng.random() < 0.3:
                    changed.pop(name, None)
                else:
                    changed[name] = ODD[int(rng.integers(len(ODD)))]
            for group in (result, result["arm"]):
                group.attrs.clear()
                group.attrs.update(changed)
            for read in (pymc_arm.diagnose, _compare(attributes, result)):
                try:
                    read(result)
                    tally.add("read")
                except Exception as error:
                    lost = "" if has_a_sentence(error) else f"{type(error).__name__}: {error}"
                    differing = {
                        n: changed.get(n, "-")
                        for n in names
                        if changed.get(n, "-") is not attributes[n]
                    }
                    tally.add("crash" if lost else "refused", lost and f"{differing}: {lost}")
    return tally


def _compare(attributes: dict[str, Any], result: Any) -> Callable[[Any], Any]:
    other = type(result)()
    other.attrs.update(attributes)
    return lambda changed: pymc_arm.compare({"one": changed, "two": other})
