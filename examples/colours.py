"""Say which colour space sees as people do, by the Jacobians of another package's formulas: MacAdam's ellipses.

    python examples/colours.py [--plot colours.png]

MacAdam (1942) measured how far a colour may move before people see it: an ellipse around each of 25 colours, which a perfect space makes
circles of one size. Jacobians of the formulas of colour-science, as they are (`dualad.adapt`), carry the ellipses over, and circles back.
"""

import numpy as np
from shared import needed, options, picture

from dualad import adapt, jvp

colour = needed("colour", "colour-science")
OBSERVER = "CIE 1931 2 Degree Standard Observer"
SPACES = {
    "x and y": lambda xyY: xyY,
    "CIE Lab": lambda xyY: colour.XYZ_to_Lab(colour.xyY_to_XYZ(xyY), colour.CCS_ILLUMINANTS[OBSERVER]["C"]),
    "CIE Luv": lambda xyY: colour.XYZ_to_Luv(colour.xyY_to_XYZ(xyY), colour.CCS_ILLUMINANTS[OBSERVER]["C"]),
    "Oklab": lambda xyY: colour.XYZ_to_Oklab(colour.xyY_to_XYZ(xyY)),
    "CAM16-UCS": lambda xyY: colour.XYZ_to_CAM16UCS(colour.xyY_to_XYZ(xyY)),
}
X, Y, _, _, _, LONG, SHORT, ANGLE = colour.DATA_MACADAM_1942_ELLIPSES.T
COLOURS = np.stack([X, Y, np.full(25, 0.2)], axis=-1)  # x, y, and a luminance of 0.2
TURN = np.array([[np.cos(np.radians(ANGLE)), -np.sin(np.radians(ANGLE))], [np.sin(np.radians(ANGLE)), np.cos(np.radians(ANGLE))]])
ELLIPSES = np.moveaxis(TURN * (1e-3 * np.stack([LONG, SHORT])), -1, 0)  # 25 matrices, which make the ellipses of the unit circle


@adapt(colour)
def jacobians(space):
    """Return the derivatives of a space's three coordinates by x and y: each colour depends on its own place alone."""
    return np.stack([jvp(space, (COLOURS,), (np.broadcast_to(e, COLOURS.shape),))[1] for e in np.eye(3)[:2]], axis=-1)


def compared(space):
    """Return the half axes of the ellipses in a space, the longer first, and the ellipses that are circles there, of their mean radius."""
    slopes = jacobians(space)
    axes = np.linalg.svd(slopes @ ELLIPSES, compute_uv=False)
    roots = np.linalg.cholesky(np.swapaxes(slopes, 1, 2) @ slopes)
    return axes, np.exp(np.mean(np.log(axes))) * np.swapaxes(np.linalg.inv(roots), 1, 2)


def main():
    plot = options(__doc__).plot
    for name, space in SPACES.items():
        longer, shorter = compared(space)[0].T
        print(f"in {name:9} the ellipses are {np.exp(np.mean(np.log(longer / shorter))):.2f} times as long as wide")
    circle = 10.0 * np.array([np.cos(angles := np.linspace(0.0, 2.0 * np.pi, 100)), np.sin(angles)])  # ten times as large
    shades = np.clip(colour.XYZ_to_sRGB(colour.xyY_to_XYZ(COLOURS)), 0.0, 1.0)
    with picture(plot, columns=2, size=(8.4, 4.6), sharex=True, sharey=True) as panels:
        for axes, name in zip(panels, ("CIE Lab", "CAM16-UCS"), strict=True):
            axes.fill(*colour.XYZ_to_xy(colour.MSDS_CMFS[OBSERVER].values).T, fill=False, color="0.6", lw=0.8)
            for place, shade, seen, told in zip(COLOURS[:, :2], shades, ELLIPSES, compared(SPACES[name])[1], strict=True):
                axes.fill(*(place[:, None] + seen @ circle), color=shade)
                axes.plot(*(place[:, None] + told @ circle), "k", lw=0.8)
            axes.set(title=f"seen (colours) and {name} (lines)", xlabel="x", ylabel="y", aspect="equal")


if __name__ == "__main__":
    main()
