"""The Hodge stars: learned ones, sparse attention between elements of one kind, and those of the textbook."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from hodgeformer.kernels.linear import linear, product
from hodgeformer.kernels.rows import drawn_seed, normalized_parts
from hodgeformer.kernels.star import star_attention
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import STAR_KIND, ModelConfig, StarName
from hodgeformer.nn.metric import Metric, inverse


class HodgeStar(nn.Module):
    """star(x) y: for each head, row softmax p of q k^T / sqrt(d_head) over S_i, applied to y.

    q = LN(x W_Q), k = LN(x W_K), LayerNorm over d_head. The same class serves the inverse stars, each with
    W_Q and W_K of its own. A signed star has the entries p_ij (u_i . u_j), u the directions of edges or the normals of
    faces, so that no answer depends on which way an edge points.
    """

    def __init__(self, config: ModelConfig, name: StarName) -> None:
        super().__init__()
        self.query = linear(config.d_model, config.d_model, bias=False)
        self.key = linear(config.d_model, config.d_model, bias=False)
        self.kind, self.n_heads = STAR_KIND[name], config.n_heads
        self.dropout, self.backend = config.dropout, config.backend
        self.signed = config.signed_stars and self.kind != "v"

    def forward(
        self, x: Float[Tensor, "n d"], y: Float[Tensor, "n d"], topology: PackedComplex
    ) -> Float[Tensor, "n d"]:
        dropout = self.dropout if self.training else 0.0
        q, k = self.queries_and_keys(x)
        out = star_attention(
            q=q,
            k=k,
            y=y.view(y.shape[0], self.n_heads, -1),
            pattern=topology.patterns[self.kind],
            directions=self._directions(topology) if self.signed else None,
            dropout=dropout,
            seed=drawn_seed() if dropout else 0,
            backend=self.backend,
        )
        return out.flatten(1)

    def _directions(self, topology: PackedComplex) -> Float[Tensor, "n 3"]:
        return topology.edge_directions if self.kind == "e" else topology.face_normals

    def queries_and_keys(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "n h d_head"], ...]:
        """Both by one matrix product, because fewer and larger products are faster."""
        both = product(x, self.query.weight, self.key.weight)
        return normalized_parts(both.view(x.shape[0], 2, self.n_heads, -1))


class FixedStar(nn.Module):
    """star y of discrete exterior calculus, the same for every head and column; the features are not read.

    It replaces a learned star, for comparison.

    All stars are the diagonal ones of the barycentric dual. With `galerkin`, star1 is the mass matrix of
    Whitney 1-forms, which makes d0^T star1 d0 the cotangent Laplacian. Its inverse is dense, so star1_inv
    stays the diagonal one.
    """

    def __init__(self, name: StarName, *, galerkin: bool) -> None:
        super().__init__()
        self.name, self.galerkin = name, galerkin

    def forward(self, x: Tensor | None, y: Float[Tensor, "n d"], topology: PackedComplex) -> Float[Tensor, "n d"]:
        if self.name == "star1" and self.galerkin:
            return topology.metric.galerkin_star1(y)
        return self.diagonal(topology.metric).to(y.dtype).unsqueeze(1) * y

    def diagonal(self, metric: Metric) -> Float[Tensor, " n"]:
        if self.name == "star0_inv":
            return inverse(metric.star0)
        if self.name == "star1_inv":
            return inverse(metric.star1)
        return metric.star1 if self.name == "star1" else metric.star2


def star_for(config: ModelConfig, name: StarName) -> HodgeStar | FixedStar:
    """One star, learned or fixed as the configuration says."""
    if config.stars == "learned":
        return HodgeStar(config, name)
    return FixedStar(name, galerkin=config.stars == "galerkin")
