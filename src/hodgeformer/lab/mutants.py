"""Deliberate errors, each with the test that must notice it.

    python -m hodgeformer.lab.mutants --list
    python -m hodgeformer.lab.mutants [NAME ...]

Each is put into a copy of the source, alone, and its test is run there: it has to fail. A text stands in exactly one
place of `src`, whatever its file is called today; where it was rewritten, the error is to be rewritten with it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mutant:
    name: str
    text: str
    replaced: str
    test: str


MUTANTS = (
    # The method
    Mutant(
        "sign of d1",
        "signs[f, side] = 1 if start < end else -1",
        "signs[f, side] = -1 if start < end else 1",
        "tests/mesh/test_topology.py::test_signs_and_sides",
    ),
    Mutant(
        "sign of d0",
        "signs = np.tile(np.array([-1, 1], dtype=np.int8)",
        "signs = np.tile(np.array([1, -1], dtype=np.int8)",
        "tests/mesh/test_topology.py::test_d0_subtracts_the_tail_from_the_head",
    ),
    Mutant(
        "scores without 1 / sqrt(d_head)",
        "_wide(k[neighbors])) * q.shape[-1] ** -0.5",
        "_wide(k[neighbors]))",
        "tests/kernels/test_star_attention.py::test_equals_the_dense_masked_softmax",
    ),
    Mutant(
        "gradient of the scores without the scale",
        "ds = softmax * (dweights * kept - mean) * problem.scale",
        "ds = softmax * (dweights * kept - mean)",
        "tests/kernels/test_star_attention.py::test_gradcheck",
    ),
    Mutant(
        "L_v without its inverse star",
        "y = self.star0_inv(x.v, y, topology)",
        "y = y * 1.0",
        "tests/nn/test_laplacians.py::test_each_laplacian_is_the_product_of_its_matrices",
    ),
    Mutant(
        "L_e with the transposes exchanged",
        "up = self.star1_inv(x.e, topology.d1_t(up), topology)",
        "up = topology.d1_t(self.star2(x.f, up, topology))",
        "tests/nn/test_laplacians.py::test_each_laplacian_is_the_product_of_its_matrices",
    ),
    Mutant(
        "no residual around the attention",
        "x = x.replace(**{kind: x[kind] + change[kind] for kind in self.updated})",
        "x = x.replace(**{kind: change[kind] for kind in self.updated})",
        "tests/nn/test_layers.py::test_a_transformer_block_is_linear_attention_per_mesh_and_a_feed_forward",
    ),
    Mutant(
        "a neighbor mean that counts the element itself",
        "total = self.edge_ends.apply_t(self.edge_ends.apply(x)) - count * x",
        "total = self.edge_ends.apply_t(self.edge_ends.apply(x))",
        "tests/nn/test_complex.py::test_neighbor_mean_averages_adjacent_elements",
    ),
    Mutant(
        "left and right of an edge exchanged",
        "quad[2 + side] = vertices[opposite[e, side]]",
        "quad[3 - side] = vertices[opposite[e, side]]",
        "tests/mesh/test_geometry.py::test_left_is_the_face_that_walks_the_edge_forward",
    ),
    Mutant(
        "not scaled to the unit sphere",
        "shifted /= np.sqrt(farthest)",
        "shifted /= 1.0",
        "tests/mesh/test_geometry.py::test_unit_sphere_holds_every_used_vertex",
    ),
    Mutant(
        "dropout on the stars in evaluation",
        "dropout = self.dropout if self.training else 0.0\n        q, k",
        "dropout = self.dropout\n        q, k",
        "tests/nn/test_model.py::test_evaluation_repeats_to_the_bit",
    ),
    Mutant(
        "dropout before the output in evaluation",
        "return self.out(dropout(x, self.dropout if self.training else 0.0))",
        "return self.out(dropout(x, self.dropout))",
        "tests/nn/test_model.py::test_evaluation_repeats_to_the_bit",
    ),
    Mutant(
        "a mesh head that centers by the batch in evaluation",
        "            return cast(Tensor, self.center(pooled))",
        "            return pooled - pooled.mean(dim=0)",
        "tests/nn/test_layers.py::test_the_mesh_head_centers_by_the_batch_in_training_and_by_its_memory_in_evaluation",
    ),
    # Company and order
    Mutant(
        "attention over all meshes of a batch",
        "return _LinearAttention.of(q, k, v, _lengths(q, offsets))",
        "return _LinearAttention.of(q, k, v, [len(q)])",
        "tests/nn/test_model.py::test_a_mesh_alone_and_in_company_gets_the_same_logits",
    ),
    Mutant(
        "patterns that point into another mesh",
        "concatenated([pattern.indices for pattern in patterns], starts)",
        "np.concatenate([pattern.indices for pattern in patterns])",
        "tests/nn/test_pack.py::test_patterns_are_the_block_diagonal_of_the_single_ones",
    ),
    Mutant(
        "answers not in the order of the file",
        "mean.add(output if kind is None else view.to_file_order(output, kind), features)",
        "mean.add(output, features)",
        "tests/predict/test_predict.py::test_renumbering_changes_nothing",
    ),
    Mutant(
        "labels not in the order of the prepared mesh",
        "prepared.with_target(target if kind is None else prepared.from_file_order(target, kind))",
        "prepared.with_target(target)",
        "tests/data/test_loader.py::test_targets_follow_their_faces",
    ),
    # Data
    Mutant(
        "labels that are missing become the first class",
        "return np.where(raw < 0, UNLABELLED, labels)",
        "return labels",
        "tests/data/test_labels.py::test_codes_renumber_and_keep_unlabelled",
    ),
    Mutant(
        "first_label forgotten",
        "return cls(tuple(range(first_label, first_label + n_classes)), ",
        "return cls(tuple(range(n_classes)), ",
        "tests/data/test_labels.py::test_labels_that_count_from_one",
    ),
    Mutant(
        "a split that loses one mesh per class",
        "splits[rest] += group[first:]",
        "splits[rest] += group[first + 1 :]",
        "tests/data/test_benchmarks.py::test_split_n_takes_n_of_every_class",
    ),
    Mutant(
        "fractions that overlap by one",
        "_sorted(merged[first:last]) for name, first, last in cuts",
        "_sorted(merged[max(first - 1, 0) : last]) for name, first, last in cuts",
        "tests/data/test_folder.py::test_fractions_cover_everything_once",
    ),
    Mutant(
        "a mirror image that is inside out",
        "        faces = faces[:, [0, 2, 1]]\n        target = target if swapped",
        "        target = target if swapped",
        "tests/data/test_augment.py::test_a_mirror_image_keeps_normals_outward",
    ),
    Mutant(
        "left and right not exchanged in a mirror image",
        "target = target if swapped is None else swapped[target]",
        "target = target",
        "tests/data/test_augment.py::test_left_and_right_swap_in_a_mirror_image",
    ),
    Mutant(
        "the same changes in every epoch",
        "place = (self._seed, epoch, position)",
        "place = (self._seed, 0, position)",
        "tests/data/test_loader.py::test_every_epoch_shows_every_mesh_once_and_otherwise",
    ),
    Mutant(
        "every process gets the whole batch",
        "Key(epoch, members[self._rank :: self._world_size])",
        "Key(epoch, members)",
        "tests/data/test_loader.py::test_shares_of_all_ranks_are_the_batch",
    ),
    # Training
    Mutant(
        "label smoothing forgotten",
        "label_smoothing=self.smoothing,",
        "label_smoothing=0.0,",
        "tests/training/test_losses.py::test_cross_entropy_is_that_of_torch",
    ),
    Mutant(
        "class weights upside down",
        "* counts.clamp(min=1))) ** power",
        "* counts.clamp(min=1))) ** -power",
        "tests/training/test_losses.py::test_inverse_frequency_gives_every_class_the_same_say",
    ),
    Mutant(
        "a rate that does not end at zero",
        "return self.peak * 0.5 * (1.0 + math.cos(math.pi * rest))",
        "return self.peak * (0.55 + 0.45 * math.cos(math.pi * rest))",
        "tests/training/test_schedule.py::test_it_rises_to_the_peak_and_ends_at_zero",
    ),
    Mutant(
        "a first step that learns nothing",
        "return self.peak * (_FIRST_RATE + (1.0 - _FIRST_RATE) * progress / self.warmup)",
        "return self.peak * progress / self.warmup",
        "tests/training/test_schedule.py::test_it_rises_to_the_peak_and_ends_at_zero",
    ),
    Mutant(
        "resumed without the random numbers",
        '    torch.set_rng_state(states["cpu"])',
        "    pass",
        "tests/training/test_loop.py::test_a_stopped_run_goes_on_to_the_same_weights",
    ),
    Mutant(
        "resumed without the averages of the optimizer",
        '_load_optimizer(learner.optimizer, groups.get("optimizer", {}))',
        "_load_optimizer(learner.optimizer, {})",
        "tests/training/test_loop.py::test_a_stopped_run_goes_on_to_the_same_weights",
    ),
    Mutant(
        "resumed at the first batch of the epoch",
        "in self._loader.batches(epoch, self.position.batch):",
        "in self._loader.batches(epoch, 0):",
        "tests/training/test_loop.py::test_a_stopped_run_goes_on_to_the_same_weights",
    ),
    Mutant(
        "the worst checkpoint kept as the best",
        "scores.main > at.best)",
        "scores.main < at.best)",
        "tests/training/test_loop.py::test_the_best_is_chosen_by_validation_alone",
    ),
    Mutant(
        "two trainings in one folder",
        "            lock.acquire()\n",
        "            pass\n",
        "tests/training/test_run.py::test_two_that_begin_at_once_do_not_share_a_folder",
    ),
    # Scores and files
    Mutant(
        "confusion with rows and columns exchanged",
        "cells = np.bincount(true * n_classes + predicted,",
        "cells = np.bincount(predicted * n_classes + true,",
        "tests/training/test_metrics.py::test_scores_by_hand",
    ),
    Mutant(
        "unlabelled elements counted",
        "        known = true >= 0\n        predicted, true = predicted[known], true[known]",
        "        known = true >= -1\n        predicted, true = predicted[known], np.maximum(true, 0)",
        "tests/training/test_metrics.py::test_scores_by_hand",
    ),
    Mutant(
        "a damaged checkpoint accepted",
        "if expected != _digest(tensors, header):",
        "if expected is None:",
        "tests/predict/test_checkpoint.py::test_any_changed_byte_is_noticed",
    ),
    Mutant(
        "confidence turned the wrong way",
        "powers = np.maximum(probabilities, 1e-12) ** (1 / temperature)",
        "powers = np.maximum(probabilities, 1e-12) ** temperature",
        "tests/training/test_metrics.py::test_the_temperature_of_answers_is_found",
    ),
    # Several at once
    Mutant(
        "served answers shared by file name",
        "result = self._predictor.predict(path, report=report, **asked.options)",
        "result = vars(self).setdefault(path.name, self._predictor.predict(path, report=report, **asked.options))",
        "tests/web/server/test_service.py::test_two_clients_with_files_of_one_name_get_each_their_own_answer",
    ),
    Mutant(
        "no lock around saving in the viewer",
        "        with FileLock(folder / _LOCK):\n            yield folder",
        "        yield folder",
        "tests/web/viewer/test_outbox.py::test_two_tabs_that_save_at_once_do_not_share_files",
    ),
    Mutant(
        "a lock around saving that another viewer does not see",
        "FileLock(folder / _LOCK)",
        "FileLock(folder / f\"{_LOCK}{__import__('os').getpid()}\")",
        "tests/web/viewer/test_outbox.py::test_two_viewers_in_one_folder_lose_nothing",
    ),
    Mutant(
        "meshes of a folder that become one name share it",
        "        free.discard(own[name])\n",
        "",
        "tests/web/viewer/test_series.py::test_meshes_whose_names_become_the_same_are_all_listed_and_kept_apart",
    ),
    Mutant(
        "drafts of one name in two processes",
        'draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")',
        'draft = path.with_name(f".{path.name}.00000000.tmp")',
        "tests/base/test_files.py::test_two_that_write_one_file_leave_a_whole_one",
    ),
    Mutant(
        "shards read where the index says, whatever is there",
        "any(held[part] != header[part] for part in _HEADER)",
        "False",
        "tests/data/test_shards.py::test_check_reads_the_archives_and_tells_where_the_index_lies",
    ),
    Mutant(
        "a form that is cut off answered for its first files",
        "            if not parser.ended:\n",
        "            if False:\n",
        "tests/web/server/test_service.py::test_a_form_that_is_cut_off_is_refused_as_a_whole",
    ),
    Mutant(
        "connections without bound",
        "if len(self.connections) > most_connections():",
        "if False:",
        "tests/attack/test_serve.py::test_half_sent_headers_keep_nobody_out_and_fill_no_log",
    ),
    Mutant(
        "answers that nobody reads kept for ever",
        "self.transport.abort()  # closing would wait for the client to read",
        "self.transport.close()",
        "tests/attack/test_routes.py::test_an_answer_that_nobody_reads_is_given_up_and_a_slow_reader_gets_all",
    ),
)


def place_of(mutant: Mutant, source: Path = SOURCE) -> Path:
    """The one file that holds the text."""
    others = (path for path in sorted(source.rglob("*.py")) if path.name != Path(__file__).name)  # not this list
    files = [path for path in others if mutant.text in path.read_text(encoding="utf-8")]
    if len(files) != 1 or files[0].read_text(encoding="utf-8").count(mutant.text) != 1:
        raise LookupError(
            f"'{mutant.name}': its text stands in {len(files)} files of src, expected in one place of one"
        )
    return files[0]


def copied_source(folder: Path) -> Path:
    """A copy of the source with its compiled kernels, which are used again where a file is unchanged."""
    return Path(shutil.copytree(SOURCE, folder / "src", symlinks=True))


def noticed(mutant: Mutant, source: Path) -> bool:
    """Whether the test fails with the error in the copy; the copy is put right again."""
    place = place_of(mutant, source)
    before, times = place.read_text(encoding="utf-8"), place.stat()
    place.write_text(before.replace(mutant.text, mutant.replaced), encoding="utf-8")
    try:
        return not passes(mutant.test, source)
    finally:
        place.write_text(before, encoding="utf-8")
        os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))


def passes(test: str, source: Path) -> bool:
    """Whether a test passes with the copy. Whatever else than a failure happens is an error."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode not in (0, 1) or re.search(r"\d+ errors? in ", done.stdout):
        raise RuntimeError(f"{test} could not be run:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
    return done.returncode == 0


def main(names: Sequence[str]) -> int:
    if list(names) == ["--list"]:
        for mutant in MUTANTS:
            _LOG.info("%s  (%s)", mutant.name, mutant.test)
        return 0
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        source = copied_source(Path(folder))
        for mutant in MUTANTS:
            if names and mutant.name not in names:
                continue
            found = noticed(mutant, source)
            survivors += not found
            _LOG.info("%s  %s  (%s)", "noticed " if found else "SURVIVED", mutant.name, mutant.test)
    return survivors


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sys.exit(bool(main(sys.argv[1:])))
