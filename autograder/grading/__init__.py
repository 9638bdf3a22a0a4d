"""Grading submissions: student code in a process of its own, everything that decides a mark outside of it."""
