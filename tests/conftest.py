"""Settings for all tests: one thread per process, no screen, the same random examples every time."""

import os
import signal

# A job in the background is started with SIGINT ignored, and so would be the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before NumPy is loaded: two test processes on two cores, and sums in one order.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from hypothesis import settings  # noqa: E402

settings.register_profile("default", derandomize=True, deadline=None, print_blob=True, max_examples=100)
settings.register_profile("deep", settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
