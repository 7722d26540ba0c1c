"""Benchmarks of opdop: each module bench_*.py has a function main() that measures and prints."""
