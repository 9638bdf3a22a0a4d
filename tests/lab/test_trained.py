"""The store of trained models: trained once, loaded afterwards, and never what another key stands for."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from lab import trained
from lab.trained import trained_once

calls = []


def build(width, seed):
    torch.manual_seed(seed)
    return nn.Linear(width, 1)


def train(model, width, seed):
    calls.append(width)
    time.sleep(0.05)
    with torch.no_grad():
        model.weight += 1.0
    return [model.weight.sum().item()]


@pytest.fixture(autouse=True)
def no_calls():
    calls.clear()


@pytest.fixture
def root(tmp_path):
    (tmp_path / "_build").mkdir()
    return tmp_path


def test_a_model_is_trained_once_and_then_loaded(root):
    first, losses = trained_once(build, train, root=root, width=3, seed=0)
    again, same = trained_once(build, train, root=root, width=3, seed=0)
    assert calls == [3]
    assert losses == same
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, build(3, 0).weight)


def test_other_code_is_another_training_and_leaves_no_old_weights(root, monkeypatch):
    trained_once(build, train, root=root, width=3, seed=0)
    monkeypatch.setattr(trained, "_code", lambda *functions: ["changed"])
    trained_once(build, train, root=root, width=3, seed=0)
    assert calls == [3, 3]
    assert len(list(root.rglob("*.pt"))) == 1


def test_other_arguments_are_another_model(root):
    trained_once(build, train, root=root, width=3, seed=0)
    trained_once(build, train, root=root, width=4, seed=0)
    trained_once(build, train, root=root, width=3, seed=1)
    assert calls == [3, 4, 3]


def test_two_who_ask_at_once_train_once(root):
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(trained_once, build, train, root=root, width=3, seed=0) for _ in range(2)]
    assert calls == [3]
    assert asked[0].result()[1] == asked[1].result()[1]


def test_a_training_that_fails_leaves_nothing(root):
    def fail(model, width):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        trained_once(lambda width: nn.Linear(width, 1), fail, root=root, width=2)
    assert not list(root.rglob("*.pt"))
    assert not list(root.rglob("*.partial"))


def test_where_nothing_is_built_nothing_is_kept(tmp_path):
    trained_once(build, train, root=tmp_path, width=3, seed=0)
    trained_once(build, train, root=tmp_path, width=3, seed=0)
    assert calls == [3, 3]
    assert list(tmp_path.iterdir()) == []


def test_trained_weights_depend_on_the_modules_that_the_functions_come_from_and_import():
    from lab import translation

    files = {path.name for path in trained._sources({translation.__name__})}
    assert {"translation.py", "training.py", "grammar.py", "lexicon.py", "rnn_attention.py"} <= files
    assert "recall.py" not in files


def test_words_about_the_code_change_nothing(tmp_path):
    def statements(source):
        (tmp_path / "module.py").write_text(source)
        return trained._statements(tmp_path / "module.py")

    plain = statements('"""One."""\ndef f(x):\n    """Two."""\n    return x\n')
    assert statements('"""Other."""\n\ndef f(x):\n    """Words."""\n    # a comment\n    return x\n') == plain
    assert statements('"""One."""\ndef f(x):\n    """Two."""\n    return x + 1\n') != plain
