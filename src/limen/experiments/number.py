"""A number with the words that say what it is."""

from typing import Self


class Number(float):
    """A float that knows what it is called: `Number(0.53, "test loss after training, δ = 4")`.

    `words` name it for tables, the page and docs; `unit` stands behind the value where it has one ("steps", "samples").
    """

    words: str
    unit: str

    def __new__(cls, value: float, words: str, unit: str = "") -> Self:
        number = super().__new__(cls, value)
        number.words, number.unit = words, unit
        return number

    def __reduce__(self) -> tuple[type, tuple[float, str, str]]:
        return type(self), (float(self), self.words, self.unit)
