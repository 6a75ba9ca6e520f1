"""An S3 bucket (or a server that speaks S3) as object store. Here: boto3 behind the interface. Not here: making
buckets.

A single PUT is atomic in S3, so "whole or not at all" needs nothing of ours; `put_if_absent` is a conditional PUT
(`If-None-Match: *`). boto3's client retries what may be retried; what is left becomes one clear sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import boto3
import pyarrow as pa
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from transforms.errors import PermanentError
from warehouse.objects.config import ObjectStoreSettings
from warehouse.objects.store import ObjectInfo, ObjectMissing, StoreDenied, StoreFull, StoreUnavailable, check_key

_THREADS = 16
_DELETE_BATCH = 1000  # the most that DeleteObjects takes
_MISSING = {"NoSuchKey", "404", "NotFound"}
_DENIED = {"AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket", "InvalidBucketName"}
_FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507"}
_TRY_AGAIN = {"SlowDown", "RequestTimeout", "ConditionalRequestConflict"}


class S3Store:
    """`settings.url` is `s3://bucket` or `s3://bucket/prefix`. Without keys in it, AWS' own chain is asked."""

    def __init__(self, settings: ObjectStoreSettings) -> None:
        bucket, _, prefix = settings.url.removeprefix("s3://").partition("/")
        if not bucket:
            raise PermanentError(
                f"object store {settings.url!r} names no bucket: write s3://bucket or s3://bucket/prefix"
            )
        self.bucket = bucket
        self.prefix = f"{check_key(prefix.strip('/'))}/" if prefix.strip("/") else ""
        self.url = f"s3://{bucket}/{self.prefix}".rstrip("/")
        self._settings = settings
        self._client = boto3.client(
            "s3",
            endpoint_url=settings.endpoint_url,
            region_name=settings.region,
            aws_access_key_id=settings.access_key.get_secret_value() if settings.access_key else None,
            aws_secret_access_key=settings.secret_key.get_secret_value() if settings.secret_key else None,
            config=Config(
                connect_timeout=5,
                read_timeout=60,
                max_pool_connections=2 * _THREADS,
                retries={"mode": "standard", "max_attempts": 4},
                s3={"addressing_style": "path" if settings.endpoint_url else "auto"},
                # Servers that only speak older S3 refuse the newer trailing checksums; bodies are checked by SHA-256.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def put(self, key: str, data: bytes) -> None:
        self._call("put_object", key, Body=data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        try:
            self._client.put_object(Bucket=self.bucket, Key=self._key(key), Body=data, IfNoneMatch="*")
        except ClientError as error:
            # 412: it was there. 409: another writer's conditional PUT is under way and one of the two wins.
            if _status(error) == 412 or (_status(error) == 409 and self.exists([key])):
                return False
            self._explain(error, key)
        except BotoCoreError as error:
            self._explain(error, key)
        return True

    def get(self, key: str) -> bytes:
        answer = self._call("get_object", key)
        try:
            return answer["Body"].read()
        except BotoCoreError as error:  # the connection broke off in the body
            self._explain(error, key)

    def open(self, key: str) -> pa.NativeFile:
        return pa.BufferReader(self.get(key))

    def exists(self, keys: Sequence[str]) -> set[str]:
        wanted = sorted({check_key(key) for key in keys})
        if len(wanted) <= 1:
            return {key for key in wanted if self._head(key) is not None}
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="s3-head") as pool:
            return {key for key, size in zip(wanted, pool.map(self._head, wanted), strict=True) if size is not None}

    def size(self, key: str) -> int:
        size = self._head(key)
        if size is None:
            raise ObjectMissing(f"object {key} is not in the store {self.url}")
        return size

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix + prefix)
        try:
            for page in pages:
                for item in page.get("Contents", ()):
                    yield ObjectInfo(item["Key"].removeprefix(self.prefix), item["Size"])
        except (ClientError, BotoCoreError) as error:
            self._explain(error, f"{prefix}*")

    def delete(self, keys: Iterable[str]) -> None:
        names = [{"Key": self._key(key)} for key in keys]
        for start in range(0, len(names), _DELETE_BATCH):
            batch = names[start : start + _DELETE_BATCH]
            try:
                answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": batch, "Quiet": True})
            except (ClientError, BotoCoreError) as error:
                self._explain(error, batch[0]["Key"])
            for failed in answer.get("Errors", ()):
                raise StoreUnavailable(
                    f"object {failed.get('Key')} in {self.url} could not be deleted: {failed.get('Code')}; run again"
                )

    def locate(self, key: str) -> str:
        return f"s3://{self.bucket}/{self._key(key)}"

    def scan_options(self) -> dict[str, Any] | None:
        settings = self._settings
        options: dict[str, Any] = {"aws_region": settings.region}
        if settings.endpoint_url:
            options |= {
                "aws_endpoint_url": settings.endpoint_url,
                "aws_virtual_hosted_style_request": "false",
                "aws_allow_http": str(settings.endpoint_url.startswith("http://")).lower(),
            }
        if settings.access_key and settings.secret_key:
            options |= {
                "aws_access_key_id": settings.access_key.get_secret_value(),
                "aws_secret_access_key": settings.secret_key.get_secret_value(),
            }
        return options

    def _key(self, key: str) -> str:
        return self.prefix + check_key(key)

    def _call(self, operation: str, key: str, **arguments: Any) -> Any:
        try:
            return getattr(self._client, operation)(Bucket=self.bucket, Key=self._key(key), **arguments)
        except (ClientError, BotoCoreError) as error:
            self._explain(error, key)

    def _head(self, key: str) -> int | None:
        try:
            return self._client.head_object(Bucket=self.bucket, Key=self._key(key))["ContentLength"]
        except ClientError as error:
            if _code(error) in _MISSING:
                return None  # also when the bucket is missing: HEAD has no body to tell them apart
            self._explain(error, key)
        except BotoCoreError as error:
            self._explain(error, key)

    def _explain(self, error: ClientError | BotoCoreError, key: str) -> NoReturn:
        if isinstance(error, NoCredentialsError):
            raise StoreDenied(
                f"the object store {self.url} needs credentials: set BACKLINKS_OBJECTS__ACCESS_KEY and "
                "BACKLINKS_OBJECTS__SECRET_KEY, or AWS' own settings"
            ) from error
        if isinstance(error, ClientError):
            code = _code(error)
            if code in _MISSING:
                raise ObjectMissing(f"object {key} is not in the store {self.url}") from error
            if code in _DENIED:
                raise StoreDenied(
                    f"object {key}: the store {self.url} answers {code}; check that the bucket is there and that the "
                    "credentials may use it"
                ) from error
            if code in _FULL:
                raise StoreFull(
                    f"object {key}: the store {self.url} is full ({code}); free space and run again"
                ) from error
            if (_status(error) or 500) < 500 and code not in _TRY_AGAIN:
                raise PermanentError(f"object {key}: the store {self.url} refuses the request: {code}") from error
            raise StoreUnavailable(f"object {key}: the store {self.url} answers {code}; try again later") from error
        raise StoreUnavailable(
            f"object {key}: the store {self.url} does not answer ({type(error).__name__}); check that it runs and "
            "BACKLINKS_OBJECTS__ENDPOINT_URL"
        ) from error


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def _status(error: ClientError) -> int | None:
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
