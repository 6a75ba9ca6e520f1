"""Forms: whatever bytes the parts hold, they come back; broken forms are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3.filepost import encode_multipart_formdata

from warehouse.local.front.forms import BadForm, Part, parts


@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\\%"), min_size=1), st.binary()), min_size=1
    )
)
def test_what_urllib3_writes_is_read(fields: list[tuple[str, bytes]]) -> None:
    body, content_type = encode_multipart_formdata([(name, ("file", value)) for name, value in fields])
    assert parts(body, content_type) == [Part(name, value) for name, value in fields]


@pytest.mark.parametrize(
    ("body", "content_type", "why"),
    [
        (b"x", "multipart/form-data", "no boundary"),
        (b"rubbish", "multipart/form-data; boundary=b", "before its last boundary"),
        (
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nv',
            "multipart/form-data; boundary=b",
            "before its last boundary",
        ),
        (b"--b\r\nContent-Disposition: form-data\r\n\r\nv\r\n--b--", "multipart/form-data; boundary=b", "no name"),
    ],
)
def test_broken_forms(body: bytes, content_type: str, why: str) -> None:
    with pytest.raises(BadForm, match=why):
        parts(body, content_type)
