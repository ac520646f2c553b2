"""Layers that look into a model look at the mesh as the model saw it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")

import torch

from hodgeformer.base.settings import Faces
from hodgeformer.kernels.star import star_attention_weights
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PreparedMesh, prepare
from hodgeformer.mesh.simplify import triangulations
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from hodgeformer.predict import inference
from hodgeformer.predict.inference import Views, make_views
from hodgeformer.predict.operators import log_factors, sides_mean
from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.viewer import operators
from hodgeformer.web.viewer.fields import Pick, nearest_element, on_faces
from hodgeformer.web.viewer.models import ModelList, offered_models
from hodgeformer.web.viewer.open_meshes import OpenMesh, Prediction
from hodgeformer.web.viewer.operators import Attention, DiagonalStars, Spreading
from meshes import icosphere
from tiny_models import tiny_checkpoint, write_tiny

CONFIG = tiny_checkpoint(pose="frame_average").prepare
WORKING = 320


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> ModelList:
    """A model that updates vertices, edges and faces, in blocks of all kinds, with learned stars."""
    return shelf_with(tmp_path_factory.mktemp("model"))


def shelf_with(folder: Path, **changes: Any) -> ModelList:
    config = tiny_checkpoint(blocks="HDT").model.replace(updates="vef", **changes)
    torch.manual_seed(7)
    weights = dict(HodgeFormer(config).state_dict())
    for name, value in weights.items():
        if name.endswith(".stars.weight"):  # zero before training
            torch.nn.init.normal_(value)
    path = write_tiny(folder, pose="frame_average", model=config, weights=weights)
    return ModelList(offered_models(str(path)))


def predicted(shelf: ModelList, mesh: Mesh, faces: Faces) -> OpenMesh:
    result = shelf.predictor("tiny").predict(mesh, faces=faces)
    return OpenMesh(mesh, prediction=Prediction("tiny", result, faces))


def first_view(shelf: ModelList, mesh: Mesh, faces: Faces) -> Views:
    return make_views(mesh, shelf.predictor("tiny").info.at(faces).replace(pose="frame"))


def click(mesh: Mesh, face: int) -> Pick:
    return Pick(face, tuple(mesh.vertices[mesh.faces[face]].mean(axis=0)))


def egg() -> Mesh:
    ball = icosphere(3)
    return ball.with_vertices(ball.vertices * (1, 1.4, 2) + 0.2 * ball.vertices**2)


@pytest.fixture
def prepared_views(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every view that is prepared, with its mesh and what it is prepared for."""
    views: list[dict[str, Any]] = []

    def noted(mesh: Mesh, config: Any, **options: Any) -> PreparedMesh:
        views.append({"n_faces": mesh.n_faces, **options})
        return prepare(mesh, config, **options)

    monkeypatch.setattr(inference, "prepare", noted)
    return views


@pytest.mark.parametrize("faces", ["original", WORKING])
@pytest.mark.parametrize("star", ["v.star0_inv", "v.star1", "f.star2"])
def test_attention_is_the_row_that_the_model_had(shelf: ModelList, star: str, faces: Faces) -> None:
    mesh, network = egg(), shelf.network("tiny")
    assert network is not None
    opened, pick = predicted(shelf, mesh, faces), click(egg(), 700)
    found = Attention(shelf).field(opened, {"layer": "1", "head": "2", "star": star}, pick)
    assert found.values.shape == (mesh.n_faces,)

    small = None if faces == "original" else triangulations(mesh, WORKING, 1)[0]
    working = mesh if small is None else small.mesh
    prepared = prepare(working, CONFIG)  # frame 0
    batch = pack([prepared])
    block = network.encoder.blocks[0]
    caught = []
    hook = block.attention.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    with torch.no_grad():
        network(batch)
    hook.remove()
    kind, _, name = star.partition(".")
    module = getattr(block.attention.laplacian[kind], name)
    pattern = batch.topology.patterns[module.kind]
    q, k = module.queries_and_keys(caught[0][module.kind])
    weights = star_attention_weights(q=q, k=k, pattern=pattern)[:, 1].detach().numpy()
    row = nearest_element(first_view(shelf, mesh, faces), pick, module.kind)
    entries = slice(int(pattern.offsets[row]), int(pattern.offsets[row + 1]))
    np.testing.assert_allclose(weights[entries].sum(), 1, rtol=1e-5)

    values = np.full(prepared.n[module.kind], np.nan)
    values[pattern.indices[entries].numpy()] = weights[entries]
    members = {"v": prepared.topology.faces, "e": prepared.topology.face_edges, "f": np.arange(prepared.n.f)[:, None]}
    on_working = prepared.to_file_order(np.fmax.reduce(values[members[module.kind]], axis=1), "f")
    expected = on_working if small is None else on_working[small.places("f").face]
    np.testing.assert_allclose(found.values, expected, rtol=1e-4)
    assert np.isfinite(found.values).any() and np.isnan(found.values).any()
    assert np.isfinite(found.values[pick.face])  # a place is among its own neighbors


