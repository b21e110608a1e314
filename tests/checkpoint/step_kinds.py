"""A step of arrays in all kinds: as it returns, hands on and spoils them. They must not differ."""

import numpy as np

GRID = np.linspace(-1, 1, 35).reshape(5, 7)


def mix(k, x):
    """Depends on k, on every neighbour, and through the sum on the layout of x in its last bits."""
    return x + 0.05 * np.sin(np.roll(x, 1, axis=0) * (k % 3 + 1)) + 0.001 * np.sum(x)


def mix_pull(k, x, g):
    shifted = np.roll(x, 1, axis=0)
    wave = k % 3 + 1
    return g + np.roll(0.05 * wave * np.cos(shifted * wave) * g, -1, axis=0) + 0.001 * np.sum(g)


def fortran(k, x):
    return np.asfortranarray(mix(k, x))


def strided(k, x):
    padded = np.empty((5, 14))
    padded[:, ::2] = mix(k, x)
    return padded[:, ::2]


def flipped(k, x):
    return mix(k, x)[::-1][::-1] if k % 2 else mix(k, x[:, ::-1])[:, ::-1]


def read_only(k, x):
    y = mix(k, x)
    y.flags.writeable = False
    return y


def in_place(k, x):
    x[...] = mix(k, x)
    return x


def spoils_its_input(k, x):
    y = mix(k, x)
    x.fill(np.nan)
    return y


def one_buffer():
    """The same array is returned every time, and written into by the next step."""
    buffer = np.empty_like(GRID)

    def step(k, x):
        buffer[...] = mix(k, x)
        return buffer

    return step


STEPS = {
    "plain": lambda: mix,
    "fortran": lambda: fortran,
    "strided": lambda: strided,
    "flipped": lambda: flipped,
    "read-only": lambda: read_only,
    "in place": lambda: in_place,
    "spoils its input": lambda: spoils_its_input,
    "one buffer": one_buffer,
}


def spoiling_pull(k, x, g):
    assert x.flags.carray and g.flags.writeable
    x_own, g_own = x.copy(), g.copy()
    x.fill(np.nan)
    g.fill(np.nan)
    return mix_pull(k, x_own, g_own)
