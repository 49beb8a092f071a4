"""Scores and corrections of a batch: one strength for all its cells, and what is logged of it."""

import direct
import jax
import jax.numpy as jnp
import numpy as np

from rlvr import corrections
from rlvr.train import prepare

ROLLOUT = direct.make_rollout([[1, 0], [0, 1], [1, 0]], lengths=[3, 2, 1, 3, 2, 2])


def prepared(layout, **changes):
  """The batch of one minibatch and its metrics, AIS between tables and recorded log-probs."""
  recipe = direct.make_recipe(
      score_old=True, correction=corrections.ais, readings=corrections.READINGS['ais'], **changes)
  make = jax.jit(prepare.make_prepare(recipe, direct.POLICY, layout))
  (batch,), _, metrics = make(ROLLOUT, direct.make_state(ROLLOUT))
  return batch, metrics


class TestScoreCells:

  def test_the_strength_is_the_batchs_not_the_cells(self):
    whole, metrics = prepared(direct.make_layout(num_cells=1, spans=(3,)))
    cells, split = prepared(direct.make_layout(num_cells=3, rows=2, prompts=1, spans=(3,)))
    assert int(cells.used[0]) == 3 and float(metrics['ais_alpha']) > .01
    for name in ('ais_ess', 'ais_kl', 'ais_cv', 'ais_alpha'):
      np.testing.assert_allclose(split[name], metrics[name], rtol=1e-5)
    by_row = lambda batch: {
        int(row): np.asarray(w) for row, w, there in zip(
            batch.extras['row'].ravel(), batch.correction.reshape(-1, 3), batch.where.ravel(),
            strict=True) if there}
    one, other = by_row(whole), by_row(cells)
    assert len(one) == 6
    for row, weight in one.items():
      np.testing.assert_allclose(other[row], weight, rtol=1e-5)

  def test_nothing_is_scored_or_logged_without_need(self):
    recipe = direct.make_recipe()
    make = prepare.make_prepare(recipe, direct.POLICY, direct.make_layout(spans=(3,)))
    (batch,), _, metrics = jax.eval_shape(make, ROLLOUT, direct.make_state(ROLLOUT))
    assert batch.old_logp is None and batch.correction is None
    assert not [name for name in metrics if name.startswith(('ais', 'old'))]

  def test_no_rows_give_finite_readings(self):
    recipe_rollout = ROLLOUT.replace(where=jnp.zeros_like(ROLLOUT.where))
    recipe = direct.make_recipe(
        score_old=True, correction=corrections.ais, readings=corrections.READINGS['ais'])
    make = jax.jit(prepare.make_prepare(
        recipe, direct.POLICY, direct.make_layout(num_cells=1, spans=(3,))))
    _, _, metrics = make(recipe_rollout, direct.make_state(ROLLOUT))
    assert float(metrics['ais_alpha']) == 0 and float(metrics['ais_ess']) == 1
