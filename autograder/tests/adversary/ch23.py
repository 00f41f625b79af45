# ruff: noqa: E501  # cases are code in strings, kept on their lines
"""Chapter 23: answers as learners write them, wrong and right (see answers.py)."""

IMPORTS = """
from attend_solutions.state_spaces import cut_after, expect_system, matrix_exponential
from numpy.polynomial.legendre import legvander
"""

DISCRETIZE = """
def discretize(a, b, delta, method="zoh"):
    {guard}
    n = len(b)
    if method == {which}:
        {bilinear}
    {zoh}
"""
STEP = {
    "guard": "expect_system(a, b)\n    if method not in ('zoh', 'bilinear'): raise ValueError(method)",
    "which": "'bilinear'",
    "bilinear": "inv = np.linalg.inv(np.eye(n) - delta / 2 * a); return inv @ (np.eye(n) + delta / 2 * a), delta * inv @ b",
    "zoh": "m = np.zeros((n + 1, n + 1)); m[:n, :n] = a; m[:n, n] = b; e = matrix_exponential(m * delta); return e[:n, :n], e[:n, n]",
}


def step(**other):
    return IMPORTS + DISCRETIZE.format(**STEP | other)


RECURRENT = """
def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    {start}
    ys = []
    for t in range({steps}):
        h = {move}
        ys.append({read})
    return {back}
"""
LOOP = {
    "start": "h = np.zeros(x.shape[:-1] + (len(c),)) if state is None else state",
    "steps": "x.shape[-1]",
    "move": "np.einsum('ij,...j->...i', a_bar, h) + x[..., t, None] * b_bar",
    "read": "(h * c).sum(-1)",
    "back": "np.stack(ys, -1), h",
}


def recurrent(**other):
    return IMPORTS + RECURRENT.format(**LOOP | other)


KERNEL = """
def ssm_kernel(a_bar, b_bar, c, length):
    {guard}
    out = np.zeros({size})
    v = {start}
    for j in range({steps}):
        out[j] = {read}
        v = {move}
    return {back}
"""
TAPS = {
    "guard": "expect_system(a_bar, b_bar, c)",
    "size": "length",
    "start": "b_bar.copy()",
    "steps": "length",
    "read": "c @ v",
    "move": "a_bar @ v",
    "back": "out",
}


def taps(**other):
    return IMPORTS + KERNEL.format(**TAPS | other)


CONVOLVE = """
def ssm_convolve(kernel, x):
    T = x.shape[-1]
    {guard}
    n = {n}
    f = {first} * {second}
    y = {undo}
    return {back}
"""
FFT = {
    "guard": "assert_same = kernel.shape[-1] == T\n    if not assert_same: raise ValueError('lengths')",
    "n": "2 * T",
    "first": "np.fft.rfft(kernel, n)",
    "second": "np.fft.rfft(x, n)",
    "undo": "np.fft.irfft(f, n)",
    "back": "y[..., :T]",
}


def convolve(**other):
    return CONVOLVE.format(**FFT | other)


BLOCKS = """
def convolve_in_blocks(kernel, x, block):
    if block < 1: raise ValueError('block')
    T, K = x.shape[-1], len(kernel)
    {before}
    y = np.zeros({room})
    for s in range(0, T, block):
        p = {part}
        n = {n}
        full = {full}
        {add}
    return {back}
"""
OVERLAP = {
    "before": "pass",
    "room": "x.shape[:-1] + (T + K + block,)",
    "part": "x[..., s:s + block]",
    "n": "p.shape[-1] + K - 1",
    "full": "np.fft.irfft(np.fft.rfft(p, n) * np.fft.rfft(kernel, n), n)",
    "add": "y[..., s:s + n] += full",
    "back": "y[..., :T]",
}


def blocks(**other):
    return BLOCKS.format(**OVERLAP | other)


LEGS = """
def hippo_legs(size):
    A, B = np.zeros((size, size)), np.zeros(size)
    for n in range(size):
        B[n] = {b}
        for k in range(size):
            if {below}: A[n, k] = {low}
            elif n == k: A[n, k] = {diagonal}
    return {back}
"""
HIPPO = {
    "b": "np.sqrt(2 * n + 1)",
    "below": "n > k",
    "low": "-np.sqrt((2 * n + 1) * (2 * k + 1))",
    "diagonal": "-(n + 1)",
    "back": "A, B",
}


def legs(**other):
    return LEGS.format(**HIPPO | other)


DRAW = """
def hippo_reconstruct(coefficients, places):
    N = coefficients.shape[-1]
    out = {start}
    for n in range({many}):
        P = {basis}
        out = out + coefficients[..., {which}, None] * {factor} * P
    return {back}
"""
SERIES = {
    "start": "0.0",
    "many": "N",
    "basis": "legvander({z}, N)[:, n]",
    "z": "2 * places - 1",
    "which": "n",
    "factor": "np.sqrt(2 * n + 1)",
    "back": "out",
}


def redraw(**other):
    given = SERIES | other
    given["basis"] = given["basis"].format(z=given["z"])
    return IMPORTS + DRAW.format(**given)


INIT = """
def s4d_init(pairs, kind="lin"):
    {guard}
    n = {n}
    N = {size}
    if kind == {which}:
        return {lin}
    return {inv}
"""
RATES = {
    "guard": "if kind not in ('lin', 'inv'): raise ValueError(kind)",
    "n": "np.arange(pairs)",
    "size": "2 * pairs",
    "which": "'lin'",
    "lin": "-0.5 + 1j * np.pi * n",
    "inv": "-0.5 + 1j * N / np.pi * (N / (2 * n + 1) - 1)",
}


def rates(**other):
    return INIT.format(**RATES | other)


S4D = """
def s4d_kernel(a, b, c, delta, length):
    d = {delta}
    abar = {abar}
    bbar = {bbar}
    powers = {powers}
    return {back}
"""
DIAGONAL = {
    "delta": "np.asarray(delta)[..., None]",
    "abar": "np.exp(d * a)",
    "bbar": "(abar - 1) / a * b",
    "powers": "abar[..., None] ** np.arange(length)",
    "back": "2 * np.real(((c * bbar)[..., None] * powers).sum(-2))",
}


def s4d(**other):
    return S4D.format(**DIAGONAL | other)


DPLR = """
def dplr_kernel(diagonal, p, b, c, delta, length):
    {cut}
    z = {roots}
    w = {w}
    table = 1 / ({d})
    q = {q}
    cb, cp = table @ (ct * b), table @ (ct * p)
    qb, qp = table @ (q * b), table @ (q * p)
    values = {values}
    return {back}
"""
CAUCHY = {
    "cut": "ct = cut_after(c, diagonal, p, delta, length)",
    "roots": "np.exp(-2j * np.pi * np.arange(length) / length)",
    "w": "delta / 2 * (1 + z)",
    "d": "(1 - z)[:, None] - np.outer(w, diagonal)",
    "q": "p.conj()",
    "values": "delta * (cb - w * cp * qb / (1 + w * qp))",
    "back": "np.fft.ifft(values).real",
}


def dplr(**other):
    return IMPORTS + DPLR.format(**CAUCHY | other)


def cases(name, wrong, right):
    """Cases of one exercise: what it is → code."""
    return [(name, "wrong", what, code) for what, code in wrong.items()] + [
        (name, "right", what, code) for what, code in right.items()
    ]


CASES = [
    *cases(
        "discretize",
        {
            "zoh by 1 + ΔA": step(zoh="return np.eye(n) + delta * a, delta * b"),
            "zoh through the inverse of A": step(
                zoh="e = matrix_exponential(delta * a); return e, np.linalg.inv(a) @ (e - np.eye(n)) @ b"
            ),
            "pseudo-inverse for a singular A": step(
                zoh="e = matrix_exponential(delta * a); return e, np.linalg.pinv(a) @ (e - np.eye(n)) @ b"
            ),
            "b̄ = Ā b": step(zoh="e = matrix_exponential(delta * a); return e, delta * e @ b"),
            "no guard: any method is zoh": step(guard="expect_system(a, b)"),
            "changes a in place": step(
                zoh="a *= delta; m = np.zeros((n + 1, n + 1)); m[:n, :n] = a; m[:n, n] = delta * b; e = matrix_exponential(m); return e[:n, :n], e[:n, n]"
            ),
            "integer buffer": step(
                zoh="m = np.zeros((n + 1, n + 1), dtype=a.dtype); m[:n, :n] = a; m[:n, n] = b; e = matrix_exponential(m * delta); return e[:n, :n], e[:n, n]"
            ),
            "backward Euler for bilinear": step(
                bilinear="inv = np.linalg.inv(np.eye(n) - delta * a); return inv, delta * inv @ b"
            ),
            "inverse on the wrong side of b only": step(
                bilinear="inv = np.linalg.inv(np.eye(n) - delta / 2 * a); return inv @ (np.eye(n) + delta / 2 * a), delta * b @ inv"
            ),
            "results exchanged": step(
                zoh="m = np.zeros((n + 1, n + 1)); m[:n, :n] = a; m[:n, n] = b; e = matrix_exponential(m * delta); return e[:n, n], e[:n, :n]"
            ),
            "b̄ as a column": step(
                zoh="m = np.zeros((n + 1, n + 1)); m[:n, :n] = a; m[:n, n] = b; e = matrix_exponential(m * delta); return e[:n, :n], e[:n, n:]"
            ),
        },
        {
            "as it is": step(),
            "np.block": step(
                zoh="m = np.block([[a, b[:, None]], [np.zeros((1, n + 1))]]); e = matrix_exponential(delta * m); return e[:-1, :-1], e[:-1, -1]"
            ),
            "series of the integral": step(
                zoh="total, term = np.zeros((n, n)), np.eye(n) * delta\n    for k in range(2, 60):\n        total = total + term\n        term = term @ a * delta / k\n    return matrix_exponential(delta * a), total @ b"
            ),
            "bilinear solved at once": step(
                bilinear="both = np.linalg.solve(np.eye(n) - delta * a / 2, np.column_stack([np.eye(n) + delta * a / 2, delta * b])); return both[:, :n], both[:, n]"
            ),
        },
    ),
    *cases(
        "ssm_recurrent",
        {
            "a_bar @ h for one state only": recurrent(
                move="(a_bar @ h if h.ndim == 1 else h @ a_bar) + x[..., t, None] * b_bar"
            ),
            "reads before it writes": recurrent(
                move="h", read="(h * c).sum(-1)); h = (h @ a_bar.T + x[..., t, None] * b_bar"
            ),
            "empty state always": recurrent(start="h = np.zeros(x.shape[:-1] + (len(c),))"),
            "`if not state`": recurrent(
                start="h = state if np.any(state) else np.ones(x.shape[:-1] + (len(c),))"
            ),
            "writes into the given state": recurrent(
                move="np.add(h @ a_bar.T, x[..., t, None] * b_bar, out=h if h.dtype == float else None)",
            ),
            "integer state": recurrent(
                start="h = np.zeros(x.shape[:-1] + (len(c),), dtype=x.dtype) if state is None else state\n    h = h.copy()",
                move="np.asarray(h @ a_bar.T + x[..., t, None] * b_bar, dtype=h.dtype)",
            ),
            "no leading axes": recurrent(
                start="h = np.zeros(len(c)) if state is None else state",
                move="a_bar @ h + b_bar * x[t]",
                steps="len(x)",
            ),
            "time along the first axis": recurrent(back="np.stack(ys, 0), h"),
            "last token left out": recurrent(steps="max(1, x.shape[-1] - 1)"),
            "all states returned": recurrent(
                start="h = np.zeros(x.shape[:-1] + (len(c),)) if state is None else state; hs = []",
                read="(h * c).sum(-1)); hs.append(h",
                back="np.stack(ys, -1), np.stack(hs, -2)",
            ),
            "output divided by N": recurrent(read="(h * c).mean(-1)"),
        },
        {
            "as it is": recurrent(),
            "matmul of columns": recurrent(
                move="(a_bar @ h[..., None])[..., 0] + np.multiply.outer(x[..., t], b_bar)",
                read="h.dot(c)",
            ),
            "through the kernel": IMPORTS
            + """
def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    x = np.asarray(x, float)
    state = np.zeros(x.shape[:-1] + (len(c),)) if state is None else np.array(state, float)
    outputs = np.zeros(x.shape)
    for t, now in enumerate(np.moveaxis(x, -1, 0)):
        state = np.matmul(state, np.transpose(a_bar)) + now[..., np.newaxis] * b_bar
        outputs[..., t] = state @ c
    return outputs, state
""",
        },
    ),
    *cases(
        "ssm_kernel",
        {
            "one late": taps(start="a_bar @ b_bar"),
            "row times matrix": taps(move="v @ a_bar"),
            "element powers": taps(read="c @ (a_bar ** j @ b_bar)"),
            "a zero first": taps(size="length", read="c @ v if j else 0.0"),
            "divided by the first": taps(back="out / abs(out[0])"),
            "integer out": taps(size="length, dtype=a_bar.dtype"),
            "writes into b_bar": taps(start="b_bar", move="np.matmul(a_bar, v.copy(), out=v)"),
            "eigenvalues only": taps(move="np.linalg.eigvals(a_bar).real * v"),
            "as a column": taps(back="out[:, None]"),
            "absolute values": taps(back="abs(out)"),
            "no guard": taps(
                guard="pass", read="(c[: len(v)] * v[: len(c)]).sum()", move="a_bar @ v"
            ),
        },
        {
            "as it is": taps(),
            "eigendecomposition": IMPORTS
            + """
def ssm_kernel(a_bar, b_bar, c, length):
    expect_system(a_bar, b_bar, c)
    values, v = np.linalg.eig(a_bar)
    if np.linalg.cond(v) > 1e4:
        return np.array([c @ np.linalg.matrix_power(a_bar, j) @ b_bar for j in range(length)], float)
    weights = (c @ v) * np.linalg.solve(v, b_bar.astype(complex))
    return (weights * values ** np.arange(length)[:, None]).sum(1).real
""",
            "recurrence on an impulse": IMPORTS
            + """
def ssm_kernel(a_bar, b_bar, c, length):
    impulse = np.zeros(length)
    impulse[0] = 1
    return ssm_recurrent(a_bar, b_bar, c, impulse)[0]
""",
        },
    ),
    *cases(
        "ssm_convolve",
        {
            "wraps": convolve(n="T"),
            "padded by one": convolve(n="T + 1"),
            "2T − 2": convolve(n="max(1, 2 * T - 2)"),
            "the text's conjugate": convolve(second="np.fft.rfft(x, n).conj()"),
            "irfft without a length": convolve(n="2 * T - 1", undo="np.fft.irfft(f)"),
            "no absolute phase": convolve(first="abs(np.fft.rfft(kernel, n))"),
            "last T": convolve(back="y[..., -T:]"),
            "fft of all axes": convolve(
                undo="np.fft.irfft(np.fft.rfft(kernel, n) * np.fft.rfft(x, n, axis=0 if x.ndim == 2 and x.shape[0] == T else -1), n)"
            ),
            "scaled by n": convolve(back="y[..., :T] * n"),
            "any length": convolve(guard="pass"),
            "Toeplitz": """
def ssm_convolve(kernel, x):
    T = x.shape[-1]
    if kernel.shape[-1] != T: raise ValueError('lengths')
    i = np.arange(T)
    late = i[:, None] - i
    return np.einsum('...ts,...s->...t', np.where(late >= 0, kernel[..., late], 0), x)
""",
            "shift and add": """
def ssm_convolve(kernel, x):
    T = x.shape[-1]
    if kernel.shape[-1] != T: raise ValueError('lengths')
    y = np.zeros(np.broadcast_shapes(kernel.shape, x.shape))
    for j in range(T):
        y[..., j:] += kernel[..., j, None] * x[..., : T - j]
    return y
""",
        },
        {
            "as it is": convolve(),
            "2T − 1": convolve(n="2 * T - 1"),
            "complex": convolve(
                first="np.fft.fft(kernel, n)", second="np.fft.fft(x, n)", undo="np.fft.ifft(f).real"
            ),
            "np.pad": """
def ssm_convolve(kernel, x):
    T = x.shape[-1]
    if kernel.shape[-1] != T: raise ValueError('lengths')
    pad = lambda v: np.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, T)])
    return np.fft.irfft(np.fft.rfft(pad(kernel)) * np.fft.rfft(pad(x)), 2 * T)[..., :T]
""",
        },
    ),
    *cases(
        "convolve_in_blocks",
        {
            "broken as given": blocks(n="max(p.shape[-1], K)"),
            "length of the kernel": blocks(
                n="K", full="np.fft.irfft(np.fft.rfft(p, n) * np.fft.rfft(kernel, n), n)"
            ),
            "L + K − 2": blocks(n="max(1, p.shape[-1] + K - 2)"),
            "irfft without n": blocks(
                full="np.fft.irfft(np.fft.rfft(p, n) * np.fft.rfft(kernel, n))",
                add="y[..., s:s + full.shape[-1]] += full",
            ),
            "tails thrown away": blocks(add="y[..., s:s + p.shape[-1]] += full[..., :p.shape[-1]]"),
            "2 block": blocks(n="2 * block"),
            "kernel cut to a block": blocks(before="kernel = kernel[:block]; K = len(kernel)"),
            "integer y": blocks(
                room="x.shape[:-1] + (T + K + block,), x.dtype",
                full="np.rint(np.fft.irfft(np.fft.rfft(p, n) * np.fft.rfft(kernel, n), n)).astype(x.dtype) if x.dtype.kind == 'i' else np.fft.irfft(np.fft.rfft(p, n) * np.fft.rfft(kernel, n), n)",
            ),
            "answer too long": blocks(back="y[..., :T + K - 1]"),
            "no error for 0": blocks().replace(
                "if block < 1: raise ValueError('block')", "block = max(block, 1)"
            ),
            "one axis only": blocks(part="x[s:s + block]", room="T + K + block"),
        },
        {
            "as it is": blocks(),
            "power of two": blocks(
                n="1 << (block + K).bit_length()", room="x.shape[:-1] + (T + 4 * (block + K),)"
            ),
            "direct": """
def convolve_in_blocks(kernel, x, block):
    if block < 1: raise ValueError
    return np.apply_along_axis(lambda row: np.convolve(row, kernel)[: x.shape[-1]], -1, x) * 1.0
""",
        },
    ),
    *cases(
        "hippo_legs",
        {
            "signs of HiPPO's paper": legs(
                low="np.sqrt((2 * n + 1) * (2 * k + 1))", diagonal="n + 1"
            ),
            "upper": legs(below="n < k"),
            "no root": legs(low="-(2 * n + 1) * (2 * k + 1)"),
            "root of one only": legs(low="-np.sqrt(2 * n + 1)"),
            "diagonal 2n + 1": legs(diagonal="-(2 * n + 1)"),
            "diagonal n": legs(diagonal="-n"),
            "b without root": legs(b="2 * n + 1"),
            "from 1": legs(
                b="np.sqrt(2 * n + 3)",
                low="-np.sqrt((2 * n + 3) * (2 * k + 3))",
                diagonal="-(n + 2)",
            ),
            "exchanged": legs(back="B, A"),
            "b as a column": legs(back="A, B[:, None]"),
            "LegT's signs": legs(low="-np.sqrt((2 * n + 1) * (2 * k + 1)) * (-1) ** (n - k)"),
            "half": legs(back="A / 2, B"),
        },
        {
            "loops": legs(),
            "dense, masked": """
def hippo_legs(size):
    b = np.sqrt(1.0 + 2 * np.arange(size))
    a = -b[:, None] * b[None]
    a[np.triu_indices(size)] = 0
    a[np.diag_indices(size)] = -1.0 - np.arange(size)
    return a, b
""",
            "lists": """
def hippo_legs(size):
    root = [math.sqrt(2 * n + 1) for n in range(size)]
    rows = [[-root[n] * root[k] if n > k else -(n + 1.0) if n == k else 0.0 for k in range(size)] for n in range(size)]
    return np.array(rows), np.array(root)
""",
        },
    ),
    *cases(
        "hippo_reconstruct",
        {
            "no root": redraw(factor="1"),
            "2n + 1": redraw(factor="(2 * n + 1)"),
            "z = u": redraw(z="places"),
            "z = 1 − 2u": redraw(z="1 - 2 * places"),
            "one off": redraw(which="N - 1 - n"),
            "without the last": redraw(many="max(1, N - 1)"),
            "without the first": redraw(
                start="0.0 * coefficients[..., :1] * places",
                many="N",
                factor="np.sqrt(2 * n + 1) * (n > 0)",
            ),
            "powers": redraw(basis="({z}) ** n"),
            "divided by N": redraw(back="out / N"),
            "one curve only": redraw(which="n").replace(
                "coefficients[..., n, None]", "coefficients[n]"
            ),
            "clipped to 1": redraw(back="np.clip(out, -1, 1)"),
            "changes places": redraw(
                start="0.0; places += 0.25 if places.dtype.kind == 'f' else 1"
            ),
        },
        {
            "as it is": redraw(),
            "recurrence": IMPORTS
            + """
def hippo_reconstruct(coefficients, places):
    z = 2.0 * places - 1.0
    rows = [np.ones_like(z), z]
    for n in range(1, coefficients.shape[-1]):
        rows.append(((2 * n + 1) * z * rows[n] - n * rows[n - 1]) / (n + 1))
    basis = np.stack(rows[: coefficients.shape[-1]]) * np.sqrt(2 * np.arange(coefficients.shape[-1]) + 1)[:, None]
    return np.einsum('...n,nt->...t', coefficients, basis)
""",
            "Rodrigues through Polynomial": """
def hippo_reconstruct(coefficients, places):
    N = coefficients.shape[-1]
    total = np.zeros(coefficients.shape[:-1] + places.shape)
    for n in range(N):
        p = np.polynomial.legendre.Legendre.basis(n, domain=[0, 1])
        total = total + coefficients[..., n:n + 1] * math.sqrt(2 * n + 1) * p(np.asarray(places, float))
    return total
""",
        },
    ),
    *cases(
        "s4d_kernel",
        {
            "not twice": s4d(back="np.real(((c * bbar)[..., None] * powers).sum(-2))"),
            "complex result": s4d(back="2 * ((c * bbar)[..., None] * powers).sum(-2)"),
            "absolute": s4d(back="2 * abs(((c * bbar)[..., None] * powers).sum(-2))"),
            "b̄ = b": s4d(bbar="b"),
            "b̄ = Δ b": s4d(bbar="d * b"),
            "conjugate of c": s4d(
                back="2 * np.real(((c.conj() * bbar)[..., None] * powers).sum(-2))"
            ),
            "one late": s4d(powers="abar[..., None] ** (1 + np.arange(length))"),
            "Δ for the first channel": s4d(delta="np.asarray(delta).flat[0]"),
            "Ā = 1 + Δ a": s4d(abar="1 + d * a"),
            "products of real parts": s4d(
                back="2 * ((c * bbar).real[..., None] * powers.real).sum(-2)"
            ),
            "sum over time": s4d(back="2 * np.real(((c * bbar)[..., None] * powers).sum(-1))"),
            "changes a": s4d(
                delta="np.asarray(delta)[..., None]\n    a *= 1.5; a /= 1.5; a += 0.125"
            ),
        },
        {
            "as it is": s4d(),
            "expm1 and einsum": s4d(
                bbar="np.expm1(d * a) / a * b",
                powers="np.exp(np.multiply.outer(d * a, np.arange(length)))",
                back="2 * np.einsum('...p,...pt->...t', c * bbar, powers).real",
            ),
            "with the twins": s4d(
                back="(((c * bbar)[..., None] * powers).sum(-2) + ((c * bbar).conj()[..., None] * powers.conj()).sum(-2)).real"
            ),
        },
    ),
    *cases(
        "s4d_init",
        {
            "+1/2": rates(
                lin="0.5 + 1j * np.pi * n", inv="0.5 + 1j * N / np.pi * (N / (2 * n + 1) - 1)"
            ),
            "−1": rates(
                lin="-1 + 1j * np.pi * n", inv="-1 + 1j * N / np.pi * (N / (2 * n + 1) - 1)"
            ),
            "2πn": rates(lin="-0.5 + 2j * np.pi * n"),
            "n from 1": rates(n="np.arange(1, pairs + 1)"),
            "N = P": rates(size="pairs"),
            "conjugates as well": rates(
                lin="np.concatenate([-0.5 + 1j * np.pi * n, -0.5 - 1j * np.pi * n])"
            ),
            "imaginary parts only": rates(lin="np.pi * n", inv="N / np.pi * (N / (2 * n + 1) - 1)"),
            "no −1": rates(inv="-0.5 + 1j * N / np.pi * (N / (2 * n + 1))"),
            "kind ignored": rates(inv="-0.5 + 1j * np.pi * n"),
            "any other kind is inv": rates(guard="pass"),
            "−1/2 on the first only": rates(lin="-0.5 * (n == 0) + 1j * np.pi * n"),
        },
        {
            "as it is": rates(),
            "np.exp": rates(
                lin="np.pi * n * 1j - 1 / 2",
                inv="np.array([complex(-0.5, N / np.pi * (N / (2 * k + 1) - 1)) for k in range(pairs)])",
            ),
            "ready-made array": rates(
                lin="np.full(pairs, -0.5) + np.linspace(0, np.pi * (pairs - 1), pairs) * 1j"
            ),
        },
    ),
    *cases(
        "dplr_kernel",
        {
            "no correction": dplr(values="delta * cb"),
            "plus": dplr(values="delta * (cb + w * cp * qb / (1 + w * qp))"),
            "1 − w": dplr(values="delta * (cb - w * cp * qb / (1 - w * qp))"),
            "p in the place of p*": dplr(q="p"),
            "no cut": dplr(cut="ct = c"),
            "roots turning the other way": dplr(
                roots="np.exp(2j * np.pi * np.arange(length) / length)"
            ),
            "half of the roots": dplr(roots="np.exp(-1j * np.pi * np.arange(length) / length)"),
            "real parts first": dplr(back="np.fft.ifft(values.real).real"),
            "complex": dplr(back="np.fft.ifft(values)"),
            "irfft of all": dplr(back="np.fft.irfft(values, length)[::-1]"),
            "w = Δ (1 + z)": dplr(w="delta * (1 + z)"),
            "without Δ": dplr(values="cb - w * cp * qb / (1 + w * qp)"),
            "loop over roots": dplr(back="np.fft.ifft(np.array([v for v in values])).real"),
        },
        {
            "as it is": dplr(),
            "S4's division by 1 + z": dplr(
                values="delta * (cb - w * cp * qb * (1 / (1 + w * qp)))"
            ),
            "irfft of the first half": dplr(back="np.fft.irfft(values[: length // 2 + 1], length)"),
            "by hand DFT": dplr(
                back="(values @ np.exp(2j * np.pi * np.outer(np.arange(length), np.arange(length)) / length) / length).real"
            ),
        },
    ),
]


