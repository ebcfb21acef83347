"""One run: the runner, its config and its folder.

In: a config. Out: a run folder, which is the truth about the run. Rooms: `config` (compose, check, build: the one
room that knows Hydra), `folder` (manifest, records, checksums). Called by `studies`.
"""
