# SPDX-License-Identifier: MIT
"""
Small pipelines in the spirit of public training programs, by what they load.

Each is a class with make(options), which gives the loaders: of training, and of validation if
there are any.  Attributes it may have: SHARES, what of them two aligned jobs share ("all", "not
aligned", or a word of the reason); BY_BATCH, that this is for jobs with equal batches; REPEATS =
False, that two plain runs differ; samples(batch), which splits a batch whose samples are not the
rows of its parts.
"""


def pipeline(about, make, **attributes):
    """One that is told in a word: @make(options) gives its loaders."""
    return type("Pipeline", (), {"__doc__": about, "__module__": make.__module__,
                                 "make": staticmethod(make), **attributes})