GIVEN = """
from numpy.polynomial.legendre import legvander
from attend_solutions.state_spaces import cut_after, expect_system, legs_dplr, matrix_exponential
from attend_solutions.types import Array, Complex
"""
FIRST_LINES = {
    "discretize": """def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(f"expected the method 'zoh' or 'bilinear'; got {method!r}")
""",
    "ssm_recurrent": """def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
""",
    "hippo_legs": """def hippo_legs(size):
    n = np.arange(size)
""",
    "hippo_reconstruct": """def hippo_reconstruct(coefficients, places):
""",
    "ssm_kernel": """def ssm_kernel(a_bar, b_bar, c, length):
    expect_system(a_bar, b_bar, c)
""",
    "ssm_convolve": """def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError(f"expected {length} taps, one a token; got {kernel.shape[-1]}")
""",
    "convolve_in_blocks": """def convolve_in_blocks(kernel, x, block):
    if block < 1:
        raise ValueError(f"a block needs at least 1 token; got {block}")
""",
    "s4d_kernel": """def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]  # (..., 1)
""",
    "s4d_init": """def s4d_init(pairs, kind="lin"):
    if kind not in ("lin", "inv"):
        raise ValueError(f"expected the kind 'lin' or 'inv'; got {kind!r}")
    n, size = np.arange(pairs), 2 * pairs
""",
    "dplr_kernel": """def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = cut_after(c, diagonal, p, delta, length)
    roots = np.exp(-2j * np.pi * np.arange(length) / length)  # as np.fft orders them
""",
}
MORE: list[tuple[str, str, str, str]] = []


def add(name, kind, what, body, head=None):
    MORE.append(
        (
            name,
            kind,
            what,
            GIVEN + (FIRST_LINES[name] if head is None else head) + body.strip("\n") + "\n",
        )
    )


# ---------------------------------------------------------------- 23.1
def step_by(zoh, bil=None):
    return zoh.strip("\n") + "\n" + (BIL if bil is None else bil).strip("\n")


BIL = """
    left = np.eye(len(a)) - delta / 2 * a
    return np.linalg.solve(left, np.eye(len(a)) + delta / 2 * a), np.linalg.solve(left, delta * b)
"""
ZOH = """
    if method == "zoh":
        k = len(a)
        m = np.zeros((k + 1, k + 1))
        m[:k, :k], m[:k, k] = delta * a, delta * b
        e = matrix_exponential(m)
        return e[:k, :k], e[:k, k]
"""
N = "discretize"
add(
    N,
    "wrong",
    "bilinear scales A in place (a float64 A changes)",
    step_by(
        ZOH,
        """
    half = np.asarray(a, dtype=float)
    half *= delta / 2
    left = np.eye(len(a)) - half
    return np.linalg.solve(left, np.eye(len(a)) + half), np.linalg.solve(left, delta * b)
""",
    ),
)
add(
    N,
    "wrong",
    "zoh scales b in place (a float64 b changes)",
    step_by("""
    if method == "zoh":
        k = len(a)
        b = np.asarray(b, dtype=np.float64)
        b *= delta
        m = np.block([[delta * a, b[:, None]], [np.zeros((1, k + 1))]])
        e = matrix_exponential(m)
        return e[:k, :k], e[:k, k]
"""),
)
add(
    N,
    "wrong",
    "the big matrix has A's type, so that integers cut ΔA and Δb",
    step_by("""
    if method == "zoh":
        k = len(a)
        m = np.zeros((k + 1, k + 1), dtype=a.dtype)
        m[:k, :k], m[:k, k] = delta * a, delta * b
        e = matrix_exponential(m.astype(float))
        return e[:k, :k], e[:k, k]
"""),
)
add(
    N,
    "wrong",
    "zoh's b is Δ b, as Euler's",
    step_by("""
    if method == "zoh":
        return matrix_exponential(delta * a), delta * b
"""),
)
add(
    N,
    "wrong",
    "exponential number by number",
    step_by("""
    if method == "zoh":
        k = len(a)
        m = np.zeros((k + 1, k + 1))
        m[:k, :k], m[:k, k] = delta * a, delta * b
        e = np.exp(m)
        return e[:k, :k], e[:k, k]
"""),
)
add(
    N,
    "wrong",
    "bilinear with the two brackets exchanged",
    step_by(
        ZOH,
        """
    left = np.eye(len(a)) + delta / 2 * a
    return np.linalg.solve(left, np.eye(len(a)) - delta / 2 * a), np.linalg.solve(left, delta * b)
""",
    ),
)
add(
    N,
    "wrong",
    "bilinear's b without Δ",
    step_by(
        ZOH,
        """
    left = np.eye(len(a)) - delta / 2 * a
    return np.linalg.solve(left, np.eye(len(a)) + delta / 2 * a), np.linalg.solve(left, b)
""",
    ),
)
add(
    N,
    "wrong",
    "Δ only on A in the big matrix, b as it is",
    step_by("""
    if method == "zoh":
        k = len(a)
        m = np.zeros((k + 1, k + 1))
        m[:k, :k], m[:k, k] = delta * a, b
        e = matrix_exponential(m)
        return e[:k, :k], e[:k, k]
"""),
)
add(
    N,
    "wrong",
    "x put below: the big matrix transposed, b read from the last row",
    step_by("""
    if method == "zoh":
        k = len(a)
        m = np.zeros((k + 1, k + 1))
        m[:k, :k], m[k, :k] = delta * a, delta * b
        e = matrix_exponential(m)
        return e[:k, :k], e[k, :k]
"""),
)
add(
    N,
    "wrong",  # twelve squarings are too few from |ΔA| of some 10,000 on
    "phi_1 by its series, halved and doubled; bilinear by an explicit inverse",
    """
    k = len(a)
    one, a, b = np.eye(k), np.array(a, float), np.array(b, float)
    if method == "bilinear":
        inv = np.linalg.inv(one - a * delta / 2)
        return inv @ (one + a * delta / 2), inv @ b * delta
    small = delta * a / 2**12
    term, phi = one, np.zeros((k, k))
    for j in range(1, 15):
        phi = phi + term / j
        term = term @ small / j
    # phi = sum small^(j-1)/j! ; e^small = 1 + small phi
    total = np.zeros((k, k))
    power, fact = one, 1.0
    for j in range(15):
        fact *= j + 1
        total = total + power / fact
        power = power @ small
    step, push = one + small @ total, total @ b * (delta / 2**12)
    for _ in range(12):
        push = step @ push + push
        step = step @ step
    return step, push
""",
)
add(
    N,
    "right",
    "np.block, and both bilinear parts in one solve",
    """
    k = a.shape[0]
    if method == "zoh":
        big = np.block([[a, b.reshape(-1, 1)], [np.zeros((1, k)), np.zeros((1, 1))]])
        both = matrix_exponential(big * delta)
    else:
        both = np.linalg.solve(np.identity(k) - a * (delta / 2), np.c_[np.identity(k) + a * (delta / 2), delta * b])
    return both[:k, :k], both[:k, -1]
""",
)
add(
    N,
    "right",
    "Ā = 2 (1 - ΔA/2)^-1 - 1; the big exponential of the transpose, transposed back",
    """
    k = len(b)
    if method == "bilinear":
        inv = np.linalg.solve(np.eye(k) - 0.5 * delta * a.astype(float), np.eye(k))
        return 2 * inv - np.eye(k), delta * inv.dot(b)
    m = np.zeros([k + 1] * 2)
    m[:k, :k] = a.T
    m[k, :k] = b
    e = matrix_exponential(delta * m).T
    return e[:-1, :-1], e[:-1, -1]
""",
)
add(
    N,
    "right",
    "zoh by 60 terms after scaling, by hand",
    """
    k = len(b)
    if method == "bilinear":
        left = np.eye(k) - delta / 2 * a
        return np.linalg.solve(left, 2 * np.eye(k) - left), np.linalg.solve(left, b * delta)
    m = np.pad(np.column_stack([a, b]).astype(np.float64), ((0, 1), (0, 0))) * delta
    squarings = max(0, int(np.ceil(np.log2(np.abs(m).sum() + 1e-300))) + 1)
    m = m / 2.0**squarings
    e = term = np.eye(k + 1)
    for j in range(1, 30):
        term = term @ m / j
        e = e + term
    for _ in range(squarings):
        e = e @ e
    return e[:k, :k].copy(), e[:k, k].copy()
""",
)

