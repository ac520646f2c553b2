"""Choose the pose that suits the data: by what the meshes have in common, and if several poses remain, by short trials.

Aligned to its principal axes, a mesh gets the same answer however its file is rotated. This harms two kinds of shapes:
those without such axes, like cubes, and those that stand upright in all files, where up tells a seat from a back.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np

from hodgeformer.data.census import Census
from hodgeformer.data.splits import in_folds
from hodgeformer.mesh.elements import convert_labels
from hodgeformer.mesh.geometry import in_range
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.pose import PoseName, roundness
from hodgeformer.mesh.up import mean_heights, part_centers
from hodgeformer.training.calibration import model_of
from hodgeformer.training.listener import PartOf
from hodgeformer.training.loop import Stopped
from hodgeformer.training.setup import Setup

_SAMPLED = 24  # meshes
_ROUND = 0.93  # the roundness of a mesh without principal axes
_LEFT_OUT = 4  # every so many-th source is left out of a trial and scored
_LENGTH, _LEAST = 0.15, 5  # of a trial, relative to the run, and in epochs
_GAIN, _DOUBT = 0.005, 0.03  # the gain in accuracy that is worth depending on the file; more, by one over the meshes
_CONSISTENT = 0.7  # the correlation of heights with the usual ones, of nine in ten meshes that share an axis
_ALONG, _NEARLY_ALL = 0.9, 0.8  # the cosine of a normal with an axis of the file, and the share of meshes
_APART = 0.04  # how far parts are apart along it, in units of the root of the area


def with_pose(setup: Setup) -> Setup:
    """The setup with the pose that answers best for meshes left out, unless the configuration has one."""
    poses = possible_poses(setup.census) if setup.is_pose_open else ()
    n_sources = len({sample.source for sample in setup.dataset.split("train")})
    if len(poses) < 2 or n_sources < 2:
        return replace(setup, is_pose_open=False)
    left_out = in_folds(setup.dataset.split("train"), min(_LEFT_OUT, n_sources), setup.config.train.seed)[0]
    scores = {}
    for number, pose in enumerate(poses):
        length = _LENGTH if setup.config.train.epochs is None else max(_LENGTH, _LEAST / setup.config.train.epochs)
        listener = PartOf(setup.listener, "trying poses", number, len(poses))
        trial = in_pose(setup, pose).rehearsal(number + 1, left_out, min(1.0, length), listener)
        try:
            model = model_of(trial)
        except Stopped:
            raise KeyboardInterrupt from None  # nothing to resume: the run itself has not begun
        scores[pose] = trial.evaluator("unseen").scores(model).main
        setup.processes.from_first([0.0])  # all have read it
        if setup.processes.is_first:
            shutil.rmtree(trial.folder.root)
    setup.listener.beside("trying poses", 1.0)
    best, usual = max(scores, key=lambda pose: scores[pose]), poses[0]
    chosen = best if scores[best] > scores[usual] + _GAIN + _DOUBT / len(left_out) else usual
    found = ", ".join(f"{_TITLES.get(pose, 'upright')} {100 * score:.1f} %" for pose, score in scores.items())
    setup.listener.planned(f"short trials of the pose: {found}")
    return in_pose(setup, chosen)


_TITLES = {"frame_average": "principal axes", "file": "as in the file"}


def possible_poses(census: Census) -> tuple[PoseName, ...]:
    """The poses that may suit the training meshes, the one that does not depend on the file first."""
    dataset, samples = census.dataset, census.dataset.split("train")
    some = [samples[i] for i in np.unique(np.linspace(0, len(samples) - 1, _SAMPLED).round().astype(int))]
    round_ones, centers, shares = 0, [], []
    for sample in some:
        mesh, target = dataset.load(sample)
        mesh = in_range(mesh)
        round_ones += roundness(mesh.vertices, mesh.faces) > _ROUND
        if dataset.task == "segmentation" and dataset.kind is not None:
            on_faces = convert_labels(target, mesh, source=dataset.kind, to="f")
            of_parts = part_centers(mesh, on_faces, len(dataset.classes))
            centers.append(of_parts[0])
            shares.append(of_parts[1])
    poses: list[PoseName] = ["frame_average"]
    axes = _shared_axes(np.stack(centers), np.stack(shares)) if len(centers) > 2 else ""
    if axes:
        upright: dict[str, PoseName] = {"x": "upright_x", "y": "upright_y", "z": "upright_z"}
        poses.append(upright[axes[0]])
    if len(axes) > 1 or 2 * round_ones > len(some):
        poses.append("file")
    return tuple(poses)


def in_pose(setup: Setup, pose: PoseName) -> Setup:
    """The setup in a pose; in that of the file, a mirror image may face another way."""
    augment = setup.config.augment
    augment = augment.replace(mirror=0.0) if pose == "file" else augment
    prepare = setup.config.prepare.replace(pose=pose)
    return replace(setup, config=setup.config.replace(prepare=prepare, augment=augment), is_pose_open=False)


def _shared_axes(centers: FloatArray, shares: FloatArray) -> str:
    """The axes of the files along which parts are in the same order in nearly all meshes, the clearest first.

    `centers` (n, n_classes, 3) and `shares` (n, n_classes) are those of `part_centers`.
    """
    found = {}
    weights = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-24)
    for number, name in enumerate("xyz"):
        along, usual = centers[:, :, number], mean_heights(centers, shares, np.eye(3)[[number] * len(centers)])
        along = along - (weights * along).sum(axis=1, keepdims=True)
        wanted = usual - (weights @ usual)[:, None]
        spread = np.sqrt((weights * wanted**2).sum(axis=1))
        fit = (weights * along * wanted).sum(axis=1) / (np.sqrt((weights * along**2).sum(axis=1)) * spread + 1e-12)
        if np.quantile(fit, 0.1) > _CONSISTENT and np.median(spread) > _APART:
            found[name] = float(np.median(spread))
    return "".join(sorted(found, key=lambda name: -found[name]))
