"""Benchmarks of opdop: each module bench_NAME.py has a function main() that measures and prints."""