@pytest.mark.parametrize("star", ["star1", "star0"])
def test_learned_stars_are_those_of_the_working_mesh(shelf: ModelList, star: Any) -> None:
    mesh, network, source = egg(), shelf.network("tiny"), DiagonalStars(shelf)
    assert network is not None
    opened = predicted(shelf, mesh, WORKING)
    choices = source.choices(opened)
    assert choices is not None and [choice.key for choice in choices] == ["block", "time", "star"]
    assert choices[0].options == (("2", "2 of 3"),) and len(choices[1].options) == 8
    small = triangulations(mesh, WORKING, 1)[0]
    prepared = prepare(small.mesh, CONFIG)
    kind: Any = "f" if star == "star1" else "v"
    for time in ("1", "6"):
        factors = log_factors(network, prepared)[2][star][:, int(time) - 1]
        on_working = sides_mean(factors, small.mesh) if star == "star1" else factors
        found = source.field(opened, {"time": time, "star": star}, None)
        assert found.signed and ("mean over the sides" in found.note) == (star == "star1")
        expected = small.values_back(on_working[:, None].astype(np.float32), kind)[:, 0]
        np.testing.assert_allclose(found.values, expected, rtol=1e-3, atol=1e-5)
        assert np.ptp(found.values) > 0.1


def test_models_without_learned_diagonal_stars_offer_none(tmp_path: Path) -> None:
    for given in ({"blocks": "HT"}, {"blocks": "DT", "star_bound": 0.0}):
        shelf = ModelList(offered_models(str(write_tiny(tmp_path, **given))))
        opened = predicted(shelf, icosphere(1), "original")
        assert DiagonalStars(shelf).choices(opened) is None
        with pytest.raises(Refusal, match="nothing to show yet"):
            DiagonalStars(shelf).field(opened, {}, None)


def test_layers_prepare_one_view(tmp_path: Path, prepared_views: list[dict[str, Any]]) -> None:
    shelf = shelf_with(tmp_path)
    opened = predicted(shelf, egg(), WORKING)
    assert {view["frame"] for view in prepared_views} == {0, 1, 2, 3}
    for kind in (Attention, Spreading):
        source = kind(shelf)
        prepared_views.clear()
        for face in (3, 700, 701):
            source.field(opened, {}, click(opened.mesh, face))
        (view,) = prepared_views
        assert view["n_faces"] <= WORKING


def test_layers_that_would_take_too_long_are_refused_with_a_remedy(
    shelf: ModelList, prepared_views: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "MAX_FACES", 1000)
    opened = predicted(shelf, egg(), "original")
    prepared_views.clear()
    for source in (Attention(shelf), Spreading(shelf), DiagonalStars(shelf)):
        assert source.choices(opened) is not None
        with pytest.raises(Refusal, match="1,280 faces, and this layer supports 1,000 at most"):
            source.field(opened, {}, click(opened.mesh, 3))
    assert prepared_views == []
    again = predicted(shelf, egg(), WORKING)
    assert np.isfinite(Spreading(shelf).field(again, {}, click(again.mesh, 3)).values).all()


def test_a_new_resolution_is_looked_at_anew(shelf: ModelList) -> None:
    source, fine, pick = Attention(shelf), predicted(shelf, egg(), "original"), click(egg(), 700)
    before = source.field(fine, {}, pick).values
    fine.prediction = predicted(shelf, egg(), WORKING).prediction
    assert not np.array_equal(source.field(fine, {}, pick).values, before, equal_nan=True)


def test_a_mesh_that_is_cut_finer_gets_its_values_back(shelf: ModelList) -> None:
    mesh = icosphere(0)
    opened, pick = predicted(shelf, mesh, "auto"), click(icosphere(0), 7)
    views = first_view(shelf, mesh, "auto")
    prepared = views.prepared[0]
    assert prepared.n.f == 4 * mesh.n_faces
    for kind, most in (("f", 1), ("e", 2), ("v", 2)):  # the middle piece, its sides, and their ends
        here = np.full(prepared.n[kind], np.nan)
        here[nearest_element(views, pick, kind)] = 1.0
        values = on_faces(views, here, kind)
        assert values[7] == 1.0
        assert np.isfinite(values).sum() <= most
    assert np.isfinite(Attention(shelf).field(opened, {}, pick).values[7])
    values = Spreading(shelf).field(opened, {}, pick).values
    assert len(values) == mesh.n_vertices and np.isfinite(values).all() and np.ptp(values) > 0
