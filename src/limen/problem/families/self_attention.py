"""Tokens on the sphere that attend to each other: a transformer without learning, depth as time."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from limen.problem.activations import Activation, as_activation
from limen.problem.spec import InputError, Spec, nested_tuple

RandomMatrix = Literal["ginibre", "wigner", "goe", "wishart"]
QUERY_KEYS = ("ginibre", "wigner", "goe", "wishart")
VALUES = (*QUERY_KEYS, "query-key")
Matrix = tuple[tuple[float, ...], ...]


class FeedForward(Spec):
    r"""$w\,\sigma(ax+b)$ added to the attention of each token; $w$ (d, h), $a$ (h, d), $b$ (h,)."""

    outer: Annotated[Matrix, BeforeValidator(nested_tuple)] = Field(description="outer weights, d rows of h")
    inner: Annotated[Matrix, BeforeValidator(nested_tuple)] = Field(description="inner weights, h rows of d")
    bias: Annotated[tuple[float, ...], BeforeValidator(nested_tuple)] = Field(description="h biases")
    activation: Annotated[Activation, BeforeValidator(as_activation)] = Field(
        description="activation: a name or a formula in z"
    )


class SelfAttention(Spec):
    r"""`tokens` points of the unit sphere of $\mathbb R^{\text{dim}}$, at first independent and uniform, under

    $$\dot x_i=P^\perp_{x_i}\Big(\sum_h\sum_jA^{(h)}_{ij}V_hx_j+w\,\sigma(ax_i+b)\Big),\qquad
    A_{ij}=\frac{e^{\beta x_i^\top Bx_j}}{\sum_ke^{\beta x_i^\top Bx_k}},\quad B=Q^\top K$$

    (Geshkovski, Letrouit, Polyanskiy & Rigollet 2023). `normalized=False` replaces the denominator by the number of
    tokens. `query_key` ($B$) and `value` ($V$) are the identity (None), a matrix, or a random ensemble drawn anew for
    each seed and head: `ginibre`, `wigner`, `goe`, `wishart`, in the scalings of `limen.attention.random_matrix`; the
    value `query-key` is $V=B/\sqrt d$. `noise` $D$ adds tangential Brownian motion $\sqrt{2D}\,dW$.
    """

    beta: float = Field(description="inverse temperature of the attention")
    tokens: int = Field(ge=2, le=100_000, description="number of tokens")
    dim: int = Field(ge=2, le=10_000_000, description="dimension of the tokens")
    query_key: Annotated[RandomMatrix | Matrix | None, BeforeValidator(nested_tuple)] = Field(
        None, description="query-key matrix: rows, or ginibre, wigner, goe, wishart; by default the identity"
    )
    value: Annotated[RandomMatrix | Literal["query-key"] | Matrix | None, BeforeValidator(nested_tuple)] = Field(
        None, description="value matrix: as query_key, or query-key; by default the identity"
    )
    normalized: bool = Field(True, description="softmax; false: divide by the number of tokens")
    heads: int = Field(1, ge=1, le=64, description="number of heads")
    feed_forward: FeedForward | None = Field(None, description="a layer added to the attention of each token")
    noise: float = Field(0.0, ge=0.0, description="strength of tangential Brownian motion")

    @model_validator(mode="before")
    @classmethod
    def _named(cls, values: Any) -> Any:
        part = values.get("feed_forward") if isinstance(values, dict) else None
        if isinstance(part, (tuple, list)):
            return {**values, "feed_forward": FeedForward(*part)}
        return values

    @model_validator(mode="after")
    def _check(self) -> "SelfAttention":
        for name in ("query_key", "value"):
            matrix = getattr(self, name)
            if isinstance(matrix, tuple) and {len(matrix), *(len(row) for row in matrix)} != {self.dim}:
                raise InputError(f"{name} must have shape ({self.dim}, {self.dim}), that of dim.")
        return self

    @property
    def isotropic(self) -> bool:
        """Whether query-key and value are the identity and nothing else acts: the case of exact theory."""
        return self.query_key is None and self.value is None and self.feed_forward is None

    @property
    def d(self) -> int:
        """The dimension at which the problem is simulated."""
        return self.dim
