"""What the whole model promises: company, order, orientation and memory tricks change no answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from hodgeformer.base.containers import KINDS, ElementKind, PerElement
from hodgeformer.base.errors import BatchError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import Batch, pack
from meshes import all_kinds, icosphere, open_grid, tetrahedron

SMALL = {"n_classes": 5, "d_model": 16, "d_hidden": 24, "n_heads": 2, "blocks": "HTH", "updates": "vef"}


def small(**changes) -> HodgeFormer:
    torch.manual_seed(0)
    return HodgeFormer(ModelConfig(**{"task": "segmentation", **SMALL, **changes}))


@pytest.fixture(scope="module")
def batch() -> Batch:
    return pack([prepare(mesh) for mesh in all_kinds()])


@pytest.mark.parametrize("element", ["face", "vertex", "edge", "mesh"])
@pytest.mark.parametrize("stars", ["learned", "galerkin"])
def test_a_mesh_alone_and_in_company_gets_the_same_logits(batch, element, stars):
    task = "classification" if element == "mesh" else "segmentation"
    model = small(task=task, element=element, stars=stars).eval()
    with torch.inference_mode():
        packed = model(batch)
        alone = torch.cat([model(pack([prepare(mesh)])) for mesh in all_kinds()])
    rows = len(batch) if element == "mesh" else batch.n[model.config.target_kind]
    assert packed.shape == (rows, 5)
    # Rows of a matrix product round differently in blocks of another size: equal up to that.
    torch.testing.assert_close(packed, alone, rtol=1e-4, atol=1e-5)


def test_evaluation_repeats_to_the_bit(batch):
    model = small().eval()
    with torch.inference_mode():
        assert torch.equal(model(batch), model(batch))


def renumbered(mesh: Mesh, seed: int) -> tuple[Mesh, np.ndarray, np.ndarray]:
    """Vertices renumbered, faces reordered, corners rotated: (mesh, vertex order, face order)."""
    rng = np.random.default_rng(seed)
    order_v, order_f = rng.permutation(mesh.n_vertices), rng.permutation(mesh.n_faces)
    faces = np.argsort(order_v)[mesh.faces[order_f]]
    turns = rng.integers(3, size=(mesh.n_faces, 1))
    faces = np.take_along_axis(faces, (np.arange(3) + turns) % 3, axis=1)
    return Mesh(mesh.vertices[order_v], faces, name=mesh.name), order_v, order_f


@pytest.mark.parametrize("mesh", all_kinds()[:6], ids=lambda mesh: mesh.name)
def test_renumbering_a_file_changes_no_logit(mesh):
    model = small().eval()
    other, _, order_f = renumbered(mesh, seed=3)

    def in_file_order(source: Mesh) -> np.ndarray:
        prepared = prepare(source)
        with torch.inference_mode():
            return prepared.to_file_order(model(pack([prepared])).numpy(), "f")

    np.testing.assert_array_equal(in_file_order(other), in_file_order(mesh)[order_f])


@pytest.mark.parametrize("stars", ["learned", "barycentric", "galerkin"])
def test_flipping_all_edges_at_once_changes_nothing(batch, stars):
    topology = batch.topology
    other = replace(topology, edges=topology.edges.flip(1), face_signs=-topology.face_signs)
    for updates in KINDS:
        model = small(updates=updates, stars=stars).eval()
        with torch.inference_mode():
            torch.testing.assert_close(model(replace(batch, topology=other)), model(batch), rtol=0, atol=1e-6)


def test_flipping_one_edge_does_change_the_learned_operator(batch):
    """The reason for the canonical order; also shows that the test above can fail."""
    topology = batch.topology
    edges = topology.edges.clone()
    edges[40] = edges[40].flip(0)
    model = small(updates="v").eval()
    with torch.inference_mode():
        change = model(replace(batch, topology=replace(topology, edges=edges))) - model(batch)
    assert change.abs().max() > 1e-4


def loss_of(model: HodgeFormer, batch: Batch) -> Tensor:
    logits = model(batch)
    return torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)) % 5)


@pytest.mark.parametrize("embedding", ["neighbor", "plain"])
@pytest.mark.parametrize("task", ["classification", "segmentation"])
@pytest.mark.parametrize("updates", ["v", "e", "f", "ve", "vf", "ef", "vef"])
def test_every_parameter_gets_a_gradient(batch, updates, task, embedding):
    model = small(updates=updates, task=task, embedding=embedding).train()
    loss_of(model, batch).backward()
    without = [
        name for name, p in model.named_parameters() if p.grad is None or not p.grad.any() or p.grad.isnan().any()
    ]
    assert not without


def test_checkpointing_changes_no_gradient_with_dropout_on(batch):
    gradients = []
    for checkpoint_activations in (False, True):
        model = small(dropout=0.4, checkpoint_activations=checkpoint_activations).train()
        torch.manual_seed(11)
        loss_of(model, batch).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_dropout_follows_the_state_of_the_generator(batch):
    model = small(dropout=0.4).train()
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(model(batch))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])


@pytest.mark.parametrize("task", ["classification", "segmentation"])
def test_one_batch_can_be_learned_by_heart(task):
    meshes = [icosphere(1), open_grid(), tetrahedron(), icosphere(0)]
    data = pack([prepare(mesh) for mesh in meshes])
    model = small(task=task, updates="v", dropout=0.0).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = loss_of(model, data)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]


def test_a_batch_of_one_mesh_trains_a_classifier():
    model = small(task="classification").train()
    before = model.head.center.running_mean.clone()
    loss_of(model, pack([prepare(tetrahedron())])).backward()
    assert torch.equal(model.head.center.running_mean, before)


def test_features_are_normalized_and_only_where_a_layer_reads(batch):
    features = small(updates="v").eval().forward_features(batch)
    assert features.f is None
    assert features.v is not None
    assert features.v.shape == (batch.n.v, 16)
    torch.testing.assert_close(features.v.mean(1), torch.zeros(batch.n.v), atol=1e-5, rtol=0)


def test_the_number_of_parameters_is_known():
    d, hidden = 16, 24
    model = small(updates="v", blocks="H", embedding="plain")
    embedding = (7 + 21) * hidden + 2 * (hidden + hidden * d + d)
    block = 6 * d * d + 2 * d * hidden + hidden + d
    assert model.n_parameters == embedding + block + 5 * d + 5


def test_regression_has_one_row_per_mesh_or_element(batch):
    assert small(task="regression", n_classes=2)(batch).shape == (len(batch), 2)
    assert small(task="regression", n_classes=2, element="edge")(batch).shape == (batch.n.e, 2)


def wrong(batch: Batch, kind: ElementKind, x: Tensor) -> Batch:
    return replace(batch, x_in=PerElement(*(x if k == kind else batch.x_in[k] for k in KINDS)))


def test_wrong_input_is_refused_at_the_door(batch):
    model = small()
    with pytest.raises(BatchError, match=r"vertex features must have shape \(\d+, 7\).*got \(\d+, 3\)"):
        model(wrong(batch, "v", batch.x_in.v[:, :3]))
    with pytest.raises(BatchError, match="edge features must have shape"):
        model(wrong(batch, "e", batch.x_in.e[1:]))
    with pytest.raises(BatchError, match=r"float64 but the model is torch.float32; use batch.to"):
        model(batch.to(dtype=torch.float64))
    with pytest.raises(BatchError, match=r"several devices \(cpu, meta\)"):
        model(wrong(batch, "f", batch.x_in.f.to("meta")))
    with pytest.raises(BatchError, match=r"several devices \(cpu, meta\)"):
        model(batch.to("meta"))
    coords = pack([prepare(tetrahedron(), PrepareConfig(features=("coords",)))])
    with pytest.raises(BatchError, match=r"got \(4, 3\)"):
        model(coords)