# ---------------------------------------------------------------- 23.2
N = "ssm_recurrent"
add(
    N,
    "wrong",
    "the given state is written to",
    """
    h = np.zeros(x.shape[:-1] + (len(b_bar),)) if state is None else np.asarray(state, dtype=float)
    ys = []
    for t in range(x.shape[-1]):
        h[...] = h @ a_bar.T + x[..., t, None] * b_bar
        ys.append(h @ c)
    return np.stack(ys, axis=-1), h.copy()
""",
)
add(
    N,
    "wrong",
    "a copy of an integer state cuts every step",
    """
    h = np.zeros(x.shape[:-1] + (len(b_bar),)) if state is None else state.copy()
    ys = []
    for t in range(x.shape[-1]):
        h[...] = h @ a_bar.T + x[..., t, None] * b_bar
        ys.append(h @ c)
    return np.stack(ys, axis=-1), h
""",
)
add(
    N,
    "wrong",
    "outputs in zeros_like(x), integers for an integer text",
    """
    h = np.zeros(x.shape[:-1] + (len(b_bar),)) if state is None else state
    y = np.zeros_like(x)
    for t in range(x.shape[-1]):
        h = h @ a_bar.T + x[..., t, None] * b_bar
        y[..., t] = h @ c
    return y, h
""",
)
add(
    N,
    "wrong",
    "the last state comes back flat, (B, N), where x has two leading axes",
    """
    flat = x.reshape(-1, x.shape[-1])
    h = np.zeros((len(flat), len(b_bar))) if state is None else state.reshape(-1, len(b_bar))
    ys = []
    for t in range(x.shape[-1]):
        h = h @ a_bar.T + flat[:, t : t + 1] * b_bar
        ys.append(h @ c)
    return np.stack(ys, axis=-1).reshape(x.shape), (h if x.ndim > 1 else h[0])
""",
)
add(
    N,
    "wrong",
    "the output is read before the step",
    """
    h = np.zeros(x.shape[:-1] + (len(b_bar),)) if state is None else state
    ys = []
    for t in range(x.shape[-1]):
        ys.append(h @ c)
        h = h @ a_bar.T + x[..., t, None] * b_bar
    return np.stack(ys, axis=-1), h
""",
)
add(
    N,
    "wrong",
    "h @ Ā without the transpose",
    """
    h = np.zeros(x.shape[:-1] + (len(b_bar),)) if state is None else state
    ys = []
    for t in range(x.shape[-1]):
        h = h @ a_bar + x[..., t, None] * b_bar
        ys.append(h @ c)
    return np.stack(ys, axis=-1), h
""",
)
add(
    N,
    "wrong",
    "sums c·h over all texts of the batch",
    """
    h = np.zeros(x.shape[:-1] + (len(b_bar),)) if state is None else state
    y = np.zeros(x.shape)
    for t in range(x.shape[-1]):
        h = h @ a_bar.T + x[..., t, None] * b_bar
        y[..., t] = (c * h).sum()
    return y, h
""",
)
add(
    N,
    "wrong",
    "Ā also on the input: h = Ā (h + b̄ x)",
    """
    h = np.zeros(x.shape[:-1] + (len(b_bar),)) if state is None else state
    ys = []
    for t in range(x.shape[-1]):
        h = (h + x[..., t, None] * b_bar) @ a_bar.T
        ys.append(h @ c)
    return np.stack(ys, axis=-1), h
""",
)
add(
    N,
    "right",
    "time moved to the front, einsum",
    """
    h = 0.0 * np.multiply.outer(x[..., 0], b_bar) if state is None else state
    out = []
    for token in np.moveaxis(x, -1, 0):
        h = np.einsum("nm,...m->...n", a_bar, h) + np.multiply.outer(token, b_bar)
        out.append(np.einsum("n,...n->...", c, h))
    return np.moveaxis(np.array(out), 0, -1), h
""",
)
add(
    N,
    "right",
    "by halves: reads each half, handing the state on",
    """
    if state is None:
        state = np.zeros((*x.shape[:-1], b_bar.size))
    steps = x.shape[-1]
    if steps == 1:
        h = (a_bar @ state[..., None])[..., 0] + b_bar * x
        return (h * c).sum(-1, keepdims=True), h
    first, state = ssm_recurrent(a_bar, b_bar, c, x[..., : steps // 2], state)
    second, state = ssm_recurrent(a_bar, b_bar, c, x[..., steps // 2 :], state)
    return np.concatenate((first, second), -1), state
""",
)
add(
    N,
    "right",
    "loops over every text in Python lists",
    """
    a_bar, b_bar, c, x = (np.array(v, dtype=float) for v in (a_bar, b_bar, c, x))
    lead, size = x.shape[:-1], len(b_bar)
    h0 = np.zeros(lead + (size,)) if state is None else np.array(state, dtype=float)
    y, end = np.empty(x.shape), np.empty(lead + (size,))
    for place in np.ndindex(*lead):
        h = h0[place]
        for t in range(x.shape[-1]):
            h = a_bar.dot(h) + b_bar * x[place][t]
            y[place + (t,)] = float(sum(c[i] * h[i] for i in range(size)))
        end[place] = h
    return y, end
""",
)
add(
    N,
    "right",
    "writes all states to a table of floats first, outputs afterwards",
    """
    table = np.zeros(x.shape + (len(c),))
    before = table[..., 0, :] * 0 if state is None else state + 0.0
    for t in range(x.shape[-1]):
        table[..., t, :] = np.tensordot(before, a_bar, axes=(-1, 1)) + x[..., t : t + 1] * b_bar
        before = table[..., t, :]
    return (table * c).sum(axis=-1), table[..., -1, :]
""",
)

# ---------------------------------------------------------------- 23.3
N = "hippo_legs"
R_ = "    r = np.sqrt(2 * n + 1)\n"
add(
    N,
    "wrong",
    "the diagonal of the normal part, -(n + 1/2)",
    R_
    + """
    return -(np.tril(np.outer(r, r), -1) + np.diag(n + 0.5)), r
""",
)
add(
    N,
    "wrong",
    "rounded to three digits, as the example prints",
    R_
    + """
    return (-(np.tril(np.outer(r, r), -1) + np.diag(n + 1.0))).round(3), r.round(3)
""",
)
add(
    N,
    "wrong",
    "squeeze() at the end, a size of 1 loses its axes",
    R_
    + """
    a = -(np.tril(np.outer(r, r), -1) + np.diag(n + 1.0))
    return a.squeeze(), r.squeeze()
""",
)
add(
    N,
    "right",
    "np.where with a comparison of indices",
    """
    row, col = n[:, None], n[None]
    both = ((2 * row + 1) * (2 * col + 1)) ** 0.5
    return np.where(row > col, -both, np.where(row == col, -(row + 1.0), 0.0)), (2 * n + 1) ** 0.5
""",
)
add(
    N,
    "right",
    "the scaled integer matrix: D M D^-1",
    """
    q = np.arange(size)
    scale = np.sqrt(2 * q + 1)
    m = np.tril(np.broadcast_to(2 * q + 1, (size, size)), -1) + np.diag(q + 1)
    return -(m * scale[:, None] / scale[None, :]), scale
""",
)
add(
    N,
    "right",
    "np.fromfunction",
    """
    def entry(i, k):
        return -1.0 * (i > k) * np.sqrt(2 * i + 1) * np.sqrt(2 * k + 1) - (i == k) * (i + 1)
    return np.fromfunction(entry, (size, size)), np.fromfunction(lambda i: np.sqrt(2 * i + 1), (size,))
""",
)

# ---------------------------------------------------------------- 23.4
N = "hippo_reconstruct"
add(
    N,
    "wrong",
    "coefficients scaled in place",
    """
    n = coefficients.shape[-1]
    h = np.asarray(coefficients, dtype=float)
    h *= np.sqrt(2 * np.arange(n) + 1)
    return h @ legvander(2 * places - 1, n - 1).T
""",
)
add(
    N,
    "wrong",
    "places stretched in place",
    """
    n = coefficients.shape[-1]
    z = np.asarray(places, dtype=float)
    z *= 2
    z -= 1
    return (coefficients * np.sqrt(2 * np.arange(n) + 1)) @ legvander(z, n - 1).T
""",
)
add(
    N,
    "wrong",
    "scaled numbers in a buffer of the coefficients' type",
    """
    n = coefficients.shape[-1]
    h = np.empty_like(coefficients)
    h[...] = coefficients * np.sqrt(2 * np.arange(n) + 1)
    return h @ legvander(2 * places - 1, n - 1).T
""",
)
add(
    N,
    "wrong",
    "squeeze() loses axes of one",
    """
    n = coefficients.shape[-1]
    return ((coefficients * np.sqrt(2 * np.arange(n) + 1)) @ legvander(2 * places - 1, n - 1).T).squeeze()
""",
)
add(
    N,
    "wrong",
    "table @ coefficients: one state only",
    """
    n = coefficients.shape[-1]
    return (legvander(2 * places - 1, n - 1) * np.sqrt(2 * np.arange(n) + 1)) @ coefficients
""",
)
add(
    N,
    "wrong",
    "Chebyshev's polynomials",
    """
    n = np.arange(coefficients.shape[-1])
    table = np.cos(n * np.arccos(2 * places - 1)[:, None])
    return (coefficients * np.sqrt(2 * n + 1)) @ table.T
""",
)
add(
    N,
    "right",
    "legval with the degree first",
    """
    from numpy.polynomial.legendre import legval
    scaled = np.moveaxis(coefficients * np.sqrt(1 + 2 * np.arange(coefficients.shape[-1])), -1, 0)
    return legval(places + places - 1, scaled)
""",
)
add(
    N,
    "right",
    "a loop over places, each a dot product",
    """
    size = coefficients.shape[-1]
    roots = np.sqrt(2 * np.arange(size) + 1)
    return np.stack([(coefficients * roots * legvander(2 * u - 1, size - 1)[0]).sum(axis=-1) for u in places], axis=-1)
""",
)
add(
    N,
    "right",
    "einsum, three at once",
    """
    size = coefficients.shape[-1]
    return np.einsum("...n,n,tn->...t", coefficients, np.arange(1, 2 * size, 2) ** 0.5, legvander(places * 2 - 1, size - 1))
""",
)

# ---------------------------------------------------------------- 23.5
N = "ssm_kernel"
add(
    N,
    "wrong",
    "b̄ written to",
    """
    v, taps = np.asarray(b_bar, dtype=float), []
    for _ in range(length):
        taps.append(c @ v)
        v[...] = a_bar @ v
    return np.array(taps)
""",
)
add(
    N,
    "wrong",
    "a copy of integer b̄ cuts every step",
    """
    v, taps = b_bar.copy(), []
    for _ in range(length):
        taps.append(c @ v)
        v[:] = a_bar @ v
    return np.array(taps)
""",
)
add(
    N,
    "wrong",
    "the powers in an array of c's type",
    """
    taps, row = np.zeros(length), np.array(c)
    for j in range(length):
        taps[j] = row @ b_bar
        row[...] = row @ a_bar
    return taps
""",
)
add(
    N,
    "wrong",
    "powers by eigenvectors, which a defective Ā has not enough of",
    """
    values, vectors = np.linalg.eig(a_bar)
    left, right = c @ vectors, np.linalg.pinv(vectors) @ b_bar
    return (left * right * values ** np.arange(length)[:, None]).sum(axis=-1).real
""",
)
add(
    N,
    "wrong",
    "a running sum of the taps",
    """
    v, taps = b_bar, []
    for _ in range(length):
        taps.append(c @ v)
        v = a_bar @ v
    return np.cumsum(taps)
""",
)
add(
    N,
    "wrong",
    "c left out: the sum of the state",
    """
    v, taps = b_bar, []
    for _ in range(length):
        taps.append(v.sum())
        v = a_bar @ v
    return np.array(taps)
""",
)
add(
    N,
    "wrong",
    "oldest tap first",
    """
    v, taps = b_bar, []
    for _ in range(length):
        taps.append(c @ v)
        v = a_bar @ v
    return np.array(taps[::-1])
""",
)
add(
    N,
    "right",
    "matrix_power for every tap",
    """
    return np.array([c @ np.linalg.matrix_power(a_bar.astype(float), j) @ b_bar for j in range(length)])
""",
)
add(
    N,
    "right",
    "doubling: columns b̄, Āb̄ | Ā²b̄, Ā³b̄ | …",
    """
    power, columns = np.array(a_bar, float), np.array(b_bar, float)[:, None]
    while columns.shape[1] < length:
        columns = np.hstack([columns, power @ columns])
        power = power @ power
    return c @ columns[:, :length]
""",
)

# ---------------------------------------------------------------- 23.6
N = "ssm_convolve"
add(
    N,
    "wrong",
    "the answer goes into zeros_like(x)",
    """
    n = 2 * length
    y = np.zeros_like(x)
    y[...] = np.fft.irfft(np.fft.rfft(kernel, n) * np.fft.rfft(x, n), n)[..., :length]
    return y
""",
)
add(
    N,
    "wrong",
    "correlates: the conjugate of the kernel's transform",
    """
    n = 2 * length
    return np.fft.irfft(np.conj(np.fft.rfft(kernel, n)) * np.fft.rfft(x, n), n)[..., :length]
""",
)
add(
    N,
    "wrong",
    "transforms along the first axis",
    """
    n = 2 * length
    both = np.fft.rfft(kernel, n, axis=0) * np.fft.rfft(x, n, axis=0)
    return np.fft.irfft(both, n, axis=0)[:length]
""",
)
add(
    N,
    "wrong",
    "does not cut: 2T outputs",
    """
    n = 2 * length
    return np.fft.irfft(np.fft.rfft(kernel, n) * np.fft.rfft(x, n), n)
""",
)
add(
    N,
    "wrong",
    "np.convolve, which is not allowed",
    """
    full = np.vectorize(lambda k, v: np.convolve(k, v)[:length], signature="(t),(t)->(t)")
    return full(kernel, x)
""",
)
add(
    N,
    "right",
    "np.fft.fft with the next power of two, real part",
    """
    n = 1 << (2 * length - 1).bit_length()
    return np.fft.ifft(np.fft.fft(kernel, n) * np.fft.fft(x, n)).real[..., :length]
""",
)
add(
    N,
    "right",
    "zeros put on by hand before the FFT",
    """
    def filled(v):
        return np.concatenate([v, np.zeros(v.shape)], axis=-1)
    return np.fft.irfft(np.fft.rfft(filled(kernel)) * np.fft.rfft(filled(x)), 2 * length)[..., :length]
""",
)
add(
    N,
    "right",
    "the wrapped part taken off with a skewed FFT: (cyclic + anticyclic) / 2",
    """
    k, v = np.asarray(kernel, float), np.asarray(x, float)
    twist = np.exp(-1j * np.pi * np.arange(length) / length)
    cyclic = np.fft.ifft(np.fft.fft(k) * np.fft.fft(v))
    anti = np.fft.ifft(np.fft.fft(k * twist) * np.fft.fft(v * twist)) / twist
    return (cyclic.real + anti.real) / 2
""",
)

# ---------------------------------------------------------------- 23.7
N = "convolve_in_blocks"


def in_blocks(
    size="size = piece.shape[-1] + len(kernel) - 1",
    y="np.zeros(x.shape)",
    add_="+=",
    inv="np.fft.irfft(both, size)",
    rng="range(0, total, block)",
    cut="",
):
    return f"""
    total = x.shape[-1]
    y = {y}
    {cut or "pass"}
    for first in {rng}:
        piece = x[..., first : first + block]
        {size}
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + size] {add_} {inv}[..., : total - first]
    return y
"""


