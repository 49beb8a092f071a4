"""Runnable experiments: run, bench, inspect, configs."""
