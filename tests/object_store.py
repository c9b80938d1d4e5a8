"""A real S3 server on a loopback port: moto's, started and stopped by the tests."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from clearhead.files.s3_path import S3Path, connect

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
MIN_PART_BYTES = 1 << 16  # so that small objects have many parts


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a server that runs until the end of the block."""
    os.environ["S3_UPLOAD_PART_MIN_SIZE"] = str(MIN_PART_BYTES)  # moto reads it when it is imported
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def new_bucket() -> S3Path:
    """A new bucket, at the endpoint of the environment."""
    bucket = f"bucket-{secrets.token_hex(4)}"
    connect().create_bucket(Bucket=bucket)
    return S3Path(bucket)