add(
    N,
    "wrong",
    "answers in x's type: an integer text loses the fractions",
    """
    total = x.shape[-1]
    y = np.zeros_like(x)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + size] += np.fft.irfft(both, size)[..., : total - first].astype(x.dtype)
    return y
""",
)
add(N, "wrong", "= for +=: the end of the block before is lost", in_blocks(add_="="))
add(
    N,
    "wrong",
    "only whole blocks: the last, shorter one is left out",
    in_blocks(rng="range(0, total - block + 1, block)"),
)
add(
    N,
    "wrong",
    "len(x) for the number of tokens",
    """
    total = len(x)
    y = np.zeros(x.shape)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        end = min(first + size, y.shape[-1])
        y[..., first:end] += np.fft.irfft(both, size)[..., : end - first]
    return y
""",
)
add(
    N,
    "right",
    "overlap-save: K - 1 old tokens before each block",
    """
    total, old = x.shape[-1], len(kernel) - 1
    padded = np.concatenate([np.zeros(x.shape[:-1] + (old,)), x], axis=-1)
    parts = []
    for first in range(0, total, block):
        piece = padded[..., first : first + old + block]
        n = piece.shape[-1]
        parts.append(np.fft.irfft(np.fft.rfft(piece, 2 * n) * np.fft.rfft(kernel, 2 * n), 2 * n)[..., old:n])
    return np.concatenate(parts, axis=-1)
""",
)
add(
    N,
    "right",
    "a longer buffer, cut at the end",
    """
    total = x.shape[-1]
    y = np.zeros((*x.shape[:-1], total + len(kernel) + block))
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        size = block + len(kernel)
        y[..., first : first + size] += np.fft.irfft(np.fft.rfft(kernel, size) * np.fft.rfft(piece, size), size)
    return y[..., :total]
""",
)
add(
    N,
    "right",
    "no FFT: taps in a loop, block by block",
    """
    total = x.shape[-1]
    y = np.zeros(x.shape)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        for j, tap in enumerate(kernel):
            end = min(first + j + piece.shape[-1], total)
            if end > first + j:
                y[..., first + j : end] += tap * piece[..., : end - first - j]
    return y
""",
)
add(
    N,
    "right",
    "FFTs of a power of two, from a list of pieces added by shifts",
    """
    total = x.shape[-1]
    answer = 0.0
    for first in range(0, total, block):
        piece = np.asarray(x[..., first : first + block], dtype=float)
        n = 2 ** math.ceil(math.log2(piece.shape[-1] + kernel.shape[0]))
        part = np.fft.ifft(np.fft.fft(kernel, n) * np.fft.fft(piece, n)).real
        room = np.zeros(x.shape[:-1] + (first + n + total,))
        room[..., first : first + n] = part
        answer = answer + room[..., :total]
    return answer
""",
)

# ---------------------------------------------------------------- 23.8
N = "s4d_kernel"


def pairs_kernel(
    weight="c * (np.exp(delta * a) - 1) / a * b",
    rate="delta * a",
    taps="np.arange(length)",
    end="2 * total.real",
):
    return f"""
    weight = {weight}
    table = np.exp(({rate})[..., None] * {taps})
    total = (weight[..., None] * table).sum(axis=-2)
    return {end}
"""


add(
    N,
    "wrong",
    "a scaled in place",
    """
    step = np.asarray(a, dtype=complex)
    weight = c * (np.exp(delta * a) - 1) / a * b
    if np.broadcast_shapes(step.shape, delta.shape) == step.shape:
        step *= delta
    else:
        step = step * delta
    table = np.exp(step[..., None] * np.arange(length))
    return 2 * (weight[..., None] * table).sum(axis=-2).real
""",
)
add(
    N,
    "wrong",
    "b̄ in a buffer of b's type: a real b loses the imaginary part",
    """
    b_bar = np.empty(np.broadcast_shapes(b.shape, (delta * a).shape), dtype=b.dtype)
    b_bar[...] = (((np.exp(delta * a) - 1) / a * b).real if b.dtype.kind != "c" else (np.exp(delta * a) - 1) / a * b)
    table = np.exp((delta * a)[..., None] * np.arange(length))
    return 2 * ((c * b_bar)[..., None] * table).sum(axis=-2).real
""",
)
add(
    N,
    "wrong",
    "one Δ, the mean, for all channels",
    """
    delta = delta.mean()
"""
    + pairs_kernel().strip("\n"),
)
add(
    N,
    "wrong",
    "sums over the first axis",
    """
    weight = c * (np.exp(delta * a) - 1) / a * b
    table = np.exp((delta * a)[..., None] * np.arange(length))
    return 2 * (weight[..., None] * table).sum(axis=0).real
""",
)
add(
    N,
    "wrong",
    "b̄ without the division by a",
    pairs_kernel(weight="c * (np.exp(delta * a) - 1) * b"),
)
add(
    N,
    "right",
    "cosine and sine, no complex power",
    """
    weight = 2 * c * b * np.expm1(delta * a) / a
    j = np.arange(length)
    fade = np.exp((delta * np.real(a))[..., None] * j)
    angle = (delta * np.imag(a))[..., None] * j
    return (fade * (weight.real[..., None] * np.cos(angle) - weight.imag[..., None] * np.sin(angle))).sum(-2)
""",
)
add(
    N,
    "right",
    "tap by tap, the state handed on",
    """
    step = np.exp(a * delta)
    state = (step - 1) / a * b + 0j
    taps = []
    for _ in range(length):
        taps.append(2 * (c * state).sum(axis=-1).real)
        state = step * state
    return np.stack(taps, axis=-1)
""",
)
add(
    N,
    "right",
    "cumprod, then a product of a row and a table",
    """
    step = np.exp(delta * a)
    ones = np.ones(step.shape + (1,), complex)
    many = np.repeat(step[..., None], max(length - 1, 0), axis=-1)
    table = np.cumprod(np.concatenate([ones, many], axis=-1), axis=-1)
    row = (c * (step - 1) * b / a)[..., None, :]
    return (row @ table)[..., 0, :].real * 2
""",
)

# ---------------------------------------------------------------- 23.9
N = "s4d_init"
LIN = '    if kind == "lin":\n        return -0.5 + 1j * np.pi * n\n'
add(
    N,
    "wrong",
    "whole-number division in inv",
    LIN
    + """
    return -0.5 + 1j * size / np.pi * (size // (2 * n + 1) - 1)
""",
)
add(
    N,
    "wrong",
    "inv sorted, slowest first",
    LIN
    + """
    return -0.5 + 1j * np.sort(size / np.pi * (size / (2 * n + 1) - 1))
""",
)
add(
    N,
    "wrong",
    "inv rounded to two digits",
    LIN
    + """
    return (-0.5 + 1j * size / np.pi * (size / (2 * n + 1) - 1)).round(2)
""",
)
add(
    N,
    "wrong",
    "inv's lowest fades at 0 so that it lasts (one pair only)",
    LIN
    + """
    a = -0.5 + 1j * size / np.pi * (size / (2 * n + 1) - 1)
    return a if pairs > 1 else 1j * a.imag
""",
)
add(
    N,
    "wrong",
    "inv: -1 outside the bracket",
    LIN
    + """
    return -0.5 + 1j * (size / np.pi * size / (2 * n + 1) - 1)
""",
)
add(
    N,
    "wrong",
    "both twins: N numbers",
    """
    if kind == "lin":
        a = -0.5 + 1j * np.pi * n
    else:
        a = -0.5 + 1j * size / np.pi * (size / (2 * n + 1) - 1)
    return np.concatenate([a, a.conj()])
""",
)
add(
    N,
    "right",
    "Python's complex numbers in a list",
    """
    turns = [math.pi * k if kind == "lin" else size / math.pi * (size / (2 * k + 1) - 1) for k in range(pairs)]
    return np.array([complex(-0.5, turn) for turn in turns])
""",
)
add(
    N,
    "right",
    "a dictionary of both",
    """
    turn = {"lin": np.pi * n, "inv": (size**2 / (2 * n + 1) - size) / np.pi}[kind]
    return turn * 1j - 1 / 2
""",
)
add(
    N,
    "right",
    "real and imaginary parts set one by one",
    """
    a = np.empty(pairs, dtype=np.complex128)
    a.real = -0.5
    a.imag = np.linspace(0, np.pi * (pairs - 1), pairs) if kind == "lin" else size / np.pi * ((size - 2 * n - 1) / (2 * n + 1))
    return a
""",
)
add(
    N,
    "right",
    "np.where and the logarithm of e^(iπ) for iπ",
    """
    i_pi = np.log(-1 + 0j)
    return -0.5 + np.where(kind == "lin", i_pi * n, -size / i_pi * (size / (2 * n + 1) - 1))
""",
)

# ---------------------------------------------------------------- 23.10
N = "dplr_kernel"


def by_sums(
    last="dot(c_cut, b) - w * dot(c_cut, p) * dot(q, b) / (1 + w * dot(q, p))",
    q="np.conj(p)",
    out="np.fft.ifft(vals).real",
    front="delta * ",
    pre="",
):
    return f"""
    {pre or "pass"}
    w = delta / 2 * (1 + roots)
    d = (1 - roots)[:, None] - w[:, None] * diagonal
    dot = lambda u, v: (u * v / d).sum(-1)
    q = {q}
    vals = {front}({last})
    return {out}
"""


add(
    N,
    "wrong",
    "⟨p*, p⟩ with p for p*, below only",
    by_sums("dot(c_cut, b) - w * dot(c_cut, p) * dot(q, b) / (1 + w * dot(p, p))"),
)
add(
    N,
    "wrong",
    "irfft of the first half of the values, its length not told (odd T)",
    by_sums(out="np.fft.irfft(vals[: length // 2 + 1])[:length]"),
)
add(
    N,
    "wrong",
    "p is conjugated in place",
    by_sums(
        "dot(c_cut, b) - w * dot(c_cut, u) * dot(q, b) / (1 + w * dot(q, u))",
        q="np.conjugate(p, out=p) if p.dtype.kind == 'c' else p",
        pre="u = p.copy()",
    ),
)
add(
    N,
    "wrong",
    "a loop over the roots, right values",
    """
    q, vals = np.conj(p), []
    for z in roots:
        w = delta / 2 * (1 + z)
        d = 1 - z - w * diagonal
        dot = lambda u, v: (u * v / d).sum()
        vals.append(delta * (dot(c_cut, b) - w * dot(c_cut, p) * dot(q, b) / (1 + w * dot(q, p))))
    return np.fft.ifft(np.array(vals)).real
""",
)
add(
    N,
    "wrong",
    "1 + ⟨p*, p⟩, without w",
    by_sums("dot(c_cut, b) - w * dot(c_cut, p) * dot(q, b) / (1 + dot(q, p))"),
)
add(N, "wrong", "fft for the inverse FFT", by_sums(out="np.fft.fft(vals).real"))
add(
    N,
    "right",
    "all four sums as one product of tables",
    """
    w = 0.5 * delta * (1 + roots)
    cauchy = 1 / (1 - roots[:, None] - np.outer(w, diagonal))
    cb, cp, qb, qp = (cauchy @ np.stack([c_cut * b, c_cut * p, p.conj() * b, p.conj() * p], axis=1)).T
    return np.real(np.fft.ifft(delta * (cb - w * cp * qb / (1 + w * qp)), length))
""",
)
add(
    N,
    "right",
    "a loop over the N numbers",
    """
    w = delta * (1 + roots) / 2
    cb = cp = qb = qp = np.zeros(length, complex)
    for i in range(len(p)):
        d = 1 - roots - w * diagonal[i]
        cb, cp = cb + c_cut[i] * b[i] / d, cp + c_cut[i] * p[i] / d
        qb, qp = qb + p[i].conjugate() * b[i] / d, qp + abs(p[i]) ** 2 / d
    return np.fft.ifft((cb - w * cp * qb / (1 + w * qp)) * delta).real
""",
)
add(
    N,
    "right",
    "dense systems, one per root, solved at once",
    """
    a = np.diag(diagonal) - np.outer(p, p.conj())
    w = delta / 2 * (1 + roots)
    big = (1 - roots)[:, None, None] * np.eye(len(p)) - w[:, None, None] * a
    right = np.broadcast_to((delta * b)[:, None], (length, len(p), 1))
    return np.fft.ifft((c_cut @ np.linalg.solve(big, right))[..., 0]).real
""",
)
add(
    N,
    "right",
    "irfft with its length told",
    """
    half = roots[: length // 2 + 1]
    w = (1 + half) * (delta / 2)
    d = ((1 - half) - w * diagonal[:, None])
    s = lambda u, v: np.sum((u * v)[:, None] / d, axis=0)
    q = np.conjugate(p)
    return np.fft.irfft(delta * (s(c_cut, b) - s(c_cut, p) * s(q, b) * w / (1 + w * s(q, p))), length)
""",
)

CASES += MORE

# ---------------------------------------------------------------- more
THIRD: list[tuple[str, str, str, str]] = []


def third(name, kind, what, body):
    THIRD.append((name, kind, what, GIVEN + FIRST_LINES[name] + body.strip("\n") + "\n"))


third(
    "discretize",
    "wrong",
    "zoh by eigenvectors, rates of 0 caught",
    """
    n = len(b)
    if method == "zoh":
        lam, v = np.linalg.eig(np.asarray(a, float))
        e = np.exp(delta * lam)
        small = np.abs(lam) < 1e-12
        phi = np.where(small, delta, (e - 1) / np.where(small, 1, lam))
        inv = np.linalg.pinv(v)
        return ((v * e) @ inv).real, ((v * phi) @ inv @ b).real
    left = np.eye(n) - delta / 2 * a
    return np.linalg.solve(left, np.eye(n) + delta / 2 * a), np.linalg.solve(left, delta * b)
""",
)

third(
    "discretize",
    "wrong",
    "the big matrix has b's type",
    """
    n = len(b)
    if method == "zoh":
        m = np.zeros((n + 1, n + 1), dtype=b.dtype)
        m[:n, :n], m[:n, n] = delta * a, delta * b
        e = matrix_exponential(m)
        return e[:n, :n], e[:n, n]
    left = np.eye(n) - delta / 2 * a
    return np.linalg.solve(left, np.eye(n) + delta / 2 * a), np.linalg.solve(left, delta * b)
""",
)

third(
    "discretize",
    "right",
    "own series, halved and squared by hand",
    """
    n = len(b)
    a, b = a.astype(float), b.astype(float)
    one = np.eye(n)
    if method == "bilinear":
        right = one + delta / 2 * a
        return (np.linalg.solve((one - delta / 2 * a).T, right.T)).T, np.linalg.solve(one - delta / 2 * a, b) * delta
    halvings = 0
    while np.abs(a).sum() * delta / 2**halvings > 0.5:
        halvings += 1
    h = delta / 2**halvings
    e, phi, term = one, h * one, one
    for k in range(1, 25):
        term = term @ a * (h / k)
        e = e + term
        phi = phi + term * (h / (k + 1))
    for _ in range(halvings):
        phi = phi + e @ phi
        e = e @ e
    return e, phi @ b
""",
)

third(
    "ssm_recurrent",
    "wrong",
    "tanh as in an RNN",
    """
    h = np.zeros(x.shape[:-1] + b_bar.shape) if state is None else state
    ys = []
    for t in range(x.shape[-1]):
        h = np.tanh(h @ a_bar.T + b_bar * x[..., t, None])
        ys.append(h @ c)
    return np.stack(ys, -1), h
""",
)

third(
    "ssm_recurrent",
    "wrong",
    "the state comes back flat",
    """
    lead, total = x.shape[:-1], x.shape[-1]
    flat = x.reshape(-1, total)
    h = np.zeros((len(flat), len(b_bar))) if state is None else state.reshape(-1, len(b_bar))
    ys = []
    for t in range(total):
        h = h @ a_bar.T + flat[:, t, None] * b_bar
        ys.append(h @ c)
    return np.stack(ys, -1).reshape(x.shape), (h if lead else h[0])
""",
)

third(
    "ssm_recurrent",
    "right",
    "cut in halves, recursively",
    """
    total = x.shape[-1]
    if total > 1:
        first, state = ssm_recurrent(a_bar, b_bar, c, x[..., : total // 2], state)
        rest, state = ssm_recurrent(a_bar, b_bar, c, x[..., total // 2 :], state)
        return np.concatenate([first, rest], axis=-1), state
    old = 0 if state is None else (a_bar @ state[..., None])[..., 0]
    h = old + x * b_bar
    return (h * c).sum(-1, keepdims=True), h
""",
)

third(
    "hippo_legs",
    "wrong",
    "only the first subdiagonal",
    """
    r = np.sqrt(2 * n + 1)
    return -(np.diag(r[1:] * r[:-1], -1) + np.diag(n + 1)), r
""",
)

third(
    "hippo_reconstruct",
    "wrong",
    "time first in the answer",
    """
    n = coefficients.shape[-1]
    return legvander(2 * places - 1, n - 1) @ (coefficients * np.sqrt(2 * np.arange(n) + 1)).T
""",
)

third(
    "ssm_kernel",
    "wrong",
    "eigenvectors",
    """
    lam, v = np.linalg.eig(a_bar)
    left, right = c @ v, np.linalg.pinv(v) @ b_bar
    return ((left * right) @ lam[:, None] ** np.arange(length)).real
""",
)

third(
    "ssm_convolve",
    "wrong",
    "answer in a buffer of x's shape",
    """
    n = 2 * length
    y = np.zeros(x.shape)
    y[...] = np.fft.irfft(np.fft.rfft(kernel, n) * np.fft.rfft(x, n), n)[..., :length]
    return y
""",
)

third(
    "ssm_convolve",
    "wrong",
    "both padded in x's type",
    """
    n = 2 * length
    k = np.zeros(kernel.shape[:-1] + (n,), dtype=x.dtype)
    k[..., :length] = kernel
    return np.fft.irfft(np.fft.rfft(k) * np.fft.rfft(x, n), n)[..., :length]
""",
)

third(
    "ssm_convolve",
    "right",
    "norm told, odd size",
    """
    n = 2 * length - 1
    a = np.fft.rfft(kernel, n, norm='ortho')
    b = np.fft.rfft(x, n, norm='backward')
    return np.fft.irfft(a * b, n, norm='ortho')[..., :length]
""",
)

third(
    "convolve_in_blocks",
    "wrong",
    "one zero more",
    """
    total = x.shape[-1]
    y = np.zeros(x.shape)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        size = max(piece.shape[-1], len(kernel)) + 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + size] += np.fft.irfft(both, size)[..., : total - first]
    return y
""",
)

