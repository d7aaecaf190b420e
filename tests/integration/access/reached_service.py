"""Reached: what a test knows of a service that others can reach."""

from dataclasses import dataclass

from fastapi.testclient import TestClient

from app.database import Database


@dataclass
class Reached:
    """A service, its database, and the text of a key of each role."""

    client: TestClient
    database: Database
    keys: dict[str, str]

    def bearer(self, role: str) -> dict[str, str]:
        """The header of a program with the key of a role."""
        return {"Authorization": f"Bearer {self.keys[role]}"}
