"""Embedding, T block, heads and the classical stars, each against its formula."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from hodgeformer.base.containers import KINDS, PerElement
from hodgeformer.kernels.rows import normalized
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.blocks import LinearAttention, TransformerBlock
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.heads import ElementHead, MeshHead
from hodgeformer.nn.laplacians import LAPLACIANS
from hodgeformer.nn.metric import inverse
from hodgeformer.nn.model import Encoder, HodgeFormer, NeighborEmbedding, PlainEmbedding
from hodgeformer.nn.pack import Batch, pack
from meshes import all_kinds, icosphere, open_grid

CONFIG = ModelConfig(task="segmentation", n_classes=3, d_model=8, d_hidden=10, n_heads=2, updates="vef")


@pytest.fixture(scope="module")
def batch() -> Batch:
    return pack([prepare(mesh) for mesh in all_kinds()]).to(dtype=torch.float64)


@pytest.fixture(scope="module")
def x(batch) -> PerElement[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return batch.n.map(lambda n: torch.randn(n, 8, dtype=torch.float64, generator=generator))


def test_the_neighbor_embedding_adds_the_mean_of_adjacent_elements(batch):
    torch.manual_seed(0)
    embedding = NeighborEmbedding(CONFIG).double()
    out = embedding(batch.x_in, batch.topology)
    for kind in KINDS:
        gathered = batch.x_in[kind] + batch.topology.neighbor_mean(batch.x_in[kind], kind)
        torch.testing.assert_close(out[kind], embedding.mlp[kind](gathered))
    plain = PlainEmbedding(CONFIG).double()
    plain.load_state_dict(embedding.state_dict())
    torch.testing.assert_close(plain(batch.x_in, batch.topology).v, embedding.mlp["v"](batch.x_in.v))


def dense_linear_attention(layer: LinearAttention, x: Tensor) -> Tensor:
    """One mesh: softmax replaced by phi(q) phi(k)^T with rows scaled to sum one."""

    def heads(weight: Tensor) -> Tensor:
        return (x @ weight.T).view(len(x), 2, -1).transpose(0, 1)

    phi_q, phi_k = (torch.nn.functional.elu(heads(w)) + 1 for w in (layer.query.weight, layer.key.weight))
    weights = phi_q @ phi_k.transpose(1, 2)
    out = weights / weights.sum(-1, keepdim=True) @ heads(layer.value.weight)
    return out.transpose(0, 1).flatten(1) @ layer.out.weight.T


def test_a_transformer_block_is_linear_attention_per_mesh_and_a_feed_forward(batch, x):
    torch.manual_seed(0)
    block = TransformerBlock(CONFIG).double().eval()
    out = block(x, batch.topology)
    for kind in KINDS:
        parts = batch.split(normalized(x[kind]), kind)
        mixer = block.attention.mixer[kind]
        expected = x[kind] + torch.cat([dense_linear_attention(mixer, part) for part in parts])
        expected = expected + block.feed_forward[kind](normalized(expected))
        torch.testing.assert_close(out[kind], expected, rtol=0, atol=1e-10)


def test_kinds_that_are_not_updated_keep_their_embedding(batch, x):
    torch.manual_seed(0)
    encoder = Encoder(CONFIG.replace(updates="v", blocks="HTH")).double().eval()
    out = encoder(x, batch.topology)
    torch.testing.assert_close(out.e, normalized(x.e))
    assert out.f is x.f
    torch.testing.assert_close(normalized(out.v), out.v, rtol=0, atol=1e-4)


def test_the_element_head_carries_every_updated_kind(batch, x):
    torch.manual_seed(0)
    head = ElementHead(CONFIG, "f").double().eval()
    faces = batch.topology.face_corners.indices.long()
    sides = batch.topology.face_sides.indices.long()
    carried = torch.cat([x.v[faces].mean(1), x.e[sides].mean(1), x.f], dim=1)
    torch.testing.assert_close(head(x, batch.topology), head.out(carried))


def test_the_mesh_head_centers_by_the_batch_in_training_and_by_its_memory_in_evaluation(batch, x):
    torch.manual_seed(0)
    head = MeshHead(CONFIG.replace(task="classification", element="mesh", dropout=0.0)).double()
    means = torch.cat([torch.stack([part.mean(0) for part in batch.split(x[kind], kind)]) for kind in KINDS], dim=1)
    centered = (means - means.mean(0)) / (means.var(0, unbiased=False) + head.center.eps).sqrt()
    torch.testing.assert_close(head(x, batch.topology), head.out(centered))
    head.eval()
    spread = (head.center.running_var + head.center.eps).sqrt()
    torch.testing.assert_close(head(x, batch.topology), head.out((means - head.center.running_mean) / spread))


@pytest.mark.parametrize("stars", ["barycentric", "galerkin"])
@pytest.mark.parametrize("kind", KINDS)
def test_fixed_stars_give_the_textbook_laplacian(kind, stars):
    torch.manual_seed(0)
    topology = pack([prepare(icosphere(1)), prepare(open_grid())]).to(dtype=torch.float64).topology
    d0 = topology.d0(torch.eye(topology.n.v, dtype=torch.float64))
    d1 = topology.d1(torch.eye(topology.n.e, dtype=torch.float64))
    metric = topology.metric
    star1 = torch.diag(metric.star1)
    if stars == "galerkin":
        star1 = metric.galerkin_star1(torch.eye(topology.n.e, dtype=torch.float64))
    star0_inv, star1_inv, star2 = map(torch.diag, (inverse(metric.star0), inverse(metric.star1), metric.star2))
    operator = {
        "v": star0_inv @ d0.T @ star1 @ d0,
        "e": d0 @ star0_inv @ d0.T @ star1 + star1_inv @ d1.T @ star2 @ d1,
        "f": d1 @ star1_inv @ d1.T @ star2,
    }[kind]
    laplacian = LAPLACIANS[kind](CONFIG.replace(stars=stars)).double()
    own = torch.randn(topology.n[kind], 8, dtype=torch.float64)
    forms = PerElement.build(lambda other: own if other == kind else None)
    expected = operator @ (own @ laplacian.value.weight.T) @ laplacian.out.weight.T
    torch.testing.assert_close(laplacian(forms, topology), expected, rtol=1e-10, atol=1e-10)
    assert sum(p.numel() for p in laplacian.parameters()) == 2 * 8 * 8


def test_a_finer_mesh_has_no_larger_classical_laplacian():
    largest = []
    for subdivisions in (1, 2, 3):
        topology = pack([prepare(icosphere(subdivisions))]).to(dtype=torch.float64).topology
        metric = topology.metric
        columns = topology.d0(torch.eye(topology.n.v, dtype=torch.float64))
        operator = metric.star0.rsqrt()[:, None] * topology.d0_t(metric.galerkin_star1(columns))
        largest.append(float(torch.linalg.eigvalsh(operator * metric.star0.rsqrt()).max()))
    assert max(largest) < 2 * min(largest)


@pytest.mark.parametrize("updates", ["v", "f", "vf"])
def test_signed_stars_do_not_see_which_way_edges_point(updates: str) -> None:
    """Half of all edges reversed: signs of the faces that walk them, and their columns, follow; the answer stays."""
    prepare_config = PrepareConfig(n_neighbors=12, features=("coords", "normals", "areas", "distances"))
    batch = pack([prepare(mesh, prepare_config) for mesh in (icosphere(2), open_grid())]).to(dtype=torch.float64)
    config = ModelConfig(
        task="segmentation", n_classes=3, blocks="HT", updates=updates, d_model=16, d_hidden=16, n_heads=2,
        in_features=dict(prepare_config.widths.items()), signed_stars=True, edge_reversal=prepare_config.edge_reversal,
    )  # fmt: skip
    torch.manual_seed(0)
    signed = HodgeFormer(config).double().eval()
    torch.manual_seed(0)
    unsigned = HodgeFormer(config.model_copy(update={"signed_stars": False})).double().eval()
    turned = torch.arange(batch.n.e) % 2 == 0
    topology = replace(
        batch.topology,
        edges=torch.where(turned[:, None], batch.topology.edges.flip(1), batch.topology.edges),
        face_signs=torch.where(
            turned[batch.topology.face_edges.long()], -batch.topology.face_signs, batch.topology.face_signs
        ),
    )
    columns = torch.where(turned[:, None], batch.x_in.e[:, list(prepare_config.edge_reversal)], batch.x_in.e)
    reversed_batch = replace(batch, topology=topology, x_in=batch.x_in.replace(e=columns))
    torch.testing.assert_close(signed(reversed_batch), signed(batch), rtol=1e-9, atol=1e-9)
    assert (unsigned(reversed_batch) - unsigned(batch)).abs().max() > 1e-3


def test_faces_without_area_have_no_normal() -> None:
    """Corners in one place, and corners on a line: what rounding leaves is no direction."""
    places = torch.randn(40, 3, dtype=torch.float64, generator=torch.manual_seed(0)).numpy()
    corners = places[:20, None] + places[20:, None] * [[[0.0], [1.0], [1.0]]]
    corners[10:, 2] += places[30:]
    flat = prepare(Mesh(corners.reshape(-1, 3), torch.arange(60).view(20, 3).numpy()), PrepareConfig())
    assert not pack([flat]).topology.face_normals.any()
