"""Checkpoints: the state of each chain on disk, so that a killed run goes on to the same bits.

A directory holds ``manifest.json``, which says what run it belongs to, and for each chain its last
two states and, once it is done, its end. States are arrays in NumPy's npz format with a header in
JSON; nothing is pickled, every file has a checksum and a format version, and each is written beside
its place and then moved there, so that whoever reads it finds all of it or the one before.
"""

import hashlib
import io
import json
import os
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from pymc_arm.algorithm.path import Path
from pymc_arm.errors import ArmWarning, CheckpointError
from pymc_arm.running.chains import Chain, Unfinished
from pymc_arm.running.checkpoint.encoding import (
    decode_chain,
    decode_unfinished,
    encode_chain,
    encode_unfinished,
)

__all__ = ["Checkpoint", "Journal", "Manifest", "open_journal", "read_manifest", "write_file"]

FORMAT = 4
# Writing may take this share of a run.
LARGEST_OVERHEAD = 0.01


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to write the states of a run.

    Parameters
    ----------
    directory
        Nothing is written outside of it. It is made if it is not there.
    seconds
        A chain's state is written after the first step that ends so long after the last time, and
        seldom enough for writing to take less than 1 % of the run; 0 writes after every step.

    Examples
    --------
    >>> import tempfile
    >>> import pymc_arm
    >>> from pymc_arm.testing import GaussianChain
    >>> path = GaussianChain([0.5, -1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     checkpoint = pymc_arm.Checkpoint(directory, seconds=1.0)
    ...     options = {"draws": 100, "random_seed": 1, "progressbar": False}
    ...     first = pymc_arm.sample_path(path, checkpoint=checkpoint, **options)
    ...     again = pymc_arm.sample_path(path, checkpoint=checkpoint, resume=True, **options)
    >>> first.attrs["log_marginal_likelihood"] == again.attrs["log_marginal_likelihood"]
    True
    """

    directory: str | os.PathLike[str]
    seconds: float = 5.0

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ValueError(f"seconds={self.seconds} of a checkpoint must be 0 or more.")

    def within(self, folder: str) -> "Checkpoint":
        """Return a checkpoint in a folder of this one, for one of several runs.

        Raises
        ------
        CheckpointError
            If the folder is a link, which may lead out of the directory.
        """
        own = FilePath(self.directory) / folder
        if own.is_symlink():
            raise CheckpointError(
                f"{folder!r} in checkpoint={os.fspath(self.directory)!r} is a link. Nothing is "
                "written through it: delete it, or choose another directory."
            )
        return replace(self, directory=own)


@dataclass(frozen=True)
class Manifest:
    """What a run is, by name: versions, settings, seed, and digests of model and data."""

    parts: Mapping[str, Any]

    def differences(self, other: "Manifest") -> list[str]:
        """Return what ``other`` has differently, in words."""
        found = []
        for name in sorted(set(self.parts) | set(other.parts)):
            mine, theirs = (m.parts.get(name, "absent") for m in (self, other))
            if mine != theirs:
                digests = name.startswith(("model", "data", "path"))
                found.append(name if digests else f"{name} ({mine!r} there, {theirs!r} here)")
        return found


def open_journal(checkpoint: Checkpoint, manifest: Manifest, resume: bool) -> "Journal":
    """Begin a journal, or find one of the same run.

    Raises
    ------
    CheckpointError
        If the directory can't be written, or has a checkpoint that is not to be resumed, or one of
        a run that differs: the message says in what.
    """
    directory = FilePath(checkpoint.directory)
    file = directory / "manifest.json"
    if not file.exists():
        parts = json.loads(json.dumps(manifest.parts))
        content = {"format": FORMAT, "parts": parts, "sha256": _digest_of_json(parts)}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_file(file, json.dumps(content, indent=1).encode())
        except OSError as error:
            raise CheckpointError(
                f"checkpoint={os.fspath(checkpoint.directory)!r} can't be written: {error}. Choose "
                "a directory that can be."
            ) from error
    else:
        if not resume:
            raise CheckpointError(
                f"checkpoint={os.fspath(checkpoint.directory)!r} already holds a run. Continue it "
                "with resume=True, or choose another directory."
            )
        differing = read_manifest(file).differences(manifest)
        if differing:
            raise CheckpointError(
                f"The checkpoint in {os.fspath(checkpoint.directory)!r} is of another run; these "
                f"differ: {', '.join(differing)}. Make them the same, or choose another directory."
            )
    return Journal(str(directory.resolve()), float(checkpoint.seconds))


def read_manifest(file: FilePath) -> Manifest:
    """Read and verify a manifest."""
    remedy = "Delete the directory, or choose another one."
    try:
        content = json.loads(_read_bytes(file))
        parts, version, checksum = content["parts"], content["format"], content["sha256"]
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise CheckpointError(f"{file.name} of the checkpoint is damaged. {remedy}") from error
    if version != FORMAT:
        raise CheckpointError(
            f"The checkpoint has format {version}; this version reads {FORMAT}. {remedy}"
        )
    if checksum != _digest_of_json(parts) or not isinstance(parts, dict):
        raise CheckpointError(f"{file.name} of the checkpoint is damaged. {remedy}")
    return Manifest(parts)


@dataclass(frozen=True)
class Journal:
    """The files of a run: picklable, so that workers anywhere can write their own chains."""

    directory: str
    seconds: float

    def load(self, number: int, path: Path) -> Chain | Unfinished | None:
        """Return the end of a chain, or else its latest state that can be read."""
        for file in [self._end(number), *reversed(self._states(number))]:
            if not os.path.lexists(file):
                continue
            decode = decode_chain if file == self._end(number) else decode_unfinished
            try:
                found: Chain | Unfinished = _decode(decode, path, file)
                return found
            except CheckpointError as error:
                warnings.warn(
                    f"{error} The state before it is used instead; the result is the same.",
                    ArmWarning,
                    stacklevel=2,
                )
        return None

    def writer(self, number: int) -> Callable[[Unfinished], None]:
        """Return a function that writes a chain's state when it is time.

        Where that fails (the disk is full) it warns once, and tries again when it is time again.
        """
        due = time.monotonic() + self.seconds
        failed = False

        def write(so_far: Unfinished) -> None:
            nonlocal due, failed
            started = time.monotonic()
            if started < due:
                return
            try:
                self.save(number, so_far)
            except OSError as error:
                if not failed:
                    _warn_of_failure(number, error)
                failed = True
            ended = time.monotonic()
            if self.seconds:
                due = ended + max(self.seconds, (ended - started) / LARGEST_OVERHEAD)

        return write

    def save(self, number: int, so_far: Unfinished) -> None:
        """Write a state, and delete all but the one before."""
        header, arrays = encode_unfinished(so_far)
        file = FilePath(self.directory) / f"chain-{number:05d}-step-{so_far.state.step:07d}.npz"
        write_file(file, _to_bytes(header, arrays))
        for old in self._states(number)[:-2]:
            old.unlink(missing_ok=True)

    def finish(self, number: int, chain: Chain) -> None:
        """Write the end of a chain, which makes its states superfluous.

        A chain that can't be written is as good as one that was: there is a warning.
        """
        try:
            write_file(self._end(number), _to_bytes(*encode_chain(chain)))
            for old in self._states(number):
                old.unlink(missing_ok=True)
        except OSError as error:
            _warn_of_failure(number, error)

    def _end(self, number: int) -> FilePath:
        return FilePath(self.directory) / f"chain-{number:05d}-end.npz"

    def _states(self, number: int) -> list[FilePath]:
        return sorted(FilePath(self.directory).glob(f"chain-{number:05d}-step-*.npz"))


def _to_bytes(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return an npz archive of arrays, with a header and a checksum of both."""
    text = json.dumps({"format": FORMAT, **header}).encode()
    everything: dict[str, Any] = {**arrays, "header": np.frombuffer(text, dtype=np.uint8)}
    checksum = np.frombuffer(_digest_of_arrays(everything).encode(), dtype=np.uint8)
    content = io.BytesIO()
    np.savez(content, checksum=checksum, **everything)
    return content.getvalue()


def _read(file: FilePath) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a file and verify all of it."""
    try:
        content = io.BytesIO(_read_bytes(file))
        with zipfile.ZipFile(content) as archive:
            # What is written is stored as it is: what would grow on being read is not ours.
            if any(entry.file_size > entry.compress_size for entry in archive.infolist()):
                raise ValueError("compressed")
        with np.load(content, allow_pickle=False) as arrays_of:
            arrays = {name: arrays_of[name] for name in arrays_of.files}
        checksum = arrays.pop("checksum").tobytes().decode()
        sound = checksum == _digest_of_arrays(arrays)
        header = json.loads(arrays.pop("header").tobytes())
        version = header["format"]
    except Exception as error:  # what a damaged archive raises is anybody's guess
        raise CheckpointError(f"{file.name} of the checkpoint is damaged.") from error
    if not sound:
        raise CheckpointError(f"{file.name} of the checkpoint is damaged.")
    if version != FORMAT:
        raise CheckpointError(f"{file.name} of the checkpoint has format {version}, not {FORMAT}.")
    return header, arrays


def _read_bytes(file: FilePath) -> bytes:
    """Return what is in a file, which must be one: no link, no pipe, no device."""
    if file.is_symlink() or not file.is_file():
        raise OSError(f"{file.name} is no file.")
    return file.read_bytes()


def _decode(decode: Callable[..., Any], path: Path, file: FilePath) -> Any:
    """Return the chain in a file, if it is one of this path."""
    header, arrays = _read(file)
    try:
        return decode(path, header, arrays)
    except Exception as error:  # a file that somebody made may lack anything
        raise CheckpointError(
            f"{file.name} of the checkpoint holds no chain of this run ({error})."
        ) from error


def _warn_of_failure(number: int, error: OSError) -> None:
    warnings.warn(
        f"Chain {number} can't be written to the checkpoint: {error}. The run goes on; what is not "
        "written can't be resumed.",
        ArmWarning,
        stacklevel=2,
    )


def write_file(file: FilePath, content: bytes) -> None:
    """Write a file beside its place, and move it there when all of it is on disk."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)  # what a killed process left, or a link out of the directory
    try:
        with open(beside, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, file)
    finally:
        beside.unlink(missing_ok=True)


def _digest_of_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _digest_of_json(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
