"""Results that are kept: the newest ones, of so many bytes."""

import numpy as np

from checkpoint.schedules import Mixed, mixed, revolve
from checkpoint.support.kept import kept_within


def test_the_newest_are_kept_and_the_last_one_in_any_case():
    made = []

    @kept_within(300)
    def table(n):
        made.append(n)
        return np.zeros(n, np.uint8)

    for n, count in ((100, 1), (150, 2), (100, 2), (160, 3), (100, 3), (150, 4), (900, 5), (900, 5), (100, 6)):
        assert table(n).nbytes == n and len(made) == count, n
    assert made == [100, 150, 160, 150, 900, 100]


def test_tables_of_schedules_say_how_large_they_are():
    table = revolve.table_of_costs((1.0, 2.0, 1.0, 4.0), 3)
    assert table.nbytes == sum(splits.nbytes for of_slots in table.splits for splits in of_slots)
    assert mixed.choices_of(4096, 1).dtype == np.int16 and list(Mixed(1).forward(4096))[-1].stop == 4095
