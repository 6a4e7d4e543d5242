"""Cost of a call of several tokens by kind of kernel."""

from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import calls


@given(rows=st.integers(1, 10_000), tile=st.integers(1, 256))
def test_tiles_are_whole_and_hold_every_row(rows, tile):
    padded = calls.tiled_rows(rows, tile)
    assert padded % tile == 0 and rows <= padded < rows + tile


@given(rows=st.integers(1, 1000), passes=st.integers(1, 1000), unpack=st.floats(0, 10), per_row=st.floats(0, 10))
def test_unpacking_is_paid_per_pass_and_the_product_per_row(rows, passes, unpack, per_row):
    assert calls.lane_instructions(rows, passes, unpack, 0.0) == passes * unpack
    assert calls.lane_instructions(rows, passes, 0.0, per_row) == rows * per_row
    one = calls.lane_instructions(rows, passes, unpack, per_row)
    assert calls.lane_instructions(2 * rows, 2 * passes, unpack, per_row) == 2 * one
