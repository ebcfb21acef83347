"""MLflow: a run, its arms and traces as views of the run folder."""
