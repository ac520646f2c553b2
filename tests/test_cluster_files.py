"""The files for clusters are whole: bash and YAML can read them, and they call what there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

CLUSTER = Path(__file__).parents[1] / "docs" / "cluster"
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


def check_script(text: str) -> None:
    """Bash can read it, and every `torchrun` of it starts the training that goes on when it is started again."""
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--max-restarts" in text and "-m hodgeformer train" in text and "--resume" in text


def test_the_slurm_file_is_a_script() -> None:
    check_script((CLUSTER / "train.slurm").read_text())


def test_the_kubernetes_file_is_yaml_around_such_a_script() -> None:
    service, job = yaml.safe_load_all((CLUSTER / "train.yaml").read_text())
    pod = job["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod["spec"]["volumes"]
    }
    check_script(container["args"][0])
    assert {"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "1"} in container["env"]
    assert f"--nnodes {job['spec']['parallelism']} " in container["args"][0]
    assert f"{job['metadata']['name']}-0.{service['metadata']['name']}:29500" in container["args"][0]
