"""Leadsman on one computer: a fleet of processes in place of pods, and a simulator of both."""
