"""Grading on a Dask cluster: each worker process there has its own warm sandbox, as a process on one machine has."""

import contextlib
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Executor, Future
from typing import Any

from distributed import Client, WorkerPlugin

from autograder.grading.batch import NoCluster
from autograder.grading.grade import close_workers, use_one_thread
from autograder.grading.records import course_digest

WAIT_SECONDS = 30  # for the scheduler, and for a first worker


class Prepared(WorkerPlugin):
    """What ``prepare_process`` does for a process of a pool, for each worker there is or will be."""

    name = "attention-course"

    def setup(self, worker) -> None:
        use_one_thread()

    def teardown(self, worker) -> None:
        close_workers()


class ClusterExecutor(Executor):
    """The workers of a scheduler as an executor that notices when the scheduler is gone.

    Dask's own executor forgets futures that are handed in while the connection is lost: they never end.
    """

    def __init__(self, client: Client):
        self.client, self.executor = client, client.get_executor(pure=False)

    def submit(self, function: Callable, /, *args: Any, **kwargs: Any) -> Future:
        return self.executor.submit(function, *args, **kwargs)

    def lost(self) -> bool:
        """Whether the connection to the scheduler is lost."""
        return self.client.status != "running"

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if not self.lost():  # else what it waits for may never end
            self.executor.shutdown(wait=wait)


@contextlib.contextmanager
def cluster(address: str, stems: Collection[str]) -> Iterator[ClusterExecutor]:
    """An executor whose work is done by the workers of a Dask scheduler.

    Parameters
    ----------
    address
        The scheduler's address, such as ``tcp://host:8786``.
    stems
        The chapters that will be graded.

    Raises
    ------
    NoCluster
        If nothing answers at the address, no worker comes, or one has another version of the course.
    """
    try:
        client = Client(address, timeout=WAIT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise NoCluster(f"no Dask scheduler answers at {address} ({error})") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WAIT_SECONDS)
        except TimeoutError:
            raise NoCluster(
                f"the Dask scheduler at {address} has no worker; to start one:  dask worker {address}"
            ) from None
        for worker, digests in client.run(_digests, sorted(stems)).items():
            if digests != _digests(sorted(stems)):
                raise NoCluster(f"the worker {worker} has another version of the course; install the same on all")
        client.register_plugin(Prepared())
        with ClusterExecutor(client) as executor:
            yield executor


def _digests(stems: list[str]) -> list[str] | str:
    """What decides the marks, as this process has it."""
    try:
        return [course_digest(stem) for stem in stems]
    except OSError as error:
        return str(error)
