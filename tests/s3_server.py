"""A local S3: moto's server in a thread, and the environment by which clients find it."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem


@contextmanager
def s3_server(bucket: str) -> Generator[None, None, None]:
    """While it runs, `s3://<bucket>` is there, for this process and its children."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        S3FileSystem.clear_instance_cache()
        try:
            S3FileSystem().mkdir(bucket)
            yield
        finally:
            S3FileSystem.clear_instance_cache()
            server.stop()
