"""`lahar ingest` of ResourceClaims and the pods that use them, from files and streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from claim_builders import claim, exactly, pod, results

CLAIMS = [
    claim(exactly(count=2), name="made-a", owner="a", allocated=results("gpu", 2), pods=("a",)),
    claim(exactly("mig.lab"), name="made-b", owner="b", allocated=results("gpu"), pods=("b",)),
]
PODS = [pod("a", "made-a", phase="Succeeded"), pod("b", "made-b", phase="Succeeded")]


def write(path: Path, objects: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))
    return path


@pytest.mark.parametrize("order", [("claims.json", "pods.json"), ("pods.json", "claims.json")])
@pytest.mark.parametrize("recorded", [(), ("--recorded",)])
def test_files_are_read_in_any_order(lahar: Any, folder: Path, order: tuple[str, str], recorded: tuple[str, ...]) -> None:
    write(folder / "claims.json", CLAIMS)
    write(folder / "pods.json", PODS)
    (folder / "lahar.toml").write_text('[accelerators]\n"mig.lab" = "1/4"\n')
    done = lahar("ingest", *order, *recorded)
    assert done.out == "2 taken, 2 ignored; 2 processed\nignored: 2 ResourceClaim\n"
    assert lahar("summary", "--json").record["gpu_seconds"] == 2.25 * 3600


def test_a_list_may_have_the_claims_behind_the_pods(lahar: Any) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": [*PODS, *CLAIMS]}
    lahar("ingest", given=json.dumps(items))
    summary = lahar("summary", "--json").record
    assert (summary["gpu_seconds"], list(summary["not_billed"])) == (2 * 3600, ["mig.lab"])


def test_claims_and_classes_that_no_meter_charges_are_named(lahar: Any, folder: Path) -> None:
    write(folder / "pods.json", [*PODS, *CLAIMS, pod("c", "elsewhere", phase="Succeeded")])
    lahar("ingest", "pods.json")
    version = {"version": "1", "from": "2026-01-01T00:00:00Z", "prices": {"gpu_seconds": {"*": "1"}}}
    book = {"kind": "PriceBook", "metadata": {"name": "b"}, "spec": {"currency": "EUR", "versions": [version]}}
    write(folder / "prices.json", [{"apiVersion": "lahar.dev/v1", **book}])
    assert lahar("prices", "check", "prices.json", "--json").record["not_billed"] == ["mig.lab", "resourceclaims"]
