"""One run: the runner, its config and its folder.

In: a config. Out: a run folder, which is the truth about the run. Subpackages: `config` (compose, check, build: the
only one that imports Hydra), `folder` (manifest, records, checksums). Called by `studies`.
"""
