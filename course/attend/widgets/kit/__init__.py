"""What several widgets share: the frame, SVG, heat map, plane, and calling a learner's function."""
