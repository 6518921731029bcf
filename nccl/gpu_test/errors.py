"""Why a test ends."""


class CannotTest(Exception):
    """Nothing can be tested here."""


class Failed(Exception):
    """A check failed."""


class Hung(Failed):
    """A rank did not answer in time."""
