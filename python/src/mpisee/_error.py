"""The exception of this package."""


class ProfileError(Exception):
    """A profile cannot be read, or a question about it cannot be answered.

    The text is one sentence: what was found, where, and what to do.
    """
