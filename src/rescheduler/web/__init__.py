"""What people and their monitoring look at: metrics and health."""
