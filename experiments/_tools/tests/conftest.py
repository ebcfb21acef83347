import pytest


@pytest.fixture(scope="session", autouse=True)
def no_window():
    """Figures are drawn without a screen. Imported here: every process that collects would import it."""
    import matplotlib

    matplotlib.use("Agg")