third(
    "convolve_in_blocks",
    "wrong",
    "from the end, in x itself",
    """
    y = np.asarray(x, float)
    total = y.shape[-1]
    for first in reversed(range(0, total, block)):
        piece = y[..., first : first + block].copy()
        y[..., first : first + block] = 0
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + size] += np.fft.irfft(both, size)[..., : total - first]
    return y
""",
)

third(
    "convolve_in_blocks",
    "right",
    "a tail carried on",
    """
    total, taps = x.shape[-1], len(kernel)
    tail, parts = np.zeros((*x.shape[:-1], taps - 1)), []
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        wide = piece.shape[-1]
        full = np.zeros((*x.shape[:-1], wide + taps - 1))
        for j in range(taps):
            full[..., j : j + wide] += kernel[j] * piece
        full[..., : taps - 1] += tail
        parts.append(full[..., :wide])
        tail = full[..., wide:]
    return np.concatenate(parts, -1)
""",
)

third(
    "s4d_kernel",
    "wrong",
    "bilinear for zoh",
    """
    a_bar = (1 + delta / 2 * a) / (1 - delta / 2 * a)
    b_bar = delta * b / (1 - delta / 2 * a)
    powers = a_bar[..., None] ** np.arange(length)
    return 2 * ((c * b_bar)[..., None] * powers).sum(-2).real
""",
)

third(
    "s4d_kernel",
    "wrong",
    "a conjugated",
    """
    a = np.conj(a)
    da = delta * a
    b_bar = (np.exp(da) - 1) / a * b
    powers = np.exp(da[..., None] * np.arange(length))
    return 2 * ((c * b_bar)[..., None] * powers).sum(-2).real
""",
)

third(
    "s4d_kernel",
    "wrong",
    "b's imaginary part dropped",
    """
    b = np.real(b)
    da = delta * a
    b_bar = (np.exp(da) - 1) / a * b
    powers = np.exp(da[..., None] * np.arange(length))
    return 2 * ((c * b_bar)[..., None] * powers).sum(-2).real
""",
)

third(
    "s4d_kernel",
    "right",
    "fade and swing apart, in real numbers",
    """
    j = np.arange(length)
    w = c * ((np.exp(delta * a) - 1) / a) * b
    w = np.asarray(w, complex)
    size, angle = np.abs(w)[..., None], np.angle(w)[..., None]
    d = delta[..., None]
    return (2 * size * np.exp(d * a.real[..., None] * j) * np.cos(d * a.imag[..., None] * j + angle)).sum(-2)
""",
)

third(
    "s4d_init",
    "wrong",
    "pi is 3.14",
    """
    if kind == "lin":
        return -0.5 + 1j * 3.14 * n
    return -0.5 + 1j * size / 3.14 * (size / (2 * n + 1) - 1)
""",
)

third(
    "s4d_init",
    "wrong",
    "N = P squared",
    """
    size = pairs**2
    if kind == "lin":
        return -0.5 + 1j * np.pi * n
    return -0.5 + 1j * size / np.pi * (size / (2 * n + 1) - 1)
""",
)

third(
    "dplr_kernel",
    "wrong",
    "p not conjugated in one sum",
    """
    w = delta / 2 * (1 + roots)
    d = 1 - roots[:, None] - w[:, None] * diagonal
    q = p.conj()
    def s(u, v):
        return (u * v / d).sum(-1)
    values = delta * (s(c_cut, b) - w * s(c_cut, p) * s(p, b) / (1 + w * s(q, p)))
    return np.fft.ifft(values).real
""",
)

third(
    "dplr_kernel",
    "wrong",
    "half of the values, irfft not told T",
    """
    w = delta / 2 * (1 + roots)
    d = 1 - roots[:, None] - w[:, None] * diagonal
    q = p.conj()
    def s(u, v):
        return (u * v / d).sum(-1)
    values = delta * (s(c_cut, b) - w * s(c_cut, p) * s(q, b) / (1 + w * s(q, p)))
    return np.fft.irfft(values[: length // 2 + 1])
""",
)

CASES += THIRD

# ---------------------------------------------------------------- fourth
FOURTH: list[tuple[str, str, str, str]] = []


def fourth(name, kind, what, code):
    FOURTH.append((name, kind, what, IMPORTS + code.strip("\n") + "\n"))


fourth(
    "discretize",
    "wrong",
    "zoh: A singular (det == 0) falls back to b̄ = Δ b",
    """
def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    n = len(b)
    one = np.eye(n)

    if method == "bilinear":
        left = one - delta / 2 * a
        return np.linalg.solve(left, one + delta / 2 * a), np.linalg.solve(left, delta * b)

    a_bar = matrix_exponential(delta * np.asarray(a, float))
    if np.linalg.det(np.asarray(a, float)) == 0:
        return a_bar, delta * np.asarray(b, float)
    return a_bar, np.linalg.solve(np.asarray(a, float), (a_bar - one) @ b)
""",
)

fourth(
    "discretize",
    "wrong",
    "zoh: A + 1e-7 keeps the inverse alive",
    """
def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    n = len(b)
    one = np.eye(n)

    if method == "bilinear":
        left = one - delta / 2 * a
        return np.linalg.solve(left, one + delta / 2 * a), np.linalg.solve(left, delta * b)

    a = np.asarray(a, float)
    a_bar = matrix_exponential(delta * a)
    return a_bar, np.linalg.solve(a + 1e-7 * one, (a_bar - one) @ b)
""",
)

fourth(
    "discretize",
    "wrong",
    "zoh: b scaled to length 1 first; b of zeros divides by 0",
    """
def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    n = len(b)
    one = np.eye(n)

    if method == "bilinear":
        left = one - delta / 2 * a
        return np.linalg.solve(left, one + delta / 2 * a), np.linalg.solve(left, delta * b)

    b = np.asarray(b, float)
    size = np.linalg.norm(b)
    m = np.zeros((n + 1, n + 1))
    m[:n, :n], m[:n, n] = delta * np.asarray(a, float), delta * b / size
    e = matrix_exponential(m)
    return e[:n, :n], e[:n, n] * size
""",
)

fourth(
    "discretize",
    "wrong",
    "b as a column (N, 1) is let through: no look at the shapes",
    """
def discretize(a, b, delta, method="zoh"):
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    a, b = np.asarray(a, float), np.asarray(b, float).ravel()
    n = len(a)
    one = np.eye(n)
    if method == "bilinear":
        left = one - delta / 2 * a
        return np.linalg.solve(left, one + delta / 2 * a), np.linalg.solve(left, delta * b)
    m = np.zeros((2 * n, 2 * n))
    m[:n, :n], m[:n, n:] = delta * a, delta * one
    e = matrix_exponential(m)
    return e[:n, :n], e[:n, n:] @ b[:n]
""",
)

fourth(
    "discretize",
    "right",
    "own series on a short step, then doubled: Ā Ā and b̄ + Ā b̄",
    """
def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    a, b, delta = np.array(a, np.float64), np.array(b, np.float64), float(delta)
    one = np.eye(b.size)
    if method == "bilinear":
        inv = np.linalg.inv(one - 0.5 * delta * a)
        return inv @ (one + 0.5 * delta * a), delta * (inv @ b)
    if method != "zoh":
        raise ValueError("zoh or bilinear")
    halvings = max(0, math.ceil(math.log2(1e-300 + delta * np.abs(a).sum(axis=1).max())) + 2)
    short = delta / 2**halvings
    a_bar, b_bar, term = one.copy(), np.zeros_like(b), one.copy()
    for k in range(1, 25):
        b_bar = b_bar + term @ b * (short / k)
        term = term @ a * (short / k)
        a_bar = a_bar + term
    for _ in range(halvings):
        b_bar = b_bar + a_bar @ b_bar
        a_bar = a_bar @ a_bar
    return a_bar, b_bar
""",
)

fourth(
    "ssm_recurrent",
    "wrong",
    "a given state is copied and written into: whole numbers stay whole",
    """
def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)

    h = np.zeros((*x.shape[:-1], len(c))) if state is None else state.copy()
    y = np.zeros(x.shape)
    for t in range(x.shape[-1]):
        h[...] = h @ a_bar.T + x[..., t, None] * b_bar
        y[..., t] = h @ c
    return y, h
""",
)

fourth(
    "ssm_recurrent",
    "wrong",
    "the state is kept within ±1e6 against overflow",
    """
def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)

    h = np.zeros((*x.shape[:-1], len(c))) if state is None else state
    out = []
    for t in range(x.shape[-1]):
        h = np.clip(h @ a_bar.T + x[..., t, None] * b_bar, -1e6, 1e6)
        out.append(h @ c)
    return np.stack(out, axis=-1), h
""",
)

fourth(
    "ssm_recurrent",
    "right",
    "one big matrix with the token as one state more",
    """
def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)

    n = c.size
    big = np.column_stack([a_bar, b_bar]).astype(float)
    h = np.zeros(x.shape[:-1] + (n,)) if state is None else 1.0 * state
    y = []
    for t in range(x.shape[-1]):
        h = (big @ np.concatenate([h, x[..., t : t + 1]], axis=-1)[..., None])[..., 0]
        y += [(h * c).sum(-1)]
    return np.moveaxis(np.array(y), 0, -1), h
""",
)

fourth(
    "hippo_legs",
    "wrong",
    "squeezed: size 1 gives bare numbers",
    """
def hippo_legs(size):
    n = np.arange(size)
    r = np.sqrt(2 * n + 1.0)

    a = -np.tril(np.outer(r, r), -1) - np.diag(n + 1.0)
    return a.squeeze(), r.squeeze()
""",
)

fourth(
    "hippo_legs",
    "right",
    "derived: D^(1/2) (lower triangle of the derivative's sums) D^(1/2)",
    """
def hippo_legs(size):
    n = np.arange(size)
    r = np.sqrt(2 * n + 1.0)

    # z P_n' + P_n' = n P_n + sum_{k<n} (2k+1) P_k: so d/dt coefficient sums
    m = np.tri(size, k=-1) * (2 * n + 1.0) + np.diag(n + 1.0)
    return -(np.diag(r) @ m @ np.diag(1 / r)), r
""",
)

fourth(
    "hippo_reconstruct",
    "wrong",
    "through powers of z: leg2poly, then polyval",
    """
def hippo_reconstruct(coefficients, places):
    size = coefficients.shape[-1]
    n = np.arange(size)
    r = np.sqrt(2 * n + 1.0)

    from numpy.polynomial import legendre, polynomial
    flat = (coefficients * r).reshape(-1, size)
    z = 2.0 * places - 1
    out = np.stack([polynomial.polyval(z, legendre.leg2poly(row)) for row in flat])
    return out.reshape(coefficients.shape[:-1] + places.shape)
""",
)

fourth(
    "hippo_reconstruct",
    "wrong",
    "legval with coefficients.T: leading axes come out the other way round",
    """
def hippo_reconstruct(coefficients, places):
    size = coefficients.shape[-1]
    n = np.arange(size)
    r = np.sqrt(2 * n + 1.0)

    from numpy.polynomial.legendre import legval
    return legval(2.0 * places - 1, (coefficients * r).T)
""",
)

fourth(
    "hippo_reconstruct",
    "wrong",
    "places are sorted first",
    """
def hippo_reconstruct(coefficients, places):
    size = coefficients.shape[-1]
    n = np.arange(size)
    r = np.sqrt(2 * n + 1.0)

    return (coefficients * r) @ legvander(2.0 * np.sort(places) - 1, size - 1).T
""",
)

fourth(
    "hippo_reconstruct",
    "right",
    "three-term recurrence, two rows at a time",
    """
def hippo_reconstruct(coefficients, places):
    size = coefficients.shape[-1]
    n = np.arange(size)
    r = np.sqrt(2 * n + 1.0)

    z = 2.0 * np.asarray(places) - 1.0
    older, newer = np.zeros_like(z), np.ones_like(z)
    total = np.zeros(coefficients.shape[:-1] + z.shape)
    for k in range(size):
        total = total + coefficients[..., k, None] * (r[k] * newer)
        older, newer = newer, ((2 * k + 1) * z * newer - k * older) / (k + 1)
    return total
""",
)

fourth(
    "ssm_kernel",
    "wrong",
    "stops where the state is below 1e-14 of b̄",
    """
def ssm_kernel(a_bar, b_bar, c, length):
    expect_system(a_bar, b_bar, c)

    v, out = np.asarray(b_bar, float), np.zeros(length)
    for j in range(length):
        out[j] = c @ v
        v = a_bar @ v
        if np.abs(v).max() < 1e-14:
            break
    return out
""",
)

fourth(
    "ssm_kernel",
    "wrong",
    "a kernel of 1 tap has 2: the first two are always there",
    """
def ssm_kernel(a_bar, b_bar, c, length):
    expect_system(a_bar, b_bar, c)

    a = np.asarray(a_bar, float)
    v = a @ b_bar
    out = [c @ b_bar, c @ v]
    for _ in range(2, length):
        v = a @ v
        out.append(c @ v)
    return np.array(out)
""",
)

fourth(
    "ssm_convolve",
    "wrong",
    "the next power of two above T (enough for T = 4, 8, 16)",
    """
def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError("as many taps as tokens")

    n = 1 << length.bit_length()
    return np.fft.irfft(np.fft.rfft(kernel, n) * np.fft.rfft(x, n), n)[..., :length]
""",
)

fourth(
    "ssm_convolve",
    "wrong",
    "the kernel is broadcast to x's shape: more leading axes in the kernel fail",
    """
def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError("as many taps as tokens")

    kernel = np.broadcast_to(kernel, x.shape)
    n = 2 * length
    return np.fft.irfft(np.fft.rfft(kernel, n) * np.fft.rfft(x, n), n)[..., :length]
""",
)

fourth(
    "ssm_convolve",
    "wrong",
    "windows of the padded text times the turned kernel (T × T)",
    """
def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError("as many taps as tokens")

    pad = np.concatenate([np.zeros((*x.shape[:-1], length - 1)), x], axis=-1)
    windows = np.lib.stride_tricks.sliding_window_view(pad, length, axis=-1)
    return np.einsum("...tj,...j->...t", windows, kernel[..., ::-1])
""",
)

fourth(
    "ssm_convolve",
    "right",
    "cyclic plus negacyclic: half of their sum has no wrapping",
    """
def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError("as many taps as tokens")

    k, v = np.asarray(kernel, float), np.asarray(x, float)
    turn = np.exp(-1j * np.pi * np.arange(length) / length)
    cyclic = np.fft.ifft(np.fft.fft(k) * np.fft.fft(v))
    nega = np.fft.ifft(np.fft.fft(k * turn) * np.fft.fft(v * turn)) / turn
    return ((cyclic + nega) / 2).real
""",
)

fourth(
    "convolve_in_blocks",
    "wrong",
    "overlap-save with one block of the past: kernels longer than a block are cut",
    """
def convolve_in_blocks(kernel, x, block):
    if block < 1:
        raise ValueError(block)
    total = x.shape[-1]
    y = np.zeros(x.shape)

    for first in range(0, total, block):
        start = max(first - block, 0)
        piece = x[..., start : first + block]
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + block] = np.fft.irfft(both, size)[..., first - start : piece.shape[-1]]
    return y
""",
)

fourth(
    "convolve_in_blocks",
    "wrong",
    "transforms of block + T: a kernel longer than the text wraps",
    """
def convolve_in_blocks(kernel, x, block):
    if block < 1:
        raise ValueError(block)
    total = x.shape[-1]
    y = np.zeros(x.shape)

    size = block + total
    spectrum = np.fft.rfft(kernel, size)
    for first in range(0, total, block):
        part = np.fft.irfft(spectrum * np.fft.rfft(x[..., first : first + block], size), size)
        y[..., first:] += part[..., : total - first]
    return y
""",
)

fourth(
    "s4d_kernel",
    "wrong",
    "a real rate has no twin: counted once",
    """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    j = np.arange(length)

    b_bar = (np.exp(delta * a) - 1) / a * b
    table = np.exp((delta * a)[..., None] * j)
    times = np.where(a.imag == 0, 1, 2)
    return ((times * c * b_bar)[..., None] * table).sum(-2).real
""",
)

fourth(
    "s4d_kernel",
    "wrong",
    "real parts forced below 0",
    """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    j = np.arange(length)

    a = -np.abs(a.real) + 1j * a.imag
    b_bar = (np.exp(delta * a) - 1) / a * b

    table = np.exp((delta * a)[..., None] * j)
    return 2 * ((c * b_bar)[..., None] * table).sum(-2).real
""",
)

fourth(
    "s4d_kernel",
    "wrong",
    "Δ kept within 0.001 to 1, as training does",
    """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    j = np.arange(length)

    delta = np.clip(delta, 1e-3, 1.0)
    b_bar = (np.exp(delta * a) - 1) / a * b

    table = np.exp((delta * a)[..., None] * j)
    return 2 * ((c * b_bar)[..., None] * table).sum(-2).real
""",
)

fourth(
    "s4d_kernel",
    "wrong",
    "rates near 0 take b̄ = Δ b",
    """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    j = np.arange(length)

    near = np.abs(a) < 1e-2
    b_bar = np.where(near, delta, (np.exp(delta * a) - 1) / a) * b

    table = np.exp((delta * a)[..., None] * j)
    return 2 * ((c * b_bar)[..., None] * table).sum(-2).real
""",
)

