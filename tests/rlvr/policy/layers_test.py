"""Norm, rotary positions and their stretched forms, against formulas written apart."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr.policy import config as config_lib
from rlvr.policy import layers


def make_config(head_dim=16, theta=10_000.0, scaling=None):
  return config_lib.ModelConfig(
      family='llama', vocab_size=8, num_layers=1, d_model=8, num_heads=1, num_kv_heads=1,
      head_dim=head_dim, d_ff=8, rope_theta=theta, rope_scaling=scaling)


def plain(head_dim, theta):
  return [theta ** (-2 * i / head_dim) for i in range(head_dim // 2)]


class TestNorm:

  def test_worked(self):
    out = layers.rms_norm(jnp.array([[3.0, 4.0]]), jnp.array([1.0, 2.0]), 0.0)
    np.testing.assert_allclose(out, np.array([[3, 8]]) / np.sqrt(12.5), rtol=1e-6)

  def test_zero_is_zero_and_statistics_are_f32(self):
    zero = layers.rms_norm(jnp.zeros((1, 4)), jnp.ones(4), 1e-5)
    np.testing.assert_array_equal(zero, 0.0)
    # The squares overflow in bf16's neighbour f16, not in f32.
    x = jnp.full((1, 4), 300.0, jnp.float16)
    np.testing.assert_allclose(layers.rms_norm(x, jnp.ones(4), 1e-5), 1.0, rtol=1e-3)


class TestFrequencies:

  def test_plain(self):
    freq = layers.rotary_frequencies(make_config(head_dim=4, theta=100.0))
    np.testing.assert_allclose(freq, [1.0, 0.1], rtol=1e-6)

  def test_linear(self):
    scaling = config_lib.RopeScaling(kind='linear', factor=4.0)
    freq = layers.rotary_frequencies(make_config(scaling=scaling))
    np.testing.assert_allclose(freq, np.array(plain(16, 1e4)) / 4, rtol=1e-6)

  def test_llama3(self):
    # Llama 3.1's numbers; branches as in its release, by wavelength.
    scaling = config_lib.RopeScaling(kind='llama3', factor=8.0, low_freq_factor=1.0,
                                     high_freq_factor=4.0, original_max_positions=8192)
    expected, kinds = [], set()
    for freq in plain(128, 500_000.0):
      wavelength = 2 * math.pi / freq
      if wavelength < 8192 / 4.0:
        expected.append(freq)
        kinds.add('short')
      elif wavelength > 8192 / 1.0:
        expected.append(freq / 8.0)
        kinds.add('long')
      else:
        smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0)
        expected.append((1 - smooth) * freq / 8.0 + smooth * freq)
        kinds.add('between')
    assert kinds == {'short', 'between', 'long'}
    actual = layers.rotary_frequencies(make_config(128, 500_000.0, scaling))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)

  def test_yarn(self):
    # arXiv 2309.00071, section 3.2: dimensions by their rotations in the original context.
    scaling = config_lib.RopeScaling(kind='yarn', factor=4.0, original_max_positions=32_768,
                                     attention_factor=1.138)
    head_dim, theta = 128, 1e6

    def dimension(rotations):
      return head_dim * math.log(32_768 / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = math.floor(dimension(32.0)), math.ceil(dimension(1.0))
    assert 0 < low < high < head_dim // 2
    expected = []
    for i, freq in enumerate(plain(head_dim, theta)):
      ramp = min(max((i - low) / (high - low), 0.0), 1.0)
      expected.append(freq / 4.0 * ramp + freq * (1 - ramp))
    config = make_config(head_dim, theta, scaling)
    np.testing.assert_allclose(layers.rotary_frequencies(config), expected, rtol=1e-5)
    cos, sin = layers.rotary_tables(config, jnp.array([0, 5]))
    np.testing.assert_allclose(cos[0], 1.138, rtol=1e-6)
    np.testing.assert_allclose(cos ** 2 + sin ** 2, 1.138 ** 2, rtol=1e-5)

  def test_an_unknown_kind_is_named(self):
    scaling = config_lib.RopeScaling(kind='dynamic', factor=2.0)
    with pytest.raises(ValueError, match="'dynamic'; supported: linear, llama3, yarn"):
      layers.rotary_frequencies(make_config(scaling=scaling))


class TestRotate:

  def test_turns_each_pair_as_a_complex_number(self):
    config = make_config(head_dim=6, theta=50.0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 2, 6)).astype(np.float32)  # [B, T, H, hd]
    positions = np.array([[0, 1, 2], [4, 9, 300]])
    cos, sin = layers.rotary_tables(config, jnp.asarray(positions))
    out = np.asarray(layers.rotate(jnp.asarray(x), cos, sin))
    angle = positions[..., None] * np.array(plain(6, 50.0))
    turned = (x[..., :3] + 1j * x[..., 3:]) * np.exp(1j * angle)[:, :, None]
    np.testing.assert_allclose(out, np.concatenate([turned.real, turned.imag], -1), atol=1e-4)

  def test_scores_depend_on_the_distance_alone(self):
    config = make_config()
    rng = np.random.default_rng(1)
    q, k = (jnp.asarray(rng.normal(size=(1, 1, 16)), jnp.float32) for _ in range(2))

    def score(at, distance):
      tables = lambda p: layers.rotary_tables(config, jnp.array([p]))
      turned = layers.rotate(q, *tables(at + distance)), layers.rotate(k, *tables(at))
      return float(jnp.sum(turned[0] * turned[1]))

    assert score(0, 3) == pytest.approx(score(40, 3), abs=1e-4)
    assert score(0, 3) != pytest.approx(score(0, 4), abs=1e-2)
