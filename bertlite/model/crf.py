"""A linear-chain conditional random field over the labels of a sentence's words.

score(y) = start[y_1] + sum_i emission[i, y_i] + sum_i transition[y_i-1, y_i] + end[y_W]; the likelihood normalises over all
C^W sequences by the forward algorithm. Sources: Lafferty et al. 2001; for neural emissions Lample et al. 2016, sec. 2.2.
Shapes: N sentences, W words, C labels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LinearChainCRF(nn.Module):
    """Scores of label after label, and of the first and last one; all begin at 0, which is a softmax a word."""

    def __init__(self, num_labels: int):
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))  # from, to
        self.start = nn.Parameter(torch.zeros(num_labels))
        self.end = nn.Parameter(torch.zeros(num_labels))

    def log_likelihood(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the log-likelihood (N,) of labels (N, W) given emissions (N, W, C); mask (N, W) is True where a word is.

        Words stand at the front of their row, and each row has one at least.
        """
        return self.score(emissions, labels, mask) - self.log_partition(emissions, mask)

    def score(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the score (N,) of one sequence of labels (N, W) each."""
        chosen = emissions.gather(2, labels[..., None])[..., 0]  # (N, W)
        steps = self.transitions[labels[:, :-1], labels[:, 1:]]  # (N, W - 1)
        last = labels.gather(1, mask.sum(1, keepdim=True) - 1)[:, 0]
        within = (chosen * mask).sum(1) + (steps * mask[:, 1:]).sum(1)
        return within + self.start[labels[:, 0]] + self.end[last]

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the logarithm (N,) of the sum of exp(score) over all label sequences."""
        forward = self.start + emissions[:, 0]  # (N, C)
        for word in range(1, emissions.shape[1]):
            further = torch.logsumexp(forward[:, :, None] + self.transitions, dim=1) + emissions[:, word]
            forward = torch.where(mask[:, word, None], further, forward)
        return torch.logsumexp(forward + self.end, dim=1)

    @torch.no_grad()
    def decode(self, emissions: Tensor, allowed: Tensor) -> Tensor:
        """Return the best allowed labels (W,) of one sentence's emissions (W, C), by Viterbi's algorithm.

        `allowed` is (C + 1, C) bool: whether a label may follow each label and, in the last row, come first.
        """
        forbidden = torch.zeros_like(allowed, dtype=emissions.dtype).masked_fill(~allowed, float("-inf"))
        transitions = self.transitions + forbidden[:-1]
        best = self.start + forbidden[-1] + emissions[0]
        back = []
        for emission in emissions[1:]:
            best, where = (best[:, None] + transitions).max(0)
            best = best + emission
            back.append(where)
        labels = [int((best + self.end).argmax())]
        for where in reversed(back):
            labels.append(int(where[labels[-1]]))
        return torch.tensor(labels[::-1])

    @torch.no_grad()
    def marginals(self, emissions: Tensor) -> Tensor:
        """Return the probability (W, C) of each label at each word of one sentence, by the forward-backward algorithm."""
        forward = [self.start + emissions[0]]
        for emission in emissions[1:]:
            forward.append(torch.logsumexp(forward[-1][:, None] + self.transitions, dim=0) + emission)
        backward: list[Tensor] = [self.end]
        for emission in reversed(emissions[1:]):
            backward.append(torch.logsumexp(self.transitions + emission + backward[-1], dim=1))
        return (torch.stack(forward) + torch.stack(backward[::-1])).softmax(-1)
