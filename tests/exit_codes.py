"""Exit codes that a failed assertion shows together with what the process said."""

SHOWN = 200  # characters; pytest shortens the representation of an object to 240


class ExitCode(int):
    """Equal to its number. `text`: what the process printed; a message at its end says why it ended."""

    text: str

    def __new__(cls, code: int, text: str) -> "ExitCode":
        made = super().__new__(cls, code)
        made.text = text
        return made

    def __repr__(self) -> str:
        words = " ".join(self.text.split())
        return f"{int(self)} <{words if len(words) <= SHOWN else '...' + words[-SHOWN:]}>"
