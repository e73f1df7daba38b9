"""What PyTorch (2.5 and newer) calls at the end of `import torch`: registers the backend "tutti" without loading it.

Never raises: an error here would break `import torch`.
"""


def create(options, backend_options):
    """Called by torch.distributed for every group; loads the extension with the first one."""
    from tutti.torch import _create

    return _create(options, backend_options)


def register():
    try:
        from torch import distributed

        if distributed.is_available() and "TUTTI" not in distributed.Backend._plugins:
            distributed.Backend.register_backend("tutti", create, extended_api=True, devices=["cpu"])
    except Exception:  # `import tutti.torch` says what is wrong
        pass
