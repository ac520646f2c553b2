"""Deliberate errors, each with the test that must notice it.

    HODGEFORMER_MUTANT="every process gets the whole batch" pytest -p hodgeformer.lab.mutants TEST

An error replaces a function or a constant while the test runs. Tests that compare with an equation or with counted
numbers need none: these are for tests of whole runs, which could pass for another reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np


@dataclass(frozen=True)
class Mutant:
    """The place of a thing in the package, how a wrong one is made from it, and the test that must fail."""

    place: str
    wrong: Callable[[Any], Any]
    test: str

    def apply(self) -> None:
        owner, _, name = f"hodgeformer.{self.place}".rpartition(".")
        there = resolve_name(owner)
        setattr(there, name, self.wrong(getattr(there, name)))


def _alone(begin: Callable[..., None]) -> Callable[..., None]:
    def wrong(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        self._rank, self._world_size = 0, 1

    return wrong


def _by_name(predict: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[str, Any] = {}
    return lambda self, mesh, **named: kept.setdefault(mesh.name, predict(self, mesh, **named))


_RESUMED = "tests/training/test_loop.py::test_a_stopped_run_goes_on_to_the_same_weights"
_EVALUATED = "tests/nn/test_model.py::test_evaluation_repeats_to_the_bit"

MUTANTS = {
    "dropout in evaluation": Mutant("nn.model.nn.Module.eval", lambda _: lambda self: self.train(), _EVALUATED),
    "a mesh head that centers by the batch in evaluation": Mutant(
        "nn.heads.MeshHead.centered",
        lambda _: lambda self, pooled: pooled - pooled.mean(dim=0),
        "tests/nn/test_layers.py::test_the_mesh_head_centers_by_the_batch_in_training_and_by_its_memory_in_evaluation",
    ),
    "attention over all meshes of a batch": Mutant(
        "nn.blocks.linear_attention",
        lambda right: lambda q, k, v, offsets: right(q=q, k=k, v=v, offsets=(0, len(q))),
        "tests/nn/test_model.py::test_a_mesh_alone_and_in_company_gets_the_same_logits",
    ),
    "indices that point into another mesh": Mutant(
        "nn.pack.concatenated",
        lambda _: lambda arrays, shifts: np.concatenate(arrays),
        "tests/nn/test_pack.py::test_patterns_are_the_block_diagonal_of_the_single_ones",
    ),
    "answers not in the order of the file": Mutant(
        "mesh.prepare.PreparedMesh.to_file_order",
        lambda _: lambda self, values, kind: values,
        "tests/predict/test_predict.py::test_renumbering_changes_nothing",
    ),
    "labels not in the order of the prepared mesh": Mutant(
        "mesh.prepare.PreparedMesh.from_file_order",
        lambda _: lambda self, values, kind: values,
        "tests/data/test_loader.py::test_targets_follow_their_faces",
    ),
    "the same changes in every epoch": Mutant(
        "data.source.stream_seed",
        lambda right: lambda name, seed, epoch, position: right(name, seed, 0, position),
        "tests/data/test_loader.py::test_every_epoch_shows_every_mesh_once_and_otherwise",
    ),
    "every process gets the whole batch": Mutant(
        "data.loader.Loader.__init__",
        _alone,
        "tests/data/test_loader.py::test_shares_of_all_ranks_are_the_batch",
    ),
    "resumed without the random numbers": Mutant(
        "training.state.torch.set_rng_state", lambda _: lambda state: None, _RESUMED
    ),
    "resumed without the averages of the optimizer": Mutant(
        "training.state._load_optimizer", lambda right: lambda optimizer, _: right(optimizer, {}), _RESUMED
    ),
    "resumed at the first batch of the epoch": Mutant(
        "data.loader.Loader.batches",
        lambda right: lambda self, epoch=0, start_batch=0: right(self, epoch),
        _RESUMED,
    ),
    "two trainings in one folder": Mutant(
        "training.run_folder.FileLock",
        lambda right: lambda path, **named: right(f"{mkdtemp()}/lock", **named),
        "tests/training/test_run.py::test_two_that_begin_at_once_do_not_share_a_folder",
    ),
    "a damaged checkpoint accepted": Mutant(
        "predict.checkpoint._digest",
        lambda _: lambda tensors, header: "",
        "tests/predict/test_checkpoint.py::test_any_changed_byte_is_noticed",
    ),
    "drafts of one name": Mutant(
        "base.files.secrets",
        lambda _: SimpleNamespace(token_hex=lambda n: "00" * n),
        "tests/base/test_files.py::test_two_that_write_one_file_leave_a_whole_one",
    ),
    "shards read where the index says, whatever is there": Mutant(
        "data.shards._HEADER",
        lambda _: (),
        "tests/data/test_shards.py::test_check_reads_the_archives_and_tells_where_the_index_lies",
    ),
    "served answers shared by file name": Mutant(
        "predict.predictor.Predictor.predict",
        _by_name,
        "tests/web/server/test_service.py::test_two_clients_with_files_of_one_name_get_each_their_own_answer",
    ),
    "no lock around saving in the viewer": Mutant(
        "web.viewer.outbox.FileLock",
        lambda _: lambda path: MagicMock(),
        "tests/web/viewer/test_outbox.py::test_two_tabs_that_save_at_once_do_not_share_files",
    ),
    "predictions in the viewer without bound": Mutant(
        "web.server.line.Line.enter",
        lambda _: lambda self: None,
        "tests/web/viewer/test_predictions.py::test_too_many_questions_are_sent_away_and_a_closed_viewer_works_no_more",
    ),
}


def pytest_configure(config: object) -> None:
    """As a plugin of pytest."""
    MUTANTS[os.environ["HODGEFORMER_MUTANT"]].apply()
