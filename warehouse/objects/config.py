"""Where snapshots and datasets are kept."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr


class ObjectStoreSettings(BaseModel):
    url: str = Field(".stack/objects", description="a directory, or s3://bucket/prefix")
    endpoint_url: str | None = Field(None, description="an S3-compatible server's address; null: AWS")
    region: str = "us-east-1"
    access_key: SecretStr | None = None
    secret_key: SecretStr | None = None
