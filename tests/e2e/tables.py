# SPDX-License-Identifier: MIT
"""The tables of options, commands and reasons, as scripts/tables reads them."""

import support

support.search("scripts", "tables")

import pages  # noqa: E402, F401
import rows  # noqa: E402

commands, settings, words = rows.commands, rows.settings, rows.words


def options():
    """Every setting, also what only the environment has."""
    return rows.only_options(settings())


def reasons():
    """{id: (line for people, what helps; "" or None)}, in order."""
    return {identity: (text, fix) for identity, text, fix, _ in rows.reasons()}
