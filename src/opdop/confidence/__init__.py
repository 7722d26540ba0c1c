"""What the data allow: confidence sets, optimistic and pessimistic values, certificates."""
