"""What can be wrong with an import: with the file as a whole (an error) or with a row (a reason).

Here: the error class, results and row reasons. Not here: who finds them.
"""

from __future__ import annotations

from enum import StrEnum

from transforms.errors import PermanentError


class ImportFileError(PermanentError):
    """The file as a whole cannot be imported; the message names it and says what to do."""


class TargetNeeded(ImportFileError):
    """The file names no targets and neither does the caller."""


class RowResult(StrEnum):
    """How a row ended, as the ledger's ENUM spells it. Every data row ends in exactly one of them."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    INVALID = "invalid"


class RowReason(StrEnum):
    """Why a row was not accepted. Reasons of URL identity (`transforms.urls`) come besides, as `source_<reason>` or
    `target_<reason>`."""

    # -- duplicates -----
    REPEATED_IN_FILE = "repeated_in_file"  # an earlier row of this file names the same edge
    ALREADY_KNOWN = "already_known"  # the project had this edge before: nothing is wrong with the row, and nothing new in it
    # -- the line as such -----
    LINE_TOO_LONG = "line_too_long"  # more than a mebibyte before the next line end
    UNCLOSED_QUOTE = "unclosed_quote"  # a quoted field never ends, or swallows whole rows
    FIELD_TOO_LONG = "field_too_long"  # one cell of more than 128 KiB
    RAGGED_ROW = "ragged_row"  # more or fewer cells than headings, and no URL where one must be
    # -- a cell -----
    SOURCE_MISSING = "source_missing"
    TARGET_MISSING = "target_missing"
    SOURCE_BAD_ENCODING = "source_bad_encoding"  # bytes that the file's encoding does not know
    TARGET_BAD_ENCODING = "target_bad_encoding"
    SOURCE_CONTROL_CHARACTER = "source_control_character"
    TARGET_CONTROL_CHARACTER = "target_control_character"
    SOURCE_NOT_A_URL = "source_not_a_url"
    TARGET_NOT_A_URL = "target_not_a_url"
    # -- the edge -----
    NOT_A_LINK = "not_a_link"  # the export says that it is an image, a style sheet or a script
    TARGET_OUT_OF_SCOPE = "target_out_of_scope"  # no target of the project covers it
    TARGET_LIMIT = "target_limit"  # its domain would be one target too many for the project
