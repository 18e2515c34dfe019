"""Calls that both the type checker and the function refuse: a comment that silences no error is itself an error."""

from collections.abc import Callable, Sequence

import numpy as np

import jaxpool

X = np.zeros((2, 3, 8, 8), np.float32)

CALLS: Sequence[Callable[[], object]] = [
    lambda: jaxpool.max_pool(X, (2, 2), padding=1.5),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_pool(X, (2, 2), padding="full"),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_pool(X, (2, 2), padding=(("SAME", 1), 0)),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_pool(X, (8 / 4, 8 / 4)),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_pool(X, X),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_pool(X, (2, 2), "SAME"),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_pool(X, (2, 2), 2, 0, 1),  # pyright: ignore[reportCallIssue, reportUnknownLambdaType]
    lambda: jaxpool.max_pool(X, (2, 2), strides=2),  # pyright: ignore[reportCallIssue, reportUnknownLambdaType]
    lambda: jaxpool.max_pool(X, (2, 2), ceil_mode="ceil"),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_pool(X, (2, 2), rule="forward"),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_pool([[1.0, 2.0], [3.0, 4.0]], (2, 2)),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_pool(jaxpool.max_pool_with_indices(X, (2, 2)), (2, 2)),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.avg_pool(X, (2, 2), divisor_override=(2, 2)),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.lp_pool(X, "inf", (2, 2)),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.lp_pool(X, (2, 2)),  # pyright: ignore[reportCallIssue, reportUnknownLambdaType]
    lambda: jaxpool.smooth_max_pool(X, None, (2, 2)),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.adaptive_avg_pool(X, (None, 2.0)),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.adaptive_avg_pool(X, None),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.global_avg_pool(X),  # pyright: ignore[reportCallIssue, reportUnknownLambdaType]
    lambda: jaxpool.global_avg_pool(X, axis=None),  # pyright: ignore[reportArgumentType]
    lambda: jaxpool.max_unpool(X, X.astype(int), (None, 8)),  # pyright: ignore[reportArgumentType]
]
