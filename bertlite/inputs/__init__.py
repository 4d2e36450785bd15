"""Examples -> batches of tensors: masking, packing, order, micro-batches."""
