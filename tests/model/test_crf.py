"""The chain's sums and maxima, against every label sequence written out."""

import itertools

import pytest
import torch

from bertlite.model.crf import LinearChainCRF


def random_chain(num_labels, seed=0):
    chain = LinearChainCRF(num_labels).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in chain.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return chain


def score_of(chain, emissions, labels):
    """The score written out, word after word."""
    total = chain.start[labels[0]] + chain.end[labels[-1]]
    for word, label in enumerate(labels):
        total = total + emissions[word, label] + (chain.transitions[labels[word - 1], label] if word else 0)
    return total


def every_sequence(emissions):
    return list(itertools.product(range(emissions.shape[1]), repeat=len(emissions)))


@pytest.mark.parametrize(("words", "labels"), [(1, 3), (2, 2), (4, 3), (5, 2), (3, 4)])
def test_likelihood_is_that_of_enumeration(words, labels):
    chain, emissions = random_chain(labels), torch.randn(words, labels, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores = torch.stack([score_of(chain, emissions, s) for s in every_sequence(emissions)])
    for sequence in every_sequence(emissions):
        likelihood = chain.log_likelihood(emissions[None], torch.tensor([sequence]), torch.ones(1, words, dtype=torch.bool))
        torch.testing.assert_close(likelihood[0], score_of(chain, emissions, sequence) - scores.logsumexp(0), rtol=0, atol=1e-10)


def test_rows_of_different_length_are_as_if_alone():
    chain, generator = random_chain(3), torch.Generator().manual_seed(2)
    emissions, labels = torch.randn(3, 5, 3, generator=generator, dtype=torch.float64), torch.randint(0, 3, (3, 5), generator=generator)
    lengths = [5, 1, 3]
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    together = chain.log_likelihood(emissions, labels, mask)
    for row, length in enumerate(lengths):
        alone = chain.log_likelihood(emissions[row : row + 1, :length], labels[row : row + 1, :length], mask[row : row + 1, :length])
        torch.testing.assert_close(together[row], alone[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_constrained", [False, True])
def test_decoding_finds_the_best_allowed_sequence(seed, is_constrained):
    chain, emissions = random_chain(3, seed), torch.randn(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    allowed = torch.ones(4, 3, dtype=torch.bool)
    if is_constrained:  # 2 may follow 1 and 2 only, and never comes first
        allowed[[0, 3], 2] = False
    valid = [s for s in every_sequence(emissions) if allowed[3, s[0]] and all(allowed[a, b] for a, b in itertools.pairwise(s))]
    best = max(valid, key=lambda s: score_of(chain, emissions, s).item())
    assert tuple(chain.decode(emissions, allowed).tolist()) == best


def test_marginals_are_those_of_enumeration():
    chain, emissions = random_chain(3), torch.randn(4, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    sequences = every_sequence(emissions)
    probabilities = torch.stack([score_of(chain, emissions, s) for s in sequences]).softmax(0)
    expected = torch.zeros(4, 3, dtype=torch.float64)
    for sequence, probability in zip(sequences, probabilities, strict=True):
        expected[torch.arange(4), list(sequence)] += probability.detach()
    torch.testing.assert_close(chain.marginals(emissions), expected, rtol=0, atol=1e-10)


def test_gradients_are_right():
    chain = random_chain(3)
    emissions = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64, requires_grad=True)
    labels, mask = torch.tensor([[0, 1, 2, 1], [2, 0, 0, 0]]), torch.tensor([[True] * 4, [True, True, False, False]])

    def likelihood(emissions, transitions, start, end):
        return torch.func.functional_call(_Likelihood(chain), {"chain.transitions": transitions, "chain.start": start, "chain.end": end},
                                          (emissions, labels, mask))

    assert torch.autograd.gradcheck(likelihood, (emissions, chain.transitions, chain.start, chain.end))


class _Likelihood(torch.nn.Module):
    def __init__(self, chain):
        super().__init__()
        self.chain = chain

    def forward(self, *inputs):
        return self.chain.log_likelihood(*inputs)


def test_a_new_chain_is_a_softmax_a_word():
    chain, emissions = LinearChainCRF(4), torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(5))
    labels = torch.tensor([[0, 3, 2]])
    expected = emissions.log_softmax(-1).gather(2, labels[..., None]).sum()
    torch.testing.assert_close(chain.log_likelihood(emissions, labels, torch.ones(1, 3, dtype=torch.bool))[0], expected)
