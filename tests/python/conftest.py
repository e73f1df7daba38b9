"""Every test runs on real ranks: processes that meet over shared memory or TCP."""

import pytest
import tutti


def run_ranks(ranks, function, *args, **options):
    """function(comm, *args) on so many forked ranks; what fails on one of them fails the test."""
    options.setdefault("timeout", 30)
    return tutti.spawn(function, ranks, *args, method="fork", **options)


@pytest.fixture
def run():
    return run_ranks


@pytest.fixture(params=["shm", "tcp"])
def transport(request):
    return request.param


@pytest.fixture(params=[1, 3, 4])
def ranks(request):
    return request.param
