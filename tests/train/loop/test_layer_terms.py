"""A teacher's hidden states and attention: the gradient of plain torch, in one process and by the engine on ranks."""

from pathlib import Path

import pytest
import torch

from tests.train import fork_server, updates
from tests.train.loop.layer_terms import CASES, LEARNING_RATE, STAGES, WORLDS, plain_loss


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_that_of_plain_torch(name):
    case = CASES[name]
    student, whole = case.student(), case.batch()
    loss, means = plain_loss(case, student, case.teacher(), whole)
    wanted = torch.autograd.grad(loss, list(student.parameters()))
    terms = case.terms(student)
    counts, sums = updates.counts(terms, whole), terms.losses(student, whole)
    for term, mean in means.items():
        torch.testing.assert_close(sums[term] / counts[term], mean, rtol=1e-5, atol=1e-6)
    total = sum(weight * sums[term] / counts[term] for term, weight in terms.trained_weights.items())
    for gradient, expected in zip(torch.autograd.grad(total, list(student.parameters())), wanted, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=2e-6)
    printed = {term for term, weight in terms.weights.items() if weight}
    assert printed == {term for term, weight in case.objective.weights.items() if weight}
    plain = case.objective.losses(student, whole)
    first = next(iter(case.objective.weights))
    assert plain[first].item() == pytest.approx(sums[first].item(), rel=1e-6), "a call without a teacher is as before"


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    done = fork_server.run("tests.train.loop.layer_terms", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", CASES)
def test_an_update_on_ranks_is_that_of_plain_torch(name, saved):
    case = CASES[name]
    student, whole = case.student(), case.batch()
    loss, means = plain_loss(case, student, case.teacher(), whole)
    loss.backward()
    expected = {name: weight.detach() - LEARNING_RATE * weight.grad for name, weight in student.named_parameters()}
    counts = updates.counts(case.terms(case.student()), whole)
    for world in WORLDS:
        for stage in STAGES:
            found = torch.load(saved / f"{name}-{world}-{stage}.pt")
            for term, mean in means.items():
                assert found["sums"][term] / counts[term] == pytest.approx(mean.item(), rel=1e-5)
            assert found["weights"].keys() == expected.keys()
            for weight, value in expected.items():
                torch.testing.assert_close(found["weights"][weight], value, rtol=1e-4, atol=1e-5)
