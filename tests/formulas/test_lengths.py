"""Lengths as nodes and weights."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import lengths

MEANS = st.floats(1, 1e5)
RATIOS = st.floats(0.05, 2.0)


@given(mean=MEANS, ratio=RATIOS)
def test_lognormal_moments(mean, ratio):
    x, w = lengths.lognormal_nodes(mean, ratio * mean, math.inf)
    assert w.sum() == pytest.approx(1)
    assert x @ w == pytest.approx(mean, rel=1e-6)
    assert x**2 @ w == pytest.approx(mean**2 * (1 + ratio**2), rel=1e-5)


@given(mean=MEANS, ratio=RATIOS, cut=st.floats(0.2, 10))
def test_a_cut_lognormal_has_the_closed_form_mean(mean, ratio, cut):
    """E[min(X, M)] = mean Phi((ln M - m - s^2)/s) + M (1 - Phi((ln M - m)/s))."""
    top = cut * mean
    s = math.sqrt(math.log1p(ratio**2))
    m = math.log(mean) - s * s / 2
    phi = NormalDist().cdf
    wanted = mean * phi((math.log(top) - m - s * s) / s) + top * (1 - phi((math.log(top) - m) / s))
    x, w = lengths.lognormal_nodes(mean, ratio * mean, top)
    assert x.max() == top
    assert x @ w == pytest.approx(wanted, rel=1e-4)


@given(edges=st.lists(st.integers(0, 10_000), min_size=2, max_size=12, unique=True), data=st.data())
def test_histogram_moments(edges, data):
    edges = sorted(edges)
    counts = data.draw(st.lists(st.integers(1, 100), min_size=len(edges) - 1, max_size=len(edges) - 1))
    x, w = lengths.histogram_nodes(edges, counts)
    share = np.array(counts) / sum(counts)
    low, high = np.array(edges[:-1], float), np.array(edges[1:], float)
    assert w.sum() == pytest.approx(1)
    assert x @ w == pytest.approx(share @ (low + high) / 2)
    assert x**2 @ w == pytest.approx(share @ (low**2 + low * high + high**2) / 3)


@given(values=st.lists(st.floats(0, 1e5), min_size=1, max_size=300))
def test_groups_keep_the_mean(values):
    x, w = np.array(values), np.full(len(values), 1 / len(values))
    found = lengths.groups(x, w)
    assert len(found) <= 32
    assert sum(share for _, share in found) == pytest.approx(1)
    assert sum(mean * share for mean, share in found) == pytest.approx(x.mean(), rel=1e-9, abs=1e-9)


def test_a_single_length_is_one_group():
    assert lengths.groups(7.0, None) == [(7.0, 1.0)]
