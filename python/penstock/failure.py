"""How a command ends when it can not do its work: one sentence for the user and an exit code."""

FINDINGS = 1
USAGE = 2
UNREADABLE = 3


class Failure(Exception):
    """Ends the command.  The text names what, the value, what was expected and what to do."""

    def __init__(self, text: str, exit_code: int = FINDINGS) -> None:
        super().__init__(text)
        self.exit_code = exit_code
