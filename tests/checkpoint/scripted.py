"""A schedule that says what it is told, right or wrong."""

from dataclasses import dataclass, field

from checkpoint.schedules import Schedule


@dataclass(frozen=True)
class Script(Schedule):
    """Whatever actions one likes."""

    first: tuple = field(repr=False)
    second: tuple = field(repr=False, default=())
    most: int = 2

    def forward(self, steps):
        return iter(self.first)

    def reverse(self, steps, saved):
        return iter(self.second)

    def limit(self, steps):
        return self.most
