"""What chapters are written with: exercises, contracts, slips, properties, comparisons, subjects.

A guide for authors. One file an exercise, ``chapters/chNN_slug/name.py``; the model is chapter 03::

    EXERCISE = Exercise(
        chapter="03_attention", title="Softmax", goal="Turn any scores into weights …",
        reference=attention.softmax,
        contract=Contract(numpy_only=True, leading_axes=True, views=True,
                          accepts=(FLOAT64, FLOAT32, INTEGERS), arguments_unchanged=True),
        properties=(worked(…), agrees(…)), draws=draws, slips=(Slip(…), …),
        alternatives=(by_logarithm, …), hints=(…), minutes=10, …)

**Contract** (:mod:`.contract`). What you promise is printed in the notebook
(``exercise.statement``) and checked: each promise is one property of 1 point
(``points={"leading": 2}`` changes that) that is tried on your draws, for each argument in turn,
and compares the learner's function with itself. So write no property for integers, float32, views,
leading axes, unchanged arguments, gradients or masks, and none at D = 1 to keep points apart. Bans
stand in ``forbids``, nowhere else. Promises that your own properties check are told in ``says``.
Promises count once a third of the other points are earned: what returns zeros keeps every promise.

- NumPy: ``accepts=(FLOAT64, FLOAT32, INTEGERS)``; in torch FLOAT32 is plain, FLOAT64 for functions
  only (a module's parameters are float32).
- ``leading_axes=("x",)`` where the others (weights) are shared by a stack; ``shared=("mask",)``
  for an argument that may also lack the stack's axes.
- ``gradients=("x", EVERY_PARAMETER)``: each argument and parameter, right and not cut.
- ``masks=("mask",)``: all True is None, broadcasts; ``hidden_rows=True``: a row may be all False.
- Arguments for which rounding makes no sense (distributions): ``whole={"weights": function}``.
- "Any magnitude, to 10⁻⁹ of the largest number" is promised wherever a draw holds floats, and
  needs no word: an answer that all properties let pass is tried on your draws scaled up and
  down, far from 0, with one row far from the others, with an argument of zeros and with long axes
  (:mod:`.sizes`), and held to the digits that such a call has (:mod:`.exact`). A call on which
  your alternatives differ from the answer does not count. Where an argument may not hold any
  number, say which: ``ranges={"decay": AS_DRAWN, "keys": (-1000, 1000), "features": POSITIVE}``;
  an option or a count is tried where it has a range. ``related=True`` leaves all arguments as
  drawn that have none.

**Draws** ``draws(rng) -> list[Call]``: 4 to 8 calls that show behaviour. They carry everything
else: promises, slips, symptoms. So let lengths differ (T ≠ S, D ≠ D_v), include a square, an odd
length, a length of 1, each value of an option, with and without a mask, a large one, one with
leading axes. The shapes of the n-th call must not depend on ``rng``. Use ``properties.normal``
(two decimals). Where the engine can make no long axes of them (lengths that depend on each other, a
square matrix), give ``wide`` draws: a last look tries them, twice.

**Properties** (:mod:`.helpers`): ``worked`` (by hand), ``known`` (limits, invariants), ``agrees``
(fresh cases against the reference; sizes belong here), ``gradient_by_hand`` (complex steps). For
anything else write ``def test(subject, probe)`` with ``probe.agree(…)``, and wrap it in
``Property(name, points, test)``. An oracle that is not our own formula is better than the
reference.

**Slips** (:mod:`.slips`): the 10 that you expect most, as edits of the answer::

    Slip("did not subtract the maximum", ("scores - largest", "scores"), "exp of a large score …")

The old text must stand once in the answer's code (docstrings do not count); several edits are a
tuple of pairs, another algorithm is a function in the place of the edit. A slip is named only
where the learner's behaviour agrees on all draws. ``told`` speaks of what comes out, then of what
to try; it is told to whoever's code behaves alike, so it must be true of all of them.

**Symptoms** (:mod:`.symptoms`) need nothing from you. Where no slip matches, the card says what
holds of every call tried (:mod:`.evidence`): a factor √D, transposed, "as if q and k had changed
places", wrong in just those calls where there are leading axes, "as if a sum ran along another
axis". They are as good as your draws.

**Alternatives**: two or more right answers in other styles; they must get full marks.

Points are declared in the chapter's ``__init__`` too; ``pytest autograder/tests/test_exercises.py
-k NAME`` says whether all agree. Then write adversary cases (``autograder/tests/adversary``)."""
