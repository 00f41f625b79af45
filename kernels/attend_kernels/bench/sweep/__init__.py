"""Which tiles are fastest on this GPU: ``python -m attend_kernels.bench.sweep``.

The tables' tiles were chosen without a GPU. Here stand those that might beat them; each is held to
the oracle, then timed beside the shipped one and beside the peers of the benchmark. A call takes at
most ``--minutes``; the next with the same ``--out`` goes on where it ended. ``--write`` puts the
winners of such a file into the families' tables. Without a GPU, ``--dry`` runs every candidate at
a tiny size in the interpreter: right or wrong, no times.

==============  ===================================================================
``candidates``  the places of the tables, and what might be better there
``within``      a function of ours that runs with another tile in one place
``winners``     what a file of results says, and the tables made of it
``cli``         the command
==============  ===================================================================
"""
