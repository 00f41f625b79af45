"""The course as pages to read: prose, equations, charts and pictures, without the answers.

``attend book`` runs the solved chapters, puts the learners' stubs in the place of the answers
(:mod:`attend.book.pages`), and lets Sphinx, MyST-NB and the Furo theme make a site of it. Nothing
in it asks the network: equations become MathML (:mod:`attend.book.mathml`), charts are drawn by a
copy of Vega that lies beside them, and the pictures are SVG.
"""
