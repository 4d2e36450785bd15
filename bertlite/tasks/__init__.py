"""A pretrained encoder at work: a task joins features, head, loss, figures and prediction."""
