"""The facts that every face of a report shares: solutions, run summaries, groups of runs, statistics and sentences."""
