"""Where the cells of a sweep run: Hydra's launchers, each told to outlive a lost process.

Hydra's plugins differ in what one dead process does to the others' cells: loky ends them all, Ray and submitit raise
and leave the rest running. Here each says, job by job, what came of it; `study.launched` begins what was lost again.
"""
