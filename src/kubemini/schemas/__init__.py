"""What objects are made of as far as patches, server-side apply and definitions need to know it."""
