"""POLLU, an air pollution model: 25 reactions of 20 species (Verwer, SIAM J. Sci. Comput. 15, 1994; no. 4 of the IVP test set)."""

from __future__ import annotations

import numpy as np

K = (
    0.35, 26.6, 12300.0, 8.6e-4, 8.2e-4, 15000.0, 1.3e-4, 24000.0, 16500.0, 9000.0, 0.022, 12000.0, 1.88, 16300.0, 4.8e6, 3.5e-4, 0.0175,
    1e8, 4.44e11, 1240.0, 2.1, 5.78, 0.0474, 1780.0, 3.12,
)  # fmt: skip
START = np.zeros(20)
START[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007


def pollution(y, np=np):
    """Return the rates of change of the concentrations `y`."""
    r1, r2, r3, r4, r5 = K[0] * y[0], K[1] * y[1] * y[3], K[2] * y[4] * y[1], K[3] * y[6], K[4] * y[6]
    r6, r7, r8, r9, r10 = K[5] * y[6] * y[5], K[6] * y[8], K[7] * y[8] * y[5], K[8] * y[10] * y[1], K[9] * y[10] * y[0]
    r11, r12, r13, r14, r15 = K[10] * y[12], K[11] * y[9] * y[1], K[12] * y[13], K[13] * y[0] * y[5], K[14] * y[2]
    r16, r17, r18, r19, r20 = K[15] * y[3], K[16] * y[3], K[17] * y[15], K[18] * y[15], K[19] * y[16] * y[5]
    r21, r22, r23, r24, r25 = K[20] * y[18], K[21] * y[18], K[22] * y[0] * y[3], K[23] * y[18] * y[0], K[24] * y[19]
    return np.stack([
        -r1 - r10 - r14 - r23 - r24 + r2 + r3 + r9 + r11 + r12 + r22 + r25,
        -r2 - r3 - r9 - r12 + r1 + r21,
        -r15 + r1 + r17 + r19 + r22,
        -r2 - r16 - r17 - r23 + r15,
        -r3 + 2.0 * r4 + r6 + r7 + r13 + r20,
        -r6 - r8 - r14 - r20 + r3 + 2.0 * r18,
        -r4 - r5 - r6 + r13,
        r4 + r5 + r6 + r7,
        -r7 - r8,
        -r12 + r7 + r9,
        -r9 - r10 + r8 + r11,
        r9,
        -r11 + r10,
        -r13 + r12,
        r14,
        -r18 - r19 + r16,
        -r20,
        r20,
        -r21 - r22 - r24 + r23 + r25,
        -r25 + r24,
    ])  # fmt: skip
