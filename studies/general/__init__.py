"""Compare learners on problems that nobody tuned on: a training half for choosing, a validation half for reporting."""