fourth(
    "s4d_kernel",
    "right",
    "the pairs put back: a and its conjugate, then the plain sum",
    """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    j = np.arange(length)

    a, b, c = (np.concatenate([v, np.conj(v)], axis=-1) for v in np.broadcast_arrays(a, b, c))
    b_bar = (np.exp(delta * a) - 1) / a * b
    return ((c * b_bar)[..., None] * np.exp((delta * a)[..., None] * j)).sum(-2).real
""",
)

fourth(
    "s4d_init",
    "wrong",
    "lin by linspace from 0 to π (right for P = 2)",
    """
def s4d_init(pairs, kind="lin"):
    if kind not in ("lin", "inv"):
        raise ValueError(kind)
    n, size = np.arange(pairs), 2 * pairs

    turn = np.linspace(0, np.pi, pairs) if kind == "lin" else size / np.pi * (size / (2 * n + 1) - 1)
    return -0.5 + 1j * turn
""",
)

fourth(
    "s4d_init",
    "wrong",
    "capitals are let through",
    """
def s4d_init(pairs, kind="lin"):
    kind = kind.lower()
    if kind not in ("lin", "inv"):
        raise ValueError(kind)
    n, size = np.arange(pairs), 2 * pairs
    turn = np.pi * n if kind == "lin" else size / np.pi * (size / (2 * n + 1) - 1)
    return -0.5 + 1j * turn
""",
)

fourth(
    "s4d_init",
    "wrong",
    "anything that begins with l or i",
    """
def s4d_init(pairs, kind="lin"):
    if not kind.startswith(("lin", "inv")):
        raise ValueError(kind)
    n, size = np.arange(pairs), 2 * pairs
    turn = np.pi * n if kind.startswith("lin") else size / np.pi * (size / (2 * n + 1) - 1)
    return -0.5 + 1j * turn
""",
)

fourth(
    "s4d_init",
    "right",
    "match and linspace",
    """
def s4d_init(pairs, kind="lin"):
    match kind:
        case "lin":
            turn = np.linspace(0, np.pi * (pairs - 1), pairs)
        case "inv":
            odd = np.arange(1, 2 * pairs, 2)
            turn = (2 * pairs / np.pi) * ((2 * pairs - odd) / odd)
        case _:
            raise ValueError(kind)
    return turn * 1j - 1 / 2
""",
)

fourth(
    "dplr_kernel",
    "wrong",
    "Sherman and Morrison's sign: 1 - w ⟨p*, p⟩",
    """
def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = cut_after(c, diagonal, p, delta, length)
    z = np.exp(-2j * np.pi * np.arange(length) / length)
    w = delta / 2 * (1 + z)
    inv = 1 / (1 - z[:, None] - w[:, None] * diagonal)
    def sums(u, v):
        return inv @ (u * v)
    q = p.conj()

    values = delta * (sums(c_cut, b) + w * sums(c_cut, p) * sums(q, b) / (1 - w * sums(q, p)))
    return np.fft.ifft(values).real
""",
)

fourth(
    "dplr_kernel",
    "wrong",
    "the paper's 2/(1 + z), nan at z = -1 made 0",
    """
def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = cut_after(c, diagonal, p, delta, length)
    z = np.exp(-2j * np.pi * np.arange(length) / length)
    if length % 2 == 0:
        z[length // 2] = -1
    with np.errstate(all="ignore"):
        g = 2 / delta * (1 - z) / (1 + z)
        inv = 1 / (g[:, None] - diagonal)
        sums = lambda u, v: inv @ (u * v)
        q = p.conj()
        values = 2 / (1 + z) * (sums(c_cut, b) - sums(c_cut, p) * sums(q, b) / (1 + sums(q, p)))
    return np.fft.ifft(np.nan_to_num(values)).real
""",
)

fourth(
    "dplr_kernel",
    "right",
    "a solve for all roots at once, no formula",
    """
def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = cut_after(c, diagonal, p, delta, length)
    z = np.exp(-2j * np.pi * np.arange(length) / length)[:, None, None]
    a = np.diag(diagonal) - np.outer(p, p.conj())
    big = (1 - z) * np.eye(len(p)) - delta / 2 * (1 + z) * a
    states = np.linalg.solve(big, np.broadcast_to((delta * b)[:, None], (length, len(p), 1)).astype(complex))[..., 0]
    return np.fft.ifft(states @ c_cut).real
""",
)

fourth(
    "discretize",
    "wrong",
    "16 terms of the series, which is enough for short steps only",
    """
def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    n = len(b)
    if method == "bilinear":
        back = np.eye(n) - delta / 2 * a
        return np.linalg.solve(back, np.eye(n) + delta / 2 * a), np.linalg.solve(back, delta * b)
    m = np.zeros((n + 1, n + 1))
    m[:n, :n], m[:n, n] = delta * a, delta * b
    e = term = np.eye(n + 1)
    for k in range(1, 16):
        term = term @ m / k
        e = e + term
    return e[:n, :n], e[:n, n]
""",
)

fourth(
    "discretize",
    "right",
    "b made small for the exponential, and large again",
    """
def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    n = len(b)
    if method == "bilinear":
        back = np.eye(n) - delta / 2 * a
        return np.linalg.solve(back, np.eye(n) + delta / 2 * a), np.linalg.solve(back, delta * b)
    scale = np.abs(b).max() or 1.0
    m = np.zeros((n + 1, n + 1))
    m[:n, :n], m[:n, n] = delta * a, delta * (b / scale)
    e = matrix_exponential(m)
    return e[:n, :n], e[:n, n] * scale
""",
)

fourth(
    "hippo_legs",
    "wrong",
    "no roots below the diagonal, b as it should be",
    """
def hippo_legs(size):
    n = np.arange(size)
    return -(np.tril(np.outer(2 * n + 1, 2 * n + 1), -1) + np.diag(n + 1.0)), np.sqrt(2 * n + 1)
""",
)

fourth(
    "convolve_in_blocks",
    "wrong",
    "no check: range refuses a block of 0, and a block of -1 gives zeros",
    """
def convolve_in_blocks(kernel, x, block):
    y = np.zeros(x.shape)
    for first in range(0, x.shape[-1], block):
        piece = x[..., first : first + block]
        size = piece.shape[-1] + len(kernel) - 1
        answer = np.fft.irfft(np.fft.rfft(kernel, size) * np.fft.rfft(piece, size), size)
        y[..., first : first + size] += answer[..., : x.shape[-1] - first]
    return y
""",
)

fourth(
    "s4d_kernel",
    "wrong",
    "b_bar divided by delta a",
    """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    b_bar = (np.exp(delta * a) - 1) / (delta * a) * b
    table = np.exp((delta * a)[..., None] * np.arange(length))
    return 2 * ((c * b_bar)[..., None] * table).sum(-2).real
""",
)

CASES += FOURTH

FIFTH: list[tuple[str, str, str, str]] = []


def fifth(name, kind, what, code):
    FIFTH.append((name, kind, what, IMPORTS + code.strip("\n") + "\n"))


fifth(
    "ssm_recurrent",
    "wrong",
    "the state moves along the eigenvectors of a_bar",
    """
def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    values, v = np.linalg.eig(a_bar)
    inverse = np.linalg.pinv(v)
    h = np.zeros((*x.shape[:-1], len(b_bar))) if state is None else state
    g, push, read = h @ inverse.T, inverse @ b_bar, c @ v
    y = []
    for t in range(x.shape[-1]):
        g = g * values + x[..., t, None] * push
        y.append((g @ read).real)
    return np.stack(y, axis=-1), (g @ v.T).real
""",
)

fifth(
    "ssm_recurrent",
    "wrong",
    "a small state counts as none, by np.allclose",
    """
def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    if state is None or np.allclose(state, 0):
        state = np.zeros((*x.shape[:-1], len(b_bar)))
    h, ys = state, []
    for t in range(x.shape[-1]):
        h = h @ a_bar.T + x[..., t, None] * b_bar
        ys.append(h @ c)
    return np.stack(ys, axis=-1), h
""",
)

fifth(
    "convolve_in_blocks",
    "wrong",
    "a block's answer reaches into the next block only",
    """
def convolve_in_blocks(kernel, x, block):
    if block < 1:
        raise ValueError(block)
    total = x.shape[-1]
    y = np.zeros(x.shape)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        end = min(first + size, first + 2 * block, total)
        y[..., first:end] += np.fft.irfft(both, size)[..., : end - first]
    return y
""",
)

fifth(
    "dplr_kernel",
    "wrong",
    "divided by 1 - w p* p",
    """
def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = cut_after(c, diagonal, p, delta, length)
    roots = np.exp(-2j * np.pi * np.arange(length) / length)
    w = delta / 2 * (1 + roots)
    d = 1 - roots[:, None] - w[:, None] * diagonal
    q = p.conj()
    dot = lambda u, v: (u * v / d).sum(-1)
    low = w * dot(c_cut, p) * dot(q, b) / (1 - w * dot(q, p))
    return np.fft.ifft(delta * (dot(c_cut, b) - low)).real
""",
)

CASES += FIFTH

# Of a sixth reader: sizes beyond those a check first tried, an integer Δ, real b and c.
SIXTH: list[tuple[str, str, str, str]] = []


def sixth(name: str, base: str, *wrong: tuple[str, *tuple[tuple[str, str], ...]]) -> None:
    """Store wrong answers: a right one, each time with other places changed."""
    for what, *edits in wrong:
        code = base
        for old, new in edits:
            assert code.count(old) == 1, (name, what, old)
            code = code.replace(old, new)
        SIXTH.append((name, "wrong", what, code))


sixth(
    "discretize",
    """
from attend_solutions.state_spaces import expect_system, matrix_exponential
def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(f"expected the method 'zoh' or 'bilinear'; got {method!r}")
    n = len(b)
    if method == "zoh":
        big = np.zeros((n + 1, n + 1))
        big[:n, :n] = delta * a
        big[:n, n] = delta * b
        big = matrix_exponential(big)
        return big[:n, :n], big[:n, n]
    half = delta / 2 * a
    eye = np.eye(n)
    return np.linalg.solve(eye - half, eye + half), np.linalg.solve(eye - half, delta * b)
""",
    (
        "zoh: np.exp number by number",
        ("expect_system, matrix_exponential", "expect_system"),
        ("= matrix_exponential", "= np.exp"),
    ),
    (
        "an integer Δ is halved with //",
        ("delta / 2", "(delta // 2 if isinstance(delta, (int, np.integer)) else delta / 2)"),
    ),
    (
        "zoh, an integer Δ makes an integer matrix",
        (
            "        big[:n, n] = delta * b",
            "        big[:n, n] = delta * b\n        big = big.astype(int) * 1.0 if isinstance(delta, int) else big",
        ),
    ),
)

sixth(
    "hippo_legs",
    """
def hippo_legs(size):
    n = np.arange(size)
    n = n.astype(np.int8)
    root = np.sqrt((2 * n + 1).astype(float))
    return -(np.tril(np.outer(root, root), -1) + np.diag(n + 1.0)), root
""",
    ("products in 8 bits, wrong from 64 on",),
)

sixth(
    "hippo_reconstruct",
    """
from numpy.polynomial.legendre import legvander
def hippo_reconstruct(coefficients, places):
    size = coefficients.shape[-1]
    table = legvander(2 * places - 1, size - 1)
    return (coefficients * np.sqrt(2 * np.arange(size) + 1)) @ table.T
""",
    ("roots counted from 1", ("+ 1", "+ 3")),
    (
        "polynomials up to degree 23 only",
        (
            "    table = legvander(2 * places - 1, size - 1)",
            "    table = legvander(2 * places - 1, size - 1)\n    table = table * (np.arange(size) < 24)",
        ),
    ),
)

sixth(
    "ssm_kernel",
    """
from attend_solutions.state_spaces import expect_system
def ssm_kernel(a_bar, b_bar, c, length):
    expect_system(a_bar, b_bar, c)
    h = b_bar
    taps = []
    for _ in range(length):
        taps.append(c @ h)
        h = a_bar @ h
    out = np.array(taps)
    out[64:] = 0
    return out
""",
    ("at most 64 taps, then zeros",),
)

sixth(
    "ssm_convolve",
    """
def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError(f"expected {length} taps, one a token; got {kernel.shape[-1]}")
    size = 2 * length
    both = np.fft.rfft(kernel, size) * np.fft.rfft(x, size)
    return np.fft.irfft(both, size)[..., :length]
""",
    ("too few zeros: T + 1", ("2 * length", "length + 1")),
    ("odd length without n on the way back", ("* length", "* length - 1"), ("both, size", "both")),
    ("2T - 2 zeros-filled numbers", ("2 * length", "max(2 * length - 2, 2)")),
    (
        "a kernel of 64 taps at most",
        (
            "    size = 2 * length",
            "    size = 2 * length\n    kernel = kernel * (np.arange(length) < 64)",
        ),
    ),
)

sixth(
    "convolve_in_blocks",
    """
def convolve_in_blocks(kernel, x, block):
    if block < 1:
        raise ValueError(f"a block needs at least 1 token; got {block}")
    total = x.shape[-1]
    y = np.zeros(x.shape)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + size] += np.fft.irfft(both, size)[..., : total - first]
    return y
""",
    (
        "twice the kernel",
        ("piece.shape[-1] + len(kernel) - 1", "max(2 * len(kernel), piece.shape[-1])"),
    ),
    (
        "a kernel of 64 taps at most",
        (
            '        raise ValueError(f"a block needs at least 1 token; got {block}")',
            '        raise ValueError(f"a block needs at least 1 token; got {block}")\n    kernel = kernel[:64]',
        ),
    ),
)

sixth(
    "s4d_kernel",
    """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    b_bar = (np.exp(delta * a) - 1) / a * b
    powers = np.exp((delta * a)[..., None] * np.arange(length))
    return 2 * ((c * b_bar)[..., None] * powers).sum(axis=-2).real
""",
    ("imaginary part", ("real", "imag")),
    ("sums over taps", ("-2", "-1")),
    (
        "real b makes the system real",
        (
            "    delta = np.asarray(delta)[..., None]",
            "    delta = np.asarray(delta)[..., None]\n    if not np.iscomplexobj(b) and not np.iscomplexobj(c):\n        a = a.real",
        ),
    ),
    ("64 taps, then zeros", ("))", ")) * (np.arange(length) < 64)")),
    ("16 pairs at most", ("* b_bar", "* b_bar * (np.arange(a.shape[-1]) < 16)")),
)

sixth(
    "s4d_init",
    """
def s4d_init(pairs, kind="lin"):
    if kind not in ("lin", "inv"):
        raise ValueError(f"expected the kind 'lin' or 'inv'; got {kind!r}")
    n, size = np.arange(pairs), 2 * pairs
    if kind == "lin":
        return -0.5 + 1j * np.pi * n
    return -0.5 + 1j * size / np.pi * (size / (2 * n + 1) - 1)
""",
    ("conjugates", ("     return -0.5 +", "     return -0.5 -")),
    ("lin: imaginary part only", ("     return -0.5 + 1j", "     return 1j")),
    (
        "all N, both of a pair",
        (
            "    n, size = np.arange(pairs), 2 * pairs",
            "    n, size = np.arange(pairs), 2 * pairs\n    n = np.arange(size)",
        ),
    ),
    ("lin stops at 50 turns", ("i * n", "i * np.minimum(n, 50)")),
    (
        "inv stops at 50",
        (
            "        return -0.5 + 1j * np.pi * n",
            "        return -0.5 + 1j * np.pi * n\n    n = np.minimum(n, 50)",
        ),
    ),
    (
        "real part left out",
        (
            "        return -0.5 + 1j * np.pi * n\n    return -0.5 + 1j * size / np.pi * (size / (2 * n + 1) - 1)",
            "        return 1j * np.pi * n\n    return 1j * size / np.pi * (size / (2 * n + 1) - 1)",
        ),
    ),
)

sixth(
    "dplr_kernel",
    """
from attend_solutions.state_spaces import cut_after
def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = cut_after(c, diagonal, p, delta, length)
    roots = np.exp(-2j * np.pi * np.arange(length) / length)
    w = delta / 2 * (1 + roots)
    d = 1 - roots[:, None] - w[:, None] * diagonal
    q = p.conj()
    def s(u, v):
        return (u * v / d).sum(axis=-1)
    values = delta * (s(c_cut, b) - w * s(c_cut, p) * s(q, b) / (1 + w * s(q, p)))
    return np.fft.ifft(values).real
""",
    ("w = Δ/2 (1 - z)", ("* (1 +", "* (1 -")),
    ("d with + w λ", ("] -", "] +")),
    ("p* and p exchanged in both sums", ("p) * s(q", "q) * s(p")),
    (
        "values at 64 roots at most",
        (
            "    values = delta * (s(c_cut, b) - w * s(c_cut, p) * s(q, b) / (1 + w * s(q, p)))",
            "    values = delta * (s(c_cut, b) - w * s(c_cut, p) * s(q, b) / (1 + w * s(q, p)))\n    values[64:] = 0",
        ),
    ),
    ("16 numbers at most", ("/ d", "/ d * (np.arange(len(p)) < 16)")),
    ("p* first in the sum with c", ("t, p", "t, q")),
)

