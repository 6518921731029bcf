"""Why a test ends."""


class CannotTest(Exception):
    """Nothing can be tested here."""


class Skipped(Exception):
    """A check cannot be done here, and the others can."""


class Failed(Exception):
    """A check failed."""


class Hung(Failed):
    """A rank did not answer in time."""
