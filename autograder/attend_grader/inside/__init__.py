"""All that runs beside submitted code; copied whole into the jail, so no check or answer is in it.

This folder is the trust boundary: it imports nothing else of the course, and whatever it reports
could have been said by the submission itself.
"""
