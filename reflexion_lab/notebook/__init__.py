"""The public names of `import reflexion_lab as rl`: run, load as frames, compare, explore, plot.

In: overrides, run folders. Out: objects that show themselves. Called by notebooks and the command line.
"""
