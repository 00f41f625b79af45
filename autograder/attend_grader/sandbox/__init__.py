"""Where submitted notebooks run: a bubblewrap jail with a warm parent that forks, and nothing else.

Outside (trusted): :mod:`.jail` says what the jail may see and starts it, :mod:`.warm` asks its
parent for children and speaks with them. Inside (untrusted as soon as a submission runs):
:mod:`.zygote` is the warm parent, :mod:`.notebook` runs cells and answers a check's calls.
"""
