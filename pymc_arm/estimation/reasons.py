"""What a verdict is made of: reasons, each with advice."""

from dataclasses import dataclass

__all__ = ["Found", "Reason"]


@dataclass(frozen=True)
class Reason:
    """One thing that is not as it should be."""

    check: str
    message: str
    advice: str
    steps: tuple[int, ...] = ()
    variables: tuple[str, ...] = ()


# What a check returns: nothing, or a reason and whether the estimate is unfit for use.
Found = tuple[Reason, bool] | None
