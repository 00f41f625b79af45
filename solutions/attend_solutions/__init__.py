"""The answers: one typed module per topic, each answer written once.

The chapters' exercises, their solved editions and the grader's references are all cut from here.
NumPy topics (``attention``) never import torch.
"""
