"""The user manager's unit files: which are enabled, and changing that."""

from kildsvc.systemd.manager import Manager, Refused

_MANAGER = b"org.freedesktop.systemd1.Manager"


class UnitFiles(Manager):
    def is_enabled(self, unit: str) -> bool:
        try:
            state = self._call_again(_MANAGER, b"GetUnitFileState", ("s", unit))
        except Refused:
            return False
        return bool(state.decode() in ("enabled", "enabled-runtime"))

    def is_active(self, unit: str) -> bool:
        return bool(self.get(unit, "ActiveState")["ActiveState"] == "active")

    def enable(self, unit: str) -> None:
        self._call_again(_MANAGER, b"EnableUnitFiles", ("as", [unit]), ("b", False), ("b", False))

    def disable(self, unit: str) -> None:
        self._call_again(_MANAGER, b"DisableUnitFiles", ("as", [unit]), ("b", False))

    def reload(self) -> None:
        self._call_again(_MANAGER, b"Reload")

    def start(self, unit: str) -> str:
        return str(self._call_again(_MANAGER, b"StartUnit", ("s", unit), ("s", "replace")).decode())

    def restart(self, unit: str) -> str:
        return str(self._call_again(_MANAGER, b"RestartUnit", ("s", unit), ("s", "replace")).decode())
