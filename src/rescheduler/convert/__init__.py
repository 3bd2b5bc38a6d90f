"""Converts the configurations of descheduler, koordinator and KubeSchedulerConfiguration to the native form."""