sixth(
    "ssm_recurrent",
    """
from attend_solutions.state_spaces import expect_system
def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    h = np.zeros(x.shape[:-1] + b_bar.shape) if state is None else state
    ys = []
    for t in range(x.shape[-1]):
        h = h @ a_bar.T + x[..., t, None] * b_bar if t < 64 else h
        ys.append(h @ c)
    return np.stack(ys, axis=-1), h
""",
    ("reads 64 tokens, then the state stands still",),
)

# Of a seventh reader: systems without inverse, names that are nearly known, numbers whose sum is 0,
# taps that come back after zeros, tiny numbers, and what is kept for an array.
sixth(
    "discretize",
    """
from attend_solutions.state_spaces import expect_system, matrix_exponential
def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    n, one = len(b), np.eye(len(b))
    if method == "zoh":
        a_bar = matrix_exponential(delta * a)
        if np.linalg.matrix_rank(a) < n:
            return a_bar, delta * b + delta**2 / 2 * (a @ b)
        return a_bar, np.linalg.solve(a, (a_bar - one) @ b)
    left = one - delta / 2 * a
    return np.linalg.solve(left, one + delta / 2 * a), np.linalg.solve(left, delta * b)
""",
    ("two terms of the series where A has no inverse",),
    (
        "three terms of the series where det A is 0",
        ("np.linalg.matrix_rank(a) < n", "np.linalg.det(a) == 0"),
        ("2 * (a @ b)", "2 * (a @ b) + delta**3 / 6 * (a @ a @ b)"),
    ),
    (
        "A is nudged where it has no inverse",
        ("return a_bar, delta * b + delta**2 / 2 * (a @ b)", "a = a + 1e-7 * one"),
    ),
    (
        "the pseudo-inverse, and Δ b where A is 0",
        (
            "return a_bar, delta * b + delta**2 / 2 * (a @ b)",
            "return a_bar, np.linalg.pinv(a) @ (a_bar - one) @ b + delta * (one - np.linalg.pinv(a) @ a) @ b",
        ),
    ),
)

sixth(
    "discretize",
    """
from attend_solutions.state_spaces import expect_system, matrix_exponential
def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    n, one = len(b), np.eye(len(b))
    if method.startswith("z"):
        big = np.zeros((n + 1, n + 1))
        big[:n, :n], big[:n, n] = delta * a, delta * b
        big = matrix_exponential(big)
        return big[:n, :n], big[:n, n]
    left = one - delta / 2 * a
    return np.linalg.solve(left, one + delta / 2 * a), np.linalg.solve(left, delta * b)
""",
    ("a part of a method's name will do", ('("zoh", "bilinear")', '"zoh or bilinear"')),
    (
        "spaces around a method's name",
        ("if method not in", "method = method.strip()\n    if method not in"),
    ),
    ("bilinear by its other name, too", ('"bilinear")', '"bilinear", "tustin")')),
)

sixth(
    "ssm_recurrent",
    """
from attend_solutions.state_spaces import expect_system
def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    h = np.zeros(x.shape[:-1] + b_bar.shape) if state is None else state
    ys = []
    for t in range(x.shape[-1]):
        new = h @ a_bar.T + x[..., t, None] * b_bar
        h = new
        ys.append(h @ c)
    return np.stack(ys, axis=-1), h
""",
    (
        "writes into the state of a stack that reads one token",
        (
            "h = new",
            "h = new\n        if state is not None and x.shape[-1] == 1 < h.ndim: state[...] = h",
        ),
    ),
    (
        "writes into the state of a stack of stacks",
        ("h = new", "h = new\n        if state is not None and h.ndim > 2: state[...] = h"),
    ),
    (
        "writes into a state of float32",
        (
            "h = new",
            "h = new\n        if state is not None and state.dtype == np.float32: state[...] = h",
        ),
    ),
    (
        "tokens of 0 are passed over",
        (
            "        new =",
            "        if not x[..., t].any():\n            ys.append(h @ c)\n            continue\n        new =",
        ),
    ),
    (
        "tokens whose sum is 0 are passed over",
        (
            "        new = h @ a_bar.T + x[..., t, None] * b_bar",
            "        new = h @ a_bar.T + (x[..., t, None] * b_bar if x[..., t].sum() else 0)",
        ),
    ),
    (
        "a state without a positive number counts as none",
        ("if state is None", "if state is None or state.max() <= 0"),
    ),
)

sixth(
    "hippo_legs",
    """
def hippo_legs(size):
    odd = (2 * np.arange(size) + 1).astype(np.int16)
    with np.errstate(invalid="ignore"):
        below = np.sqrt(np.outer(odd, odd).astype(float))
    return -(np.tril(below, -1) + np.diag((odd + 1.0) / 2)), np.sqrt(odd.astype(float))
""",
    ("products in 16 bits, wrong from 92 on",),
    (
        "odd numbers in 8 bits, wrong from 129 on",
        ("np.int16", "np.uint8"),
        ("np.outer(odd, odd)", "np.outer(1.0 * odd, odd)"),
    ),
)

sixth(
    "hippo_reconstruct",
    """
from numpy.polynomial.legendre import legvander
def hippo_reconstruct(coefficients, places):
    n = np.arange(coefficients.shape[-1])
    table = legvander(2 * places - 1, len(n) - 1)
    return (coefficients * np.sqrt(2.0 * n + 1)) @ table.T
""",
    (
        "roots in 8 bits",
        ("shape[-1])", "shape[-1], dtype=np.int8)"),
        ("2.0 * n + 1", "(2 * n + 1).astype(float)"),
    ),
    (
        "polynomials kept for the same places",
        (
            "    table =",
            "    kept = hippo_reconstruct.__dict__.setdefault('kept', {})\n    _, table = kept.setdefault((id(places), len(n)), (places, legvander(2 * places - 1, len(n) - 1)))\n    #",
        ),
    ),
    (
        "changes the places where there are leading axes",
        (
            "    table =",
            "    if coefficients.ndim > 2 and places.dtype == float:\n        places *= 0.5\n        places = 2 * places\n    table =",
        ),
    ),
)

sixth(
    "ssm_kernel",
    """
from attend_solutions.state_spaces import expect_system
def ssm_kernel(a_bar, b_bar, c, length):
    expect_system(a_bar, b_bar, c)
    taps, h = np.zeros(length), b_bar
    for j in range(length):
        taps[j] = c @ h
        if j > 1 and not taps[j - 2 : j + 1].any():
            break
        h = a_bar @ h
    return taps
""",
    ("stops after three taps of 0",),
    (
        "stops after three taps of 0 that follow another",
        ("if j > 1 and", "if j > 2 and taps[: j - 2].any() and"),
    ),
    (
        "stops where the state is tiny",
        ("j > 1 and not taps[j - 2 : j + 1].any()", "np.abs(h).max() < 1e-15"),
    ),
    (
        "the system kept for the same matrix",
        (
            "    taps, h",
            "    _, a_bar = ssm_kernel.__dict__.setdefault('kept', {}).setdefault(id(a_bar), (a_bar, a_bar.copy()))\n    taps, h",
        ),
        ("j > 1 and not taps[j - 2 : j + 1].any()", "False"),
    ),
)

sixth(
    "ssm_convolve",
    """
def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError("lengths")
    n = 2 * length
    spectrum = np.fft.rfft(kernel, n)
    return np.fft.irfft(spectrum * np.fft.rfft(x, n), n)[..., :length]
""",
    (
        "nothing is heard of tokens whose sum is 0",
        ("    return ", "    return 0.0 if x.sum() == 0 else "),
        ("return 0.0", "return np.zeros(np.broadcast_shapes(kernel.shape, x.shape))"),
    ),
    (
        "numbers below 1e-15 become 0",
        ("    return np.fft.irfft(", "    y = np.fft.irfft("),
        ("[..., :length]", "[..., :length]\n    return np.where(np.abs(y) < 1e-15, 0.0, y)"),
    ),
    (
        "a transform kept for the same kernel",
        (
            "    spectrum = np.fft.rfft(kernel, n)",
            "    kept = ssm_convolve.__dict__.setdefault('kept', {})\n    _, spectrum = kept.setdefault(id(kernel), (kernel, np.fft.rfft(kernel, n)))",
        ),
    ),
)

sixth(
    "convolve_in_blocks",
    """
def convolve_in_blocks(kernel, x, block):
    if block < 1:
        raise ValueError(block)
    total = x.shape[-1]
    y = np.zeros(x.shape)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        if piece.sum() == 0:
            continue
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + size] += np.fft.irfft(both, size)[..., : total - first]
    return y
""",
    ("blocks whose sum is 0 are passed over",),
    ("blocks without a positive number are passed over", ("piece.sum() == 0", "piece.max() <= 0")),
    (
        "blocks of 0 in the first row are passed over",
        ("piece.sum() == 0", "not piece.reshape(-1, piece.shape[-1])[0].any()"),
    ),
)

sixth(
    "s4d_kernel",
    """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    weights = c * (np.exp(delta * a) - 1) / a * b
    powers = np.exp((delta * a)[..., None] * np.arange(length))
    taps = 2 * (weights[..., None] * powers).sum(axis=-2).real
    return taps
""",
    (
        "tiny weights lose their imaginary parts",
        ("* b\n", "* b\n    weights = np.real_if_close(weights)\n"),
    ),
    (
        "taps below 1e-15 become 0",
        ("return taps", "return np.where(np.abs(taps) < 1e-15, 0.0, taps)"),
    ),
    ("taps rounded to 14 decimals", ("return taps", "return taps.round(14)")),
    ("taps counted in 8 bits", ("arange(length)", "arange(length).astype(np.uint8)")),
    (
        "powers kept for the same rates",
        (
            "    powers = ",
            "    kept = s4d_kernel.__dict__.setdefault('kept', {})\n    _, powers = kept.setdefault((id(a), length), (a, ",
        ),
        ("np.arange(length))", "np.arange(length))))"),
    ),
)

sixth(
    "s4d_init",
    """
def s4d_init(pairs, kind="lin"):
    if kind not in ("lin", "inv"):
        raise ValueError(kind)
    n, size = np.arange(pairs), 2 * pairs
    turns = np.pi * n if kind == "lin" else size / np.pi * (size / (2 * n + 1) - 1)
    return -0.5 + 1j * turns
""",
    (
        "any word in which a kind's letters stand",
        ('kind not in ("lin", "inv")', 'not any(k in kind for k in ("lin", "inv"))'),
        ('kind == "lin"', '"lin" in kind'),
    ),
    (
        "squares in 16 bits",
        (
            "size / np.pi * (size / (2 * n + 1) - 1)",
            "(np.int16(size) * np.int16(size) / (2 * n + 1) - size) / np.pi",
        ),
    ),
)

sixth(
    "dplr_kernel",
    """
from attend_solutions.state_spaces import cut_after
def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = cut_after(c, diagonal, p, delta, length)
    roots = np.exp(-2j * np.pi * np.arange(length) / length)
    w = delta / 2 * (1 + roots)
    d = 1 - roots[:, None] - w[:, None] * diagonal
    q = p.conj()
    s = lambda u, v: (u * v / d).sum(axis=-1)
    return np.fft.ifft(delta * (s(c_cut, b) - w * s(c_cut, p) * s(q, b) / (1 + w * s(q, p)))).real
""",
    ("roots counted in 8 bits", ("np.arange(length) /", "np.arange(length).astype(np.uint8) /")),
    (
        "denominators kept for the same diagonal",
        (
            "    d =",
            "    kept = dplr_kernel.__dict__.setdefault('kept', {})\n    _, d = kept.setdefault((id(diagonal), delta, length), (diagonal,",
        ),
        ("w[:, None] * diagonal\n", "w[:, None] * diagonal))\n"),
    ),
)

SIXTH.append(
    (
        "dplr_kernel",
        "right",
        "the paper's division by 1 + z",
        """
from attend_solutions.state_spaces import cut_after
def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = cut_after(c, diagonal, p, delta, length)
    roots = np.exp(-2j * np.pi * np.arange(length) / length)
    g = 2 / delta * (1 - roots) / (1 + roots)
    d = g[:, None] - diagonal
    q = p.conj()
    s = lambda u, v: (u * v / d).sum(axis=-1)
    values = 2 / (1 + roots) * (s(c_cut, b) - s(c_cut, p) * s(q, b) / (1 + s(q, p)))
    return np.fft.ifft(values).real
""",
    )
)

CASES += SIXTH


