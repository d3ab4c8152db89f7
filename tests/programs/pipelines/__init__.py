# SPDX-License-Identifier: MIT
"""
Small pipelines in the spirit of public training programs, by what they load.

Each is a class with make(options), which gives the loaders: of training, and of validation if
there are any.  SHARES says what of them two aligned jobs share: "all", or why not (a reason of
docs/programs.md).  samples(batch) splits a batch whose samples are not the rows of its parts.
"""
