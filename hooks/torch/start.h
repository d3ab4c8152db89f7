/* SPDX-License-Identifier: MIT */
/*
 * How a Python program comes to use the hook for PyTorch without being changed.
 *
 * The preload's constructor runs before main(): it puts our directory into PYTHONPATH, where
 * the interpreter finds our sitecustomize.py, which takes it out again and waits for torch
 * (hooks/torch/python).
 */
#ifndef TS_HOOKS_TORCH_START_H
#define TS_HOOKS_TORCH_START_H

/**
 * In a CPython interpreter (3.8 or later) that will honour it, put the directory `python` next
 * to this library in front of PYTHONPATH.  Does nothing elsewhere, or when the directory is not
 * there, and then costs one comparison in a program without libpython.
 *
 * @argc and @argv are those the constructor was given; @argv stays the caller's.
 * Threads: the constructor only, as it writes the environment.  Keeps errno.
 */
void ts_torch_begin(int argc, char *const *argv);

/**
 * At the end of the process, before ts_session_finish(): count `torch_isolated` once if PyTorch
 * was loaded by an interpreter that was told to ignore PYTHONPATH.
 */
void ts_torch_end(void);

#endif
