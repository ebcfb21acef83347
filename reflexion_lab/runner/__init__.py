"""One run: the runner, its config and its folder.

In: a config. Out: a run folder, the complete record of the run. Subpackages: `config` (compose, check, build;
imports Hydra), `folder` (manifest, records, checksums). Called by `studies`.
"""
