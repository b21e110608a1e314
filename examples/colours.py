"""Say which colour space sees as people do, by the Jacobians of another package's formulas: MacAdam's ellipses.

    python examples/colours.py [--plot colours.png]

MacAdam (1942) measured how far a colour may move before people see it: an ellipse around each of 25 colours. In a perfect colour space
these are circles of one size. The Jacobian of a space by the chromaticities, taken through the formulas of colour-science as they are
(`dualad.adapt`), carries the ellipses over, and says which circles of the space are which ellipses here. Needs colour-science.
"""

import argparse

import colour
import numpy as np

from dualad import adapt, jvp

LUMINANCE, ENLARGED = 0.2, 10.0
WHITE = colour.CCS_ILLUMINANTS["CIE 1931 2 Degree Standard Observer"]["C"]
SPACES = {
    "CIE Lab": lambda xyY: colour.XYZ_to_Lab(colour.xyY_to_XYZ(xyY), WHITE),
    "CIE Luv": lambda xyY: colour.XYZ_to_Luv(colour.xyY_to_XYZ(xyY), WHITE),
    "Oklab": lambda xyY: colour.XYZ_to_Oklab(colour.xyY_to_XYZ(xyY)),
    "CAM16-UCS": lambda xyY: colour.XYZ_to_CAM16UCS(colour.xyY_to_XYZ(xyY)),
}


def measured():
    """Return the 25 colours (x, y, Y), and of each ellipse the matrix that makes it of the unit circle."""
    x, y, _, _, _, long, short, angle = colour.DATA_MACADAM_1942_ELLIPSES.T
    cos, sin = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    turn = np.array([[cos, -sin], [sin, cos]])
    return np.stack([x, y, np.full_like(x, LUMINANCE)], axis=-1), np.moveaxis(turn * (1e-3 * np.stack([long, short])), -1, 0)


def jacobians(space, colours):
    """Return the derivatives of a space's three coordinates by x and y: each colour depends on its own place alone."""
    with adapt(colour):
        return np.stack([jvp(space, (colours,), (np.broadcast_to(e, colours.shape),))[1] for e in np.eye(3)[:2]], axis=-1)


def radii(space):
    """Return the half axes of each measured ellipse in a colour space, the longer ones first."""
    colours, ellipses = measured()
    return np.linalg.svd(jacobians(space, colours) @ ellipses, compute_uv=False)


def stretch(axes):
    """Return how many times ellipses are as long as wide, on average."""
    return np.exp(np.mean(np.log(axes[:, 0] / axes[:, 1])))


def predicted(space):
    """Return the matrices of the ellipses that are circles in a space, all of the measured ones' mean radius."""
    slopes = jacobians(space, measured()[0])
    roots = np.linalg.cholesky(np.swapaxes(slopes, 1, 2) @ slopes)
    return np.exp(np.mean(np.log(radii(space)))) * np.swapaxes(np.linalg.inv(roots), 1, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    options = parser.parse_args()
    shown = {"x and y": np.linalg.svd(measured()[1], compute_uv=False)} | {name: radii(space) for name, space in SPACES.items()}
    for name, axes in shown.items():
        print(f"in {name:9} the ellipses are {stretch(axes):.2f} times as long as wide")
    if options.plot:
        from matplotlib.figure import Figure

        colours, ellipses = measured()
        shades = np.clip(colour.XYZ_to_sRGB(colour.xyY_to_XYZ(colours)), 0.0, 1.0)
        circle = np.array([np.cos(angles := np.linspace(0.0, 2.0 * np.pi, 100)), np.sin(angles)])
        horseshoe = colour.XYZ_to_xy(colour.MSDS_CMFS["CIE 1931 2 Degree Standard Observer"].values)
        figure = Figure(figsize=(8.4, 4.6), layout="constrained")
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes, name in zip(panels, ("CIE Lab", "CAM16-UCS"), strict=True):
            axes.fill(*horseshoe.T, fill=False, color="0.6", lw=0.8)
            for place, shade, seen, told in zip(colours[:, :2], shades, ellipses, predicted(SPACES[name]), strict=True):
                axes.fill(*(place[:, None] + ENLARGED * seen @ circle), color=shade)
                axes.plot(*(place[:, None] + ENLARGED * told @ circle), "k", lw=0.8)
            axes.set(title=f"seen (colours) and {name} (lines)", xlabel="x", aspect="equal")
        panels[0].set_ylabel("y")
        figure.savefig(options.plot, dpi=100)
        print(f"wrote {options.plot}")


if __name__ == "__main__":
    main()