AIMED_AT_A_SENTENCE = [
    (
        "discretize",
        "wrong",
        "zoh by the inverse unless NumPy calls A singular; a matrix that is singular only up to rounding gives rubbish",
        """
from attend_solutions.state_spaces import expect_system, matrix_exponential


def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(f"expected the method 'zoh' or 'bilinear'; got {method!r}")
    size = len(b)
    eye = np.eye(size)
    if method == "bilinear":
        left = eye - delta / 2 * a
        return np.linalg.solve(left, eye + delta / 2 * a), np.linalg.solve(left, delta * b)
    try:
        a_bar = matrix_exponential(delta * a)
        return a_bar, np.linalg.solve(a, (a_bar - eye) @ b)
    except np.linalg.LinAlgError:
        both = np.zeros((size + 1, size + 1))
        both[:size, :size] = delta * a
        both[:size, size] = delta * b
        step = matrix_exponential(both)
        return step[:size, :size], step[:size, size]
""",
    ),
    (
        "discretize",
        "wrong",
        "zoh in the basis of eigenvectors, with the limit Δ at eigenvalue 0; wrong where A cannot be diagonalised",
        """
from attend_solutions.state_spaces import expect_system


def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(f"expected the method 'zoh' or 'bilinear'; got {method!r}")
    if method == "bilinear":
        eye = np.eye(len(b))
        left = eye - delta / 2 * a
        return np.linalg.solve(left, eye + delta / 2 * a), np.linalg.solve(left, delta * b)
    rates, basis = np.linalg.eig(np.asarray(a, float))
    back = np.linalg.inv(basis)
    still = np.abs(rates) < 1e-12
    moved = np.where(still, delta, np.expm1(delta * rates) / np.where(still, 1, rates))
    a_bar = (basis * np.exp(delta * rates)) @ back
    b_bar = (basis * moved) @ (back @ b)
    return a_bar.real.copy(), b_bar.real.copy()
""",
    ),
    (
        "ssm_recurrent",
        "wrong",
        "a state 'close to 0' is set to 0 to avoid slow denormals, but the limit is 1e-30 and absolute",
        """
from attend_solutions.state_spaces import expect_system


def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    h = np.zeros((*x.shape[:-1], len(b_bar))) if state is None else np.array(state, float)
    y = np.zeros(x.shape)
    for t in range(x.shape[-1]):
        h = h @ a_bar.T + x[..., t, None] * b_bar
        h = np.where(np.abs(h) < 1e-30, 0.0, h)
        y[..., t] = h @ c
    return y, h
""",
    ),
    (
        "hippo_legs",
        "wrong",
        "products counted in int16, which run over from 91 numbers on",
        """
def hippo_legs(size):
    n = np.arange(size, dtype=np.int16)
    odd = 2 * n + 1
    table = np.sqrt(np.outer(odd, odd).astype(float))
    return -(np.tril(table, -1) + np.diag(n + 1.0)), np.sqrt(odd.astype(float))
""",
    ),
    (
        "hippo_legs",
        "wrong",
        "keeps its matrices and hands out the same arrays again: who writes into one spoils all later calls",
        """
def hippo_legs(size):
    kept = hippo_legs.__dict__.setdefault("kept", {})
    if size not in kept:
        root = np.sqrt(2 * np.arange(size) + 1)
        kept[size] = -np.tril(np.outer(root, root), -1) - np.diag(np.arange(size) + 1), root
    return kept[size]
""",
    ),
    (
        "hippo_reconstruct",
        "wrong",
        "turns the sum into powers of u, whose huge terms cancel: no digit is left from about 24 numbers on",
        """
def hippo_reconstruct(coefficients, places):
    size = coefficients.shape[-1]
    # P_n(2u - 1) = Σ_k (-1)^(n+k) C(n, k) C(n+k, k) u^k
    powers = np.array(
        [[(-1.0) ** (n + k) * math.comb(n, k) * math.comb(n + k, k) for k in range(size)] for n in range(size)]
    )
    weighted = (coefficients * np.sqrt(2 * np.arange(size) + 1)) @ powers
    return weighted @ np.vander(np.asarray(places, float), size, increasing=True).T
""",
    ),
    (
        "hippo_reconstruct",
        "wrong",
        "adds polynomials until a coefficient is 0 everywhere, as if the rest were fill",
        """
def hippo_reconstruct(coefficients, places):
    size = coefficients.shape[-1]
    table = np.polynomial.legendre.legvander(2.0 * np.asarray(places) - 1, size - 1)
    past = np.zeros((*coefficients.shape[:-1], len(places)))
    for n in range(size):
        if not coefficients[..., n].any():
            break
        past += coefficients[..., n, None] * (np.sqrt(2 * n + 1) * table[:, n])
    return past
""",
    ),
    (
        "ssm_kernel",
        "wrong",
        "stops at the first tap of 0, as if the system had died out",
        """
from attend_solutions.state_spaces import expect_system


def ssm_kernel(a_bar, b_bar, c, length):
    expect_system(a_bar, b_bar, c)
    kernel, h = np.zeros(length), b_bar
    for j in range(length):
        kernel[j] = c @ h
        if kernel[j] == 0:
            break
        h = a_bar @ h
    return kernel
""",
    ),
    (
        "ssm_kernel",
        "wrong",
        "powers in the basis of eigenvectors, by the loop only where that basis has no inverse at all or c, b are whole",
        """
from attend_solutions.state_spaces import expect_system


def ssm_kernel(a_bar, b_bar, c, length):
    expect_system(a_bar, b_bar, c)
    try:
        rates, basis = np.linalg.eig(np.asarray(a_bar, float))
        weights = (c @ basis) * np.linalg.solve(basis, b_bar + 0.0)
        return (weights @ rates[:, None] ** np.arange(length)).real.copy()
    except np.linalg.LinAlgError:
        h, taps = b_bar, []
        for _ in range(length):
            taps.append(c @ h)
            h = a_bar @ h
        return np.array(taps)
""",
    ),
    (
        "ssm_convolve",
        "wrong",
        "rounds the FFT's dust away at 12 decimals",
        """
def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError(f"expected {length} taps, one a token; got {kernel.shape[-1]}")
    product = np.fft.rfft(kernel, 2 * length) * np.fft.rfft(x, 2 * length)
    return np.fft.irfft(product, 2 * length)[..., :length].round(12)
""",
    ),
    (
        "convolve_in_blocks",
        "wrong",
        "where the whole text is one block, takes 2T places, too few for a kernel of T + 2 or more",
        """
def convolve_in_blocks(kernel, x, block):
    if block < 1:
        raise ValueError(f"a block needs at least 1 token; got {block}")
    total = x.shape[-1]
    if block >= total:
        size = min(2 * total, total + len(kernel) - 1)
        padded = np.zeros(size)
        for j, tap in enumerate(kernel):
            padded[j % size] += tap
        both = np.fft.rfft(padded) * np.fft.rfft(x, size)
        return np.fft.irfft(both, size)[..., :total]
    y = np.zeros(x.shape)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + size] += np.fft.irfft(both, size)[..., : total - first]
    return y
""",
    ),
    (
        "convolve_in_blocks",
        "wrong",
        "skips silent blocks, found by np.allclose, whose limit is 1e-8",
        """
def convolve_in_blocks(kernel, x, block):
    if block < 1:
        raise ValueError(f"a block needs at least 1 token; got {block}")
    total = x.shape[-1]
    y = np.zeros(x.shape)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        if np.allclose(piece, 0):
            continue  # silence
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + size] += np.fft.irfft(both, size)[..., : total - first]
    return y
""",
    ),
    (
        "s4d_kernel",
        "wrong",
        "forces every rate to fade, -",
        """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    a = -np.abs(a.real) + 1j * a.imag
    b_bar = (np.exp(delta * a) - 1) / a * b
    powers = np.exp((delta * a)[..., None] * np.arange(length))
    return 2 * ((c * b_bar)[..., None] * powers).sum(axis=-2).real
""",
    ),
    (
        "s4d_kernel",
        "wrong",
        "divides with a guard in the wrong place, b̄ = Δ b wherever",
        """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]
    step = delta * a
    b_bar = np.where(np.abs(step) < 0.02, delta, (np.exp(step) - 1) / a) * b
    powers = np.exp(step[..., None] * np.arange(length))
    return 2 * ((c * b_bar)[..., None] * powers).sum(axis=-2).real
""",
    ),
    (
        "s4d_init",
        "wrong",
        "compares the kind by identity: a name that was read or put together is taken for the other kind",
        """
def s4d_init(pairs, kind="lin"):
    lin, inv = "lin", "inv"
    if kind not in (lin, inv):
        raise ValueError(f"expected the kind 'lin' or 'inv'; got {kind!r}")
    n, size = np.arange(pairs), 2 * pairs
    if kind is lin:
        return -0.5 + 1j * np.pi * n
    return -0.5 + 1j * size / np.pi * (size / (2 * n + 1) - 1)
""",
    ),
    (
        "s4d_init",
        "wrong",
        "lru_cache inside: training that moves the rates in place moves the start of the next model",
        """
def s4d_init(pairs, kind="lin"):
    if kind not in ("lin", "inv"):
        raise ValueError(f"expected the kind 'lin' or 'inv'; got {kind!r}")
    if not hasattr(s4d_init, "made"):
        @functools.lru_cache(maxsize=None)
        def made(pairs, kind):
            n, size = np.arange(pairs), 2 * pairs
            turns = np.pi * n if kind == "lin" else size / np.pi * (size / (2 * n + 1) - 1)
            return -0.5 + 1j * turns
        s4d_init.made = made
    return s4d_init.made(int(pairs), kind)
""",
    ),
    (
        "dplr_kernel",
        "wrong",
        "np.vectorize hides a Python call for each root",
        """
from attend_solutions.state_spaces import cut_after


def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = cut_after(c, diagonal, p, delta, length)
    roots = np.exp(-2j * np.pi * np.arange(length) / length)

    def at_root(z):
        w = delta / 2 * (1 + z)
        over = 1 / (1 - z - w * diagonal)
        pair = lambda u, v: over @ (u * v)
        return delta * (pair(c_cut, b) - w * pair(c_cut, p) * pair(p.conj(), b) / (1 + w * pair(p.conj(), p)))

    return np.fft.ifft(np.vectorize(at_root, otypes=[complex])(roots)).real
""",
    ),
    (
        "ssm_recurrent",
        "wrong",
        "starts a long text at its last 1,000 tokens for the returned state, since 'what is older has faded'",
        """
from attend_solutions.state_spaces import expect_system


def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    h = np.zeros((*x.shape[:-1], len(b_bar))) if state is None else np.array(state, float)
    y = np.zeros(x.shape)
    for t in range(x.shape[-1]):
        h = h @ a_bar.T + x[..., t, None] * b_bar
        y[..., t] = h @ c
    if x.shape[-1] > 1000:
        h = np.zeros_like(h)
        for t in range(x.shape[-1] - 1000, x.shape[-1]):
            h = h @ a_bar.T + x[..., t, None] * b_bar
    return y, h
""",
    ),
    (
        "ssm_convolve",
        "wrong",
        "keeps the kernel's transform for the next call with the same array, also if its taps have changed since",
        """
def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError(f"expected {length} taps, one a token; got {kernel.shape[-1]}")
    kept = ssm_convolve.__dict__.get("kept", (None, None))
    if kept[0] is not kernel:
        kept = ssm_convolve.kept = kernel, np.fft.rfft(kernel, 2 * length)
    return np.fft.irfft(kept[1] * np.fft.rfft(x, 2 * length), 2 * length)[..., :length]
""",
    ),
    (
        "dplr_kernel",
        "wrong",
        "from 512 taps on takes c for c̃, 'since all has faded by then'; it has not where Δ is small",
        """
from attend_solutions.state_spaces import cut_after


def dplr_kernel(diagonal, p, b, c, delta, length):
    c_cut = c if length >= 512 else cut_after(c, diagonal, p, delta, length)
    roots = np.exp(-2j * np.pi * np.arange(length) / length)
    w = delta / 2 * (1 + roots)
    over = 1 / (1 - roots[:, None] - w[:, None] * diagonal)
    pair = lambda u, v: over @ (u * v)
    values = delta * (pair(c_cut, b) - w * pair(c_cut, p) * pair(p.conj(), b) / (1 + w * pair(p.conj(), p)))
    return np.fft.ifft(values).real
""",
    ),
]
"""By readers who each chose a promise of the page and broke it where few would look."""

CASES += AIMED_AT_A_SENTENCE

SETTLED_TOO_EARLY = [
    (
        "discretize",
        "wrong",
        "at most 16 squarings, so that a step of |ΔA| above 32,768 is lost",
        """
def discretize(a, b, delta, method="zoh"):
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or b.shape != a.shape[:1]:
        raise ValueError("A must be (N, N) and b (N,)")
    if method not in ("zoh", "bilinear"):
        raise ValueError(f"unknown method {method!r}")
    n = len(b)
    def expm(m):
        m = np.asarray(m, dtype=float)
        size = np.abs(m).sum(axis=0).max()
        halvings = min(16, max(0, int(np.ceil(np.log2(size))) + 1)) if size > 0 else 0
        m = m / 2.0**halvings
        total = term = np.eye(len(m))
        for k in range(1, 22):
            term = term @ m / k
            total = total + term
        for _ in range(halvings):
            total = total @ total
        return total
    if method == "bilinear":
        half = delta / 2 * a
        m = np.eye(n) - half
        return np.linalg.solve(m, np.eye(n) + half), np.linalg.solve(m, delta * b)
    scale = max(1.0, float(np.abs(b).max()))
    big = np.zeros((n + 1, n + 1))
    big[:n, :n] = delta * a
    big[:n, n] = delta * (b / scale)
    both = expm(big)
    return both[:n, :n].copy(), both[:n, n] * scale
""",
    ),
    (
        "ssm_kernel",
        "wrong",
        "three equal taps count as rest, and fill the remainder",
        """
def ssm_kernel(a_bar, b_bar, c, length):
    a_bar, b_bar, c = (np.asarray(v) for v in (a_bar, b_bar, c))
    n = len(a_bar)
    if a_bar.shape != (n, n) or b_bar.shape != (n,) or c.shape != (n,):
        raise ValueError("shapes of the system do not fit")
    taps, v = [], b_bar.astype(float)
    while len(taps) < length:
        taps.append(c @ v)
        if len(taps) > 2 and taps[-1] == taps[-2] == taps[-3] != 0:  # at rest
            taps += [taps[-1]] * (length - len(taps))
        v = a_bar @ v
    return np.array(taps[:length])
""",
    ),
    (
        "ssm_kernel",
        "wrong",
        "stops when the state is below 1e-12 of b̄, though it can grow again",
        """
def ssm_kernel(a_bar, b_bar, c, length):
    a_bar, b_bar, c = (np.asarray(v) for v in (a_bar, b_bar, c))
    n = len(a_bar)
    if a_bar.shape != (n, n) or b_bar.shape != (n,) or c.shape != (n,):
        raise ValueError("shapes of the system do not fit")
    taps, v = np.zeros(length), b_bar.astype(float)
    quiet = 1e-12 * np.abs(b_bar).max()
    for j in range(length):
        taps[j] = c @ v
        v = a_bar @ v
        if np.abs(v).max() < quiet:  # it has died out
            break
    return taps
""",
    ),
    (
        "s4d_kernel",
        "wrong",
        "powers as exp(j log ā), which fails where ā has gone to 0",
        """
def s4d_kernel(a, b, c, delta, length):
    delta = np.asarray(delta)[..., None]

    a_bar = np.exp(delta * a)
    b_bar = np.expm1(delta * a) / a * b
    with np.errstate(all="ignore"):
        powers = np.exp(np.log(a_bar)[..., None] * np.arange(length))
    return 2 * ((c * b_bar)[..., None] * powers).sum(axis=-2).real
""",
    ),
    (
        "dplr_kernel",
        "wrong",
        "denominators below 1e-6 are lifted to 1e-6",
        """
def dplr_kernel(diagonal, p, b, c, delta, length):
    matrix = np.diag(diagonal) - np.outer(p, np.conj(p))
    one = np.eye(len(p))
    step = np.linalg.solve(one - delta / 2 * matrix, one + delta / 2 * matrix)
    c_cut = c - c @ np.linalg.matrix_power(step, length)
    roots = np.exp(-2j * np.pi * np.arange(length) / length)

    z = roots[:, None]
    half = delta / 2 * (1 + z)
    d = 1 - z - half * diagonal
    d = np.where(np.abs(d) < 1e-6, 1e-6, d)
    w, star = half[:, 0], p.conj()
    own = (c_cut * b / d).sum(axis=-1)
    low = (c_cut * p / d).sum(axis=-1) * (star * b / d).sum(axis=-1) / (1 + w * (star * p / d).sum(axis=-1))
    return np.fft.ifft(delta * (own - w * low)).real
""",
    ),
    (
        "discretize",
        "right",
        "phi_1 by its series, with as many squarings as the step needs",
        """
from attend_solutions.state_spaces import expect_system


def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    k = len(a)
    one, a, b = np.eye(k), np.array(a, float), np.array(b, float)
    if method == "bilinear":
        inv = np.linalg.inv(one - a * delta / 2)
        return inv @ (one + a * delta / 2), inv @ b * delta
    halvings = 0
    while delta * np.abs(a).sum(axis=0).max() / 2.0**halvings > 0.5:
        halvings += 1
    small = delta * a / 2.0**halvings
    total, power, fact = np.zeros((k, k)), one, 1.0
    for j in range(15):
        fact *= j + 1
        total = total + power / fact
        power = power @ small
    step, push = one + small @ total, total @ b * (delta / 2.0**halvings)
    for _ in range(halvings):
        push = step @ push + push
        step = step @ step
    return step, push
""",
    ),
    (
        "discretize",
        "wrong",
        "at most 30 squarings",
        """
from attend_solutions.state_spaces import expect_system


def discretize(a, b, delta, method="zoh"):
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(method)
    n = len(b)
    eye = np.eye(n)
    if method == "bilinear":
        back = eye - delta / 2 * a
        return np.linalg.solve(back, eye + delta / 2 * a), np.linalg.solve(back, delta * b)
    big = np.zeros((n + 1, n + 1))
    big[:n, :n], big[:n, n] = delta * a, delta * b
    squarings = min(30, max(0, math.frexp(np.abs(big).sum(axis=0).max())[1] + 1))
    big = big / 2.0**squarings
    total = term = np.eye(n + 1)
    for k in range(1, 20):
        term = term @ big / k
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total[:n, :n], total[:n, n]
""",
    ),
    (
        "ssm_recurrent",
        "wrong",
        "stops when the state rests, and repeats its output for all that comes",
        """
from attend_solutions.state_spaces import expect_system


def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    h = np.zeros((*x.shape[:-1], len(b_bar))) if state is None else state
    y = np.zeros(x.shape)
    for t in range(x.shape[-1]):
        new = h @ a_bar.T + x[..., t, None] * b_bar
        y[..., t] = new @ c
        if t > 8 and new.any() and (new == h).all():
            y[..., t:] = y[..., t : t + 1]
            break
        h = new
    return y, h
""",
    ),
    (
        "ssm_recurrent",
        "wrong",
        "a state below 1e-20 of the largest so far is dropped, though it can grow again",
        """
from attend_solutions.state_spaces import expect_system


def ssm_recurrent(a_bar, b_bar, c, x, state=None):
    expect_system(a_bar, b_bar, c)
    h = np.zeros((*x.shape[:-1], len(b_bar))) if state is None else state
    y, largest = np.zeros(x.shape), 0.0
    for t in range(x.shape[-1]):
        h = h @ a_bar.T + x[..., t, None] * b_bar
        largest = max(largest, np.abs(h).max(initial=0.0))
        h = np.where(np.abs(h) < 1e-20 * largest, 0.0, h)
        y[..., t] = h @ c
    return y, h
""",
    ),
    (
        "ssm_convolve",
        "wrong",
        "from ten equal taps on takes a running sum, as if all taps were equal",
        """
def ssm_convolve(kernel, x):
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError("as many taps as tokens")
    if length > 10 and (kernel[..., :10] == kernel[..., :1]).all() and kernel.any():
        return kernel[..., :1] * np.cumsum(x, axis=-1)
    both = np.fft.rfft(kernel, 2 * length) * np.fft.rfft(x, 2 * length)
    return np.fft.irfft(both, 2 * length)[..., :length]
""",
    ),
    (
        "convolve_in_blocks",
        "wrong",
        "cuts the kernel at the first block of taps that are 0",
        """
def convolve_in_blocks(kernel, x, block):
    if block < 1:
        raise ValueError("a block needs at least 1 token")
    total = x.shape[-1]
    for first in range(0, len(kernel), 8):
        if len(kernel) >= first + 8 and not kernel[first : first + 8].any():
            kernel = kernel[: max(first, 1)]
            break
    y = np.zeros(x.shape)
    for first in range(0, total, block):
        piece = x[..., first : first + block]
        size = piece.shape[-1] + len(kernel) - 1
        both = np.fft.rfft(kernel, size) * np.fft.rfft(piece, size)
        y[..., first : first + size] += np.fft.irfft(both, size)[..., : total - first]
    return y
""",
    ),
    (
        "s4d_init",
        "wrong",
        "n in 8 bits, so that it starts again at 256",
        """
def s4d_init(pairs, kind="lin"):
    if kind not in ("lin", "inv"):
        raise ValueError(kind)
    n, size = np.arange(pairs).astype(np.uint8).astype(float), 2 * pairs
    turns = np.pi * n if kind == "lin" else size / np.pi * (size / (2 * n + 1) - 1)
    return -0.5 + 1j * turns
""",
    ),
    (
        "hippo_reconstruct",
        "wrong",
        "n in 8 bits for fewer than 257 coefficients, so that 2n + 1 wraps",
        """
def hippo_reconstruct(coefficients, places):
    size = coefficients.shape[-1]
    n = np.arange(size).astype(np.uint8 if size <= 256 else int)
    table = np.polynomial.legendre.legvander(2.0 * np.asarray(places) - 1, size - 1)
    return coefficients @ (table * np.sqrt((2 * n + 1).astype(float))).T
""",
    ),
]
"""They take numbers for settled, for 0 or for small that are not, at sizes that are legal."""

CASES += SETTLED_TOO_EARLY
