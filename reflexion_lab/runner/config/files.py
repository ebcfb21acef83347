"""Hydra's source of config files, which parses each file once a process instead of in every composition."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path
from typing import Any

from hydra._internal import defaults_list as composition
from hydra._internal.core_plugins.file_config_source import FileConfigSource  # no public module has it
from hydra.plugins.config_source import ConfigResult


class ParsedFiles(FileConfigSource):
    """Config files of a folder; parsing them is a third of a composition's time."""

    def load_config(self, config_path: str) -> ConfigResult:
        file = Path(self.path, self._normalize_file_name(config_path)).resolve()
        version = file, file.stat().st_mtime_ns, file.stat().st_size
        stored = _parsed(self.provider, self.path, config_path, version)
        result: ConfigResult = pickle.loads(stored)  # a copy: compositions change it
        return result


@functools.lru_cache(maxsize=512)
def _parsed(provider: str, folder: str, config_path: str, version: object) -> bytes:
    return pickle.dumps(FileConfigSource(provider, folder).load_config(config_path))


_choices = composition._create_interpolation_map


def _choices_if_read(overrides: Any, defaults_list: Any, self_added: bool) -> Any:
    """Hydra makes this config for every file, which takes a third of a composition, and reads it for interpolations."""
    is_read = any(default.is_interpolation() for default in defaults_list)
    return _choices(overrides, defaults_list, self_added) if is_read else None


composition._create_interpolation_map = _choices_if_read
