"""One thread each: small tensors on a busy machine run many times slower with two."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
