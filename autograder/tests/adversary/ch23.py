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
            "a_bar @ h for one state only": recurrent(move="(a_bar @ h if h.ndim == 1 else h @ a_bar) + x[..., t, None] * b_bar"),
            "reads before it writes": recurrent(move="h", read="(h * c).sum(-1)); h = (h @ a_bar.T + x[..., t, None] * b_bar"),
            "empty state always": recurrent(start="h = np.zeros(x.shape[:-1] + (len(c),))"),
            "`if not state`": recurrent(start="h = state if np.any(state) else np.ones(x.shape[:-1] + (len(c),))"),
            "writes into the given state": recurrent(
                move="np.add(h @ a_bar.T, x[..., t, None] * b_bar, out=h if h.dtype == float else None)",
            ),
            "integer state": recurrent(start="h = np.zeros(x.shape[:-1] + (len(c),), dtype=x.dtype) if state is None else state\n    h = h.copy()", move="np.asarray(h @ a_bar.T + x[..., t, None] * b_bar, dtype=h.dtype)"),
            "no leading axes": recurrent(start="h = np.zeros(len(c)) if state is None else state", move="a_bar @ h + b_bar * x[t]", steps="len(x)"),
            "time along the first axis": recurrent(back="np.stack(ys, 0), h"),
            "last token left out": recurrent(steps="max(1, x.shape[-1] - 1)"),
            "all states returned": recurrent(start="h = np.zeros(x.shape[:-1] + (len(c),)) if state is None else state; hs = []", read="(h * c).sum(-1)); hs.append(h", back="np.stack(ys, -1), np.stack(hs, -2)"),
            "output divided by N": recurrent(read="(h * c).mean(-1)"),
        },
        {
            "as it is": recurrent(),
            "matmul of columns": recurrent(move="(a_bar @ h[..., None])[..., 0] + np.multiply.outer(x[..., t], b_bar)", read="h.dot(c)"),
            "through the kernel": IMPORTS + """
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
            "no guard": taps(guard="pass", read="(c[: len(v)] * v[: len(c)]).sum()", move="a_bar @ v"),
        },
        {
            "as it is": taps(),
            "eigendecomposition": IMPORTS + """
def ssm_kernel(a_bar, b_bar, c, length):
    expect_system(a_bar, b_bar, c)
    values, v = np.linalg.eig(a_bar)
    if np.linalg.cond(v) > 1e4:
        return np.array([c @ np.linalg.matrix_power(a_bar, j) @ b_bar for j in range(length)], float)
    weights = (c @ v) * np.linalg.solve(v, b_bar.astype(complex))
    return (weights * values ** np.arange(length)[:, None]).sum(1).real
""",
            "recurrence on an impulse": IMPORTS + """
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
            "fft of all axes": convolve(undo="np.fft.irfft(np.fft.rfft(kernel, n) * np.fft.rfft(x, n, axis=0 if x.ndim == 2 and x.shape[0] == T else -1), n)"),
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
            "complex": convolve(first="np.fft.fft(kernel, n)", second="np.fft.fft(x, n)", undo="np.fft.ifft(f).real"),
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
            "length of the kernel": blocks(n="K", full="np.fft.irfft(np.fft.rfft(p, n) * np.fft.rfft(kernel, n), n)"),
            "L + K − 2": blocks(n="max(1, p.shape[-1] + K - 2)"),
            "irfft without n": blocks(full="np.fft.irfft(np.fft.rfft(p, n) * np.fft.rfft(kernel, n))", add="y[..., s:s + full.shape[-1]] += full"),
            "tails thrown away": blocks(add="y[..., s:s + p.shape[-1]] += full[..., :p.shape[-1]]"),
            "2 block": blocks(n="2 * block"),
            "kernel cut to a block": blocks(before="kernel = kernel[:block]; K = len(kernel)"),
            "integer y": blocks(room="x.shape[:-1] + (T + K + block,), x.dtype", full="np.rint(np.fft.irfft(np.fft.rfft(p, n) * np.fft.rfft(kernel, n), n)).astype(x.dtype) if x.dtype.kind == 'i' else np.fft.irfft(np.fft.rfft(p, n) * np.fft.rfft(kernel, n), n)"),
            "answer too long": blocks(back="y[..., :T + K - 1]"),
            "no error for 0": blocks().replace("if block < 1: raise ValueError('block')", "block = max(block, 1)"),
            "one axis only": blocks(part="x[s:s + block]", room="T + K + block"),
        },
        {
            "as it is": blocks(),
            "power of two": blocks(n="1 << (block + K).bit_length()", room="x.shape[:-1] + (T + 4 * (block + K),)"),
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
            "signs of HiPPO's paper": legs(low="np.sqrt((2 * n + 1) * (2 * k + 1))", diagonal="n + 1"),
            "upper": legs(below="n < k"),
            "no root": legs(low="-(2 * n + 1) * (2 * k + 1)"),
            "root of one only": legs(low="-np.sqrt(2 * n + 1)"),
            "diagonal 2n + 1": legs(diagonal="-(2 * n + 1)"),
            "diagonal n": legs(diagonal="-n"),
            "b without root": legs(b="2 * n + 1"),
            "from 1": legs(b="np.sqrt(2 * n + 3)", low="-np.sqrt((2 * n + 3) * (2 * k + 3))", diagonal="-(n + 2)"),
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
            "without the first": redraw(start="0.0 * coefficients[..., :1] * places", many="N", factor="np.sqrt(2 * n + 1) * (n > 0)"),
            "powers": redraw(basis="({z}) ** n"),
            "divided by N": redraw(back="out / N"),
            "one curve only": redraw(which="n").replace("coefficients[..., n, None]", "coefficients[n]"),
            "clipped to 1": redraw(back="np.clip(out, -1, 1)"),
            "changes places": redraw(start="0.0; places += 0.25 if places.dtype.kind == 'f' else 1"),
        },
        {
            "as it is": redraw(),
            "recurrence": IMPORTS + """
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
            "conjugate of c": s4d(back="2 * np.real(((c.conj() * bbar)[..., None] * powers).sum(-2))"),
            "one late": s4d(powers="abar[..., None] ** (1 + np.arange(length))"),
            "Δ for the first channel": s4d(delta="np.asarray(delta).flat[0]"),
            "Ā = 1 + Δ a": s4d(abar="1 + d * a"),
            "products of real parts": s4d(back="2 * ((c * bbar).real[..., None] * powers.real).sum(-2)"),
            "sum over time": s4d(back="2 * np.real(((c * bbar)[..., None] * powers).sum(-1))"),
            "changes a": s4d(delta="np.asarray(delta)[..., None]\n    a *= 1.5; a /= 1.5; a += 0.125"),
        },
        {
            "as it is": s4d(),
            "expm1 and einsum": s4d(bbar="np.expm1(d * a) / a * b", powers="np.exp(np.multiply.outer(d * a, np.arange(length)))", back="2 * np.einsum('...p,...pt->...t', c * bbar, powers).real"),
            "with the twins": s4d(back="(((c * bbar)[..., None] * powers).sum(-2) + ((c * bbar).conj()[..., None] * powers.conj()).sum(-2)).real"),
        },
    ),
    *cases(
        "s4d_init",
        {
            "+1/2": rates(lin="0.5 + 1j * np.pi * n", inv="0.5 + 1j * N / np.pi * (N / (2 * n + 1) - 1)"),
            "−1": rates(lin="-1 + 1j * np.pi * n", inv="-1 + 1j * N / np.pi * (N / (2 * n + 1) - 1)"),
            "2πn": rates(lin="-0.5 + 2j * np.pi * n"),
            "n from 1": rates(n="np.arange(1, pairs + 1)"),
            "N = P": rates(size="pairs"),
            "conjugates as well": rates(lin="np.concatenate([-0.5 + 1j * np.pi * n, -0.5 - 1j * np.pi * n])"),
            "imaginary parts only": rates(lin="np.pi * n", inv="N / np.pi * (N / (2 * n + 1) - 1)"),
            "no −1": rates(inv="-0.5 + 1j * N / np.pi * (N / (2 * n + 1))"),
            "kind ignored": rates(inv="-0.5 + 1j * np.pi * n"),
            "any other kind is inv": rates(guard="pass"),
            "−1/2 on the first only": rates(lin="-0.5 * (n == 0) + 1j * np.pi * n"),
        },
        {
            "as it is": rates(),
            "np.exp": rates(lin="np.pi * n * 1j - 1 / 2", inv="np.array([complex(-0.5, N / np.pi * (N / (2 * k + 1) - 1)) for k in range(pairs)])"),
            "ready-made array": rates(lin="np.full(pairs, -0.5) + np.linspace(0, np.pi * (pairs - 1), pairs) * 1j"),
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
            "roots turning the other way": dplr(roots="np.exp(2j * np.pi * np.arange(length) / length)"),
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
            "S4's division by 1 + z": dplr(values="delta * (cb - w * cp * qb * (1 / (1 + w * qp)))"),
            "irfft of the first half": dplr(back="np.fft.irfft(values[: length // 2 + 1], length)"),
            "by hand DFT": dplr(back="(values @ np.exp(2j * np.pi * np.outer(np.arange(length), np.arange(length)) / length) / length).real"),
        },
    ),
]
