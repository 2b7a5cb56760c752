"""What a verdict is made of: reasons, each with advice."""

from dataclasses import dataclass

__all__ = ["Found", "Reason"]


@dataclass(frozen=True)
class Reason:
    """One reason for a verdict that is not ``"ok"``.

    Attributes
    ----------
    check
        The name of the check that failed, such as ``"spread"``.
    message, advice
        What was found, and what to do, as sentences.
    steps, variables
        The numbers of the steps, and the names of the variables, where it was found.
    """

    check: str
    message: str
    advice: str
    steps: tuple[int, ...] = ()
    variables: tuple[str, ...] = ()


# What a check returns: nothing, or a reason and whether the estimate is unfit for use.
Found = tuple[Reason, bool] | None
