"""How fast the kernels are, beside their peers, in one process: ``python -m attend_kernels.bench``.

==============  ===================================================================
``case``        one thing to measure: inputs, peers, oracle, operations and bytes
``attention``   the cases of flash attention
``decoding``    the cases of decoding from a cache
``memory``      the cases of norm, rope, cross-entropy and softmax
``linear``      the cases of linear attention
``scan``        the cases of the selective scan and its convolution
``host``        what the CPU does before a launch
``work``        what kernels do, counted without a GPU as the length grows
``timing``      the timer, the time budget, and the ceilings of the device
``runner``      check first, then time: every peer of every case, within the budget
``machine``     what the results were measured on
``report``      the Markdown tables, made from the results file alone
``cli``         the command
==============  ===================================================================
"""
