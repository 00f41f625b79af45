"""Advice on what only torch says."""

from __future__ import annotations

import re

from attend_grader.checks.outcomes import CallError

PRODUCT = (
    "in `a @ b` the last axis of a must be as long as the second-to-last of b, and axes before "
    "these two equal, or of length 1."
)
"""What two tensors of a matrix product must have."""


def about_torch(error: CallError, line: str) -> str:
    """Advice on what only torch says."""
    text = error.message
    product = re.search(r"\w\)*\s*@|\bmatmul\(|\bbmm\(", line) and not re.search(r" [-+*/] ", line)
    if "must match the size of tensor b" in text and product:
        return f"{PRODUCT} `.mT` exchanges the last two axes, `.T` all of them."
    if "must match the size of tensor b" in text:
        return (
            "two lengths fit when they are equal or when one is 1, compared from the last axis. "
            "Was an axis summed away (keepdim=True keeps it), is one missing (x.unsqueeze(dim) "
            "adds it), or does one stand in the wrong place?"
        )
    if "Expected size for first two dimensions of batch2" in text or "at dimension 0" in text:
        return PRODUCT
    if "must have same number of dimensions" in text:
        return (
            "one has an axis more: `x[:, None]` adds an axis of length 1, `x[:, 0]` takes it out."
        )
    if "view size is not compatible" in text:
        if ".view" not in line:
            return "this needs memory in order, which a transposed tensor has not: `.contiguous()`."
        return "`.view` needs memory in order, which a transposed tensor has not: use `.reshape`."
    if re.search(r"shape '\[.*\b0\b.*\]' is invalid for input of size", text):
        return "one length came out as 0: a whole number was divided by a larger one."
    if "is invalid for input of size" in text:
        return "the new shape must hold as many numbers as the old one: multiply the lengths."
    if "Dimension out of range" in text:
        return "count axes from the end (-1 is the last): inputs may have any number of axes."
    if "same dtype" in text or ("expected scalar type" in text and "found" in text):
        return (
            "two tensors of different dtype meet here: convert one, as in `a.to(b.dtype)`, or make "
            "yours with `dtype=x.dtype`."
        )
    if "leaf Variable" in text and "in-place operation" in text:
        return (
            "an operation that ends in `_`, or one such as `+=`, changes an argument or a "
            "parameter: use one that makes a new tensor."
        )
    if "inplace operation" in text or "in-place operation" in text:
        return (
            "autograd still needs the old numbers: assign `x = x + y` instead of `x += y`; instead "
            "of `x[s] = y`, append to a list and stack it."
        )
    if "does not require grad" in text:
        return "something before this cuts the graph: .detach(), .data, .numpy() or .item()."
    if "tensors used as indices must be long" in text:
        return "an index is a whole number: halve with `//`, cut a fraction off with `.long()`."
    if "must be tuple of Tensors, not Tensor" in text:
        return "tensors to be joined go in as one tuple: `torch.cat((a, b), dim=-1)`."
    if "block_diag" in text or ("element 0 in argument 0" in text and "block_diag" in line):
        return "the matrices go in one by one, with a star: `torch.block_diag(*blocks)`."
    if re.search(r"'input' \(position 1\) must be Tensor, not (float|int)", text):
        return "torch's functions take tensors; for a single number there is `math`."
    if "can't be cast to the desired output type" in text:
        return "a tensor of whole numbers cannot take fractions: `.float()` makes floats of it."
    if "must have the same number of dimensions as input" in text:
        return "gather's index needs as many axes as the tensor: `index[..., None]` adds one."
    if "zero-dimensional tensor" in text:
        return (
            "a single number has no axis to be joined along. squeeze() without an axis takes every "
            "axis of length 1: name the one, as in squeeze(1)."
        )
    return _about_cells(text)


def _about_cells(text: str) -> str:
    """Advice on what torch.gru_cell and its like say of lengths; a cell's weights come first."""
    if "inconsistent hidden_size" in text:
        return (
            "the state is (B, N), and N is the second length of the second weight, here what is "
            "expected (its first length is a multiple of N)."
        )
    if "inconsistent input_size" in text:
        return (
            "the input is (B, C), as wide as the second length of the first weight, here what is "
            "expected: is a part left out, or one too many?"
        )
    if "doesn't match hidden0 batch size" in text:
        return (
            "input and state need the same number of rows: x[:, s] is place s of every row of x, "
            "x[s] is row s with all its places."
        )
    return ""
