"""Allocators: who gets how many rollouts."""
