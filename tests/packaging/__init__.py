"""What users get: archives, bill of materials, image, completion, and the house rules of the repository."""
